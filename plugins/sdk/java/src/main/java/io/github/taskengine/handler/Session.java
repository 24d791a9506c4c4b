package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.Status;
import io.netty.channel.EventLoop;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The one stream of the process: runs come in, answers go out. It belongs to the event loop, which
 * calls all of its methods.
 */
final class Session extends ServerCall.Listener<Wire.ToHandler> {
  static final int PROTOCOL = 1;
  static final String SDK_VERSION = "0.1.0";

  private final Program program;
  private final ServerCall<Wire.ToHandler, Wire.FromHandler> call;
  private final Outbox outbox;
  private final Runs runs;
  private boolean greeted;

  Session(Program program, ServerCall<Wire.ToHandler, Wire.FromHandler> call, EventLoop loop) {
    this.program = program;
    this.call = call;
    this.outbox = new Outbox(loop);
    this.runs = new Runs(program, loop, outbox, null);
    call.sendHeaders(new Metadata());
    call.request(1);
  }

  @Override
  public void onMessage(Wire.ToHandler frame) {
    if (!greeted && !greet(frame.getWelcome())) {
      return;
    }
    runs.take(frame);
    call.request(1);
  }

  /** Answers the welcome of the host, or ends the stream if they cannot work together. */
  private boolean greet(Wire.Welcome welcome) {
    if (welcome.getProtocol() != PROTOCOL) {
      String why =
          "the host speaks version %d of the protocol, this handler version %d"
              .formatted(welcome.getProtocol(), PROTOCOL);
      end(Status.FAILED_PRECONDITION.withDescription(why));
      return false;
    }
    greeted = true;
    int slots = welcome.getSlots() != 0 ? welcome.getSlots() : program.slots();
    runs.agree(welcome, slots);
    outbox.open(new Stream(call), List.of(frame -> frame.hello(program.hello(slots), slots)));
    return true;
  }

  private record Stream(ServerCall<?, Wire.FromHandler> call) implements Outbox.Sink {
    @Override
    public boolean isReady() {
      return call.isReady();
    }

    @Override
    public void send(Wire.FromHandler frame) {
      call.sendMessage(frame);
    }
  }

  @Override
  public void onReady() {
    outbox.flush();
  }

  @Override
  public void onHalfClose() {
    end(Status.OK);
  }

  @Override
  public void onCancel() {
    end(null);
  }

  /** Ends everything, and sends a status to the host if that is still possible. */
  private void end(@Nullable Status status) {
    outbox.close();
    runs.cancelAll(new Cancellation(Cancellation.Reason.CANCELLED, "the host is gone"));
    if (status != null) {
      call.close(status, new Metadata());
    }
    program.over(status == null ? Status.OK : status);
  }
}
