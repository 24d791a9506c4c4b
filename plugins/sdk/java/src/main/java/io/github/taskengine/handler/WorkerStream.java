package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.internal.Access;
import io.github.taskengine.internal.Address;
import io.github.taskengine.internal.Causes;
import io.github.taskengine.internal.Channels;
import io.github.taskengine.internal.Daemons;
import io.github.taskengine.internal.Transport;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.ProtoUtils;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One stream of a worker, from its offer to its end. It belongs to the event loop. */
final class WorkerStream extends ClientCall.Listener<Wire.ToHandler> implements Outbox.Sink {
  static final MethodDescriptor<Wire.FromHandler, Wire.ToHandler> WORK =
      MethodDescriptor.<Wire.FromHandler, Wire.ToHandler>newBuilder()
          .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
          .setFullMethodName("taskengine.handler.v1.Workers/Work")
          .setRequestMarshaller(ProtoUtils.marshaller(Wire.FromHandler.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(Wire.ToHandler.getDefaultInstance()))
          .build();

  private final Dialer dialer;
  private final EventLoop loop;
  private final CompletableFuture<End> over = new CompletableFuture<>();
  private @Nullable ClientCall<Wire.FromHandler, Wire.ToHandler> call;
  private @Nullable ScheduledFuture<?> timer; // for the welcome
  private final Liveness liveness;
  private boolean welcomed;
  private @Nullable String why; // of an end by this side

  /**
   * How a stream ended.
   *
   * @param welcomed whether the node had welcomed the worker
   * @param why it ended; null if that was in order
   */
  record End(boolean welcomed, @Nullable String why) {}

  WorkerStream(Dialer dialer, EventLoop loop) {
    this.dialer = dialer;
    this.loop = loop;
    liveness = new Liveness(loop);
  }

  /** Opens a connection, and runs tasks until it ends. */
  End serve() throws InterruptedException {
    EventLoopGroup group =
        new MultiThreadIoEventLoopGroup(1, Daemons.named("taskengine-io-"), Transport.best().io());
    ManagedChannel channel = null;
    try {
      ManagedChannel opened = open(group);
      channel = opened;
      loop.execute(() -> start(opened));
      return over.get();
    } catch (IOException | RuntimeException e) {
      return new End(false, String.valueOf(e.getMessage()));
    } catch (ExecutionException e) {
      return new End(welcomed, String.valueOf(e.getCause()));
    } finally {
      if (channel != null) {
        channel.shutdownNow();
      }
      group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }
  }

  private ManagedChannel open(EventLoopGroup group) throws IOException {
    Address address = Address.of(dialer.address());
    Access access = dialer.to().access();
    return Channels.to(address.target(), address.isSecure(access), access, group)
        .maxInboundMessageSize(Integer.MAX_VALUE)
        .build();
  }

  private void start(ManagedChannel channel) {
    long patience = dialer.patience();
    String late =
        "the node did not answer within "
            + Math.max(1, TimeUnit.NANOSECONDS.toSeconds(patience))
            + " s";
    timer = loop.schedule(() -> end(late), patience, TimeUnit.NANOSECONDS);
    call = channel.newCall(WORK, CallOptions.DEFAULT);
    call.start(this, dialer.to().access().headers());
    call.request(1);
    call.sendMessage(dialer.offer());
  }

  @Override
  public boolean isReady() {
    return call.isReady();
  }

  @Override
  public void send(Wire.FromHandler frame) {
    call.sendMessage(frame);
  }

  @Override
  public void onMessage(Wire.ToHandler frame) {
    loop.execute(() -> take(frame));
  }

  @Override
  public void onReady() {
    loop.execute(
        () -> {
          if (welcomed) {
            dialer.flush();
          }
        });
  }

  @Override
  public void onClose(Status status, Metadata trailers) {
    loop.execute(() -> close(status));
  }

  private void take(Wire.ToHandler frame) {
    if (why != null) {
      return;
    }
    liveness.hear();
    if (welcomed) {
      dialer.take(frame);
    } else {
      greet(frame);
    }
    call.request(1);
  }

  private void greet(Wire.ToHandler frame) {
    timer.cancel(false);
    Wire.Welcome welcome = frame.getWelcome();
    if (welcome.getProtocol() != Session.PROTOCOL) {
      end(
          "the node speaks version %d of the protocol, this worker version %d"
              .formatted(welcome.getProtocol(), Session.PROTOCOL));
      return;
    }
    if (welcome.getSlots() == 0) {
      end("the node gives the worker no slot");
      return;
    }
    welcomed = true;
    dialer.begin(welcome, this);
    liveness.watch(welcome.getLiveness(), this::end);
  }

  private void end(String why) {
    if (this.why == null) {
      this.why = why;
      call.cancel(why, null);
    }
  }

  private void close(Status status) {
    timer.cancel(false);
    liveness.close();
    dialer.pause();
    if (why == null && !(status.isOk() && welcomed)) {
      String details = status.getDescription();
      why = details == null ? "the stream ended with status " + status.getCode() : details;
      if (status.getCause() != null && status.getCode() == Status.Code.UNAVAILABLE) {
        why += ": " + Causes.textOf(status.getCause());
      }
    }
    over.complete(new End(welcomed, why));
  }
}
