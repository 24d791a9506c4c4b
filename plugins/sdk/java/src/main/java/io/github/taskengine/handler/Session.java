package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.Status;
import io.netty.channel.EventLoop;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.RejectedExecutionException;
import org.jspecify.annotations.Nullable;

/**
 * The one stream of the process: runs come in, answers go out. It belongs to the event loop, which
 * calls all of its methods but {@link #answer}; handlers run elsewhere.
 */
final class Session extends ServerCall.Listener<Wire.ToHandler> {
  static final int PROTOCOL = 1;
  static final String SDK_VERSION = "0.1.0";

  private final Program program;
  private final ServerCall<Wire.ToHandler, Wire.FromHandler> call;
  private final EventLoop loop;
  private final Outbox outbox;
  private final Map<Long, Run> running = new HashMap<>(); // those that are not answered
  private final Map<String, Batch> batches = new HashMap<>();

  // Set by the welcome of the host.
  private @Nullable Host host;
  private volatile @Nullable Answers answers;
  private int slots;

  Session(Program program, ServerCall<Wire.ToHandler, Wire.FromHandler> call, EventLoop loop) {
    this.program = program;
    this.call = call;
    this.loop = loop;
    this.outbox = new Outbox(call, loop);
    program.routes().forEach((type, route) -> batches.put(type, batchOf(route)));
    call.sendHeaders(new Metadata());
    call.request(1);
  }

  private Batch batchOf(Handlers.Route route) {
    return new Batch(route.most(), route.patience(), loop, runs -> call(runs, route.handler()));
  }

  private void call(List<Run> runs, BatchHandler handler) {
    Call work = new Call(this, handler, runs);
    runs.forEach(run -> run.begin(work));
    try {
      program.executor().execute(work);
    } catch (RejectedExecutionException | OutOfMemoryError e) { // there is no thread for it
      for (Run run : runs) {
        running.remove(run.runId());
        refuse(run.runId(), "the program cannot start a thread: " + e);
      }
    }
  }

  @Override
  public void onMessage(Wire.ToHandler frame) {
    if (host == null && !greet(frame.getWelcome())) {
      return;
    }
    for (Wire.Run run : frame.getRunsList()) {
      begin(run);
    }
    for (Wire.Cancel cancel : frame.getCancelsList()) {
      cancel(cancel);
    }
    if (frame.hasDrain() || running.size() >= slots) { // no further task can join a batch
      batches.values().forEach(Batch::release);
    }
    long ping = frame.getPing();
    if (ping != 0) {
      outbox.post(answer -> answer.pong(ping));
    }
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
    Host greeted = Host.of(welcome);
    host = greeted;
    answers = new Answers(program.codec(), greeted);
    slots = welcome.getSlots() != 0 ? welcome.getSlots() : program.slots();
    Wire.Hello hello =
        Wire.Hello.newBuilder()
            .setProtocol(PROTOCOL)
            .setSdk("java")
            .setSdkVersion(SDK_VERSION)
            .setVersion(program.version())
            .addAllTypes(program.routes().keySet())
            .setSlots(slots)
            .addAllFeatures(
                List.of(
                    Host.PROGRESS,
                    Host.HEARTBEAT,
                    Host.CHECKPOINT,
                    Host.CHILDREN,
                    Host.SIGNALS,
                    Host.RERUN,
                    Host.ENDED))
            .build();
    outbox.post(frame -> frame.hello(hello, slots));
    return true;
  }

  private void begin(Wire.Run wire) {
    Batch batch = batches.get(wire.getType());
    if (batch == null) {
      refuse(wire.getRunId(), "the program does not serve the type \"" + wire.getType() + "\"");
    } else if (running.size() >= slots) {
      refuse(wire.getRunId(), "the program runs " + slots + " tasks already");
    } else {
      Run run = new Run(wire, program.codec(), host, outbox);
      running.put(run.runId(), run);
      batch.add(run);
    }
  }

  private void refuse(long runId, String why) {
    outbox.post(frame -> frame.finish(Answers.refused(runId, why)));
  }

  private void cancel(Wire.Cancel cancel) {
    Run run = running.get(cancel.getRunId());
    if (run == null) {
      return; // it is answered
    }
    boolean late = cancel.getReason() == Wire.Cancel.Reason.REASON_DEADLINE;
    cancel(
        run,
        new Cancellation(
            late ? Cancellation.Reason.DEADLINE : Cancellation.Reason.CANCELLED,
            cancel.getMessage()));
  }

  private void cancel(Run run, Cancellation why) {
    if (!run.cancel(why)) {
      batches.get(run.type()).remove(run);
      answer(run, new CancellationException());
    }
  }

  /** Answers a run with what its handler returned or threw. Any thread may call it. */
  void answer(Run run, @Nullable Object outcome) {
    Wire.Finish finish = answers.of(run, outcome);
    outbox.post(
        frame -> {
          running.remove(run.runId());
          run.answer(frame, finish);
        });
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
    Cancellation gone = new Cancellation(Cancellation.Reason.CANCELLED, "the host is gone");
    for (Run run : new ArrayList<>(running.values())) {
      cancel(run, gone);
    }
    if (status != null) {
      call.close(status, new Metadata());
    }
    program.over(status == null ? Status.OK : status);
  }
}
