package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import io.netty.channel.EventLoop;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One stream of submits, until it ends. It belongs to the event loop. */
final class SubmitStream extends ClientCall.Listener<Api.SubmitStreamResponse> {
  private static final int END = 5; // seconds for the outcomes of a node that stops

  private final Flow flow;
  private final EventLoop loop;
  private final Node node;
  private final Node.Line line;
  private final Runnable received;
  private final CompletableFuture<End> over = new CompletableFuture<>();
  private @Nullable ClientCall<byte[], Api.SubmitStreamResponse> call;
  private @Nullable ScheduledFuture<?> timer; // since the node stops

  /**
   * How a stream ended.
   *
   * @param failure why; null if the node stops
   */
  record End(@Nullable Failure failure) {}

  SubmitStream(Flow flow, EventLoop loop, Node node, Node.Line line, Runnable received) {
    this.flow = flow;
    this.loop = loop;
    this.node = node;
    this.line = line;
    this.received = received;
  }

  CompletableFuture<End> over() {
    return over;
  }

  void start() {
    call = line.call(Methods.SUBMIT_STREAM, CallOptions.DEFAULT);
    call.start(this, node.headers());
    call.request(Integer.MAX_VALUE); // the requests without an outcome are bounded
    send();
  }

  /** Sends what can be sent. */
  void send() {
    while (timer == null && flow.canSend() && call.isReady()) {
      byte[] message = flow.nextMessage();
      if (message != null) {
        call.sendMessage(message);
      }
    }
  }

  void cancel() {
    call.cancel("the client is closed", null);
  }

  @Override
  public void onReady() {
    onLoop(this::send);
  }

  @Override
  public void onMessage(Api.SubmitStreamResponse response) {
    onLoop(() -> take(response));
  }

  private void take(Api.SubmitStreamResponse response) {
    if (flow.resolve(node.address(), response) && timer == null) {
      timer = loop.schedule(() -> call.cancel("the node stops", null), END, TimeUnit.SECONDS);
      call.halfClose();
    }
    received.run();
  }

  @Override
  public void onClose(Status status, Metadata trailers) {
    onLoop(
        () -> {
          line.release();
          boolean isStopped = timer != null && status.getCode() == Status.Code.CANCELLED;
          if (timer != null) {
            timer.cancel(false);
          }
          over.complete(
              new End(
                  status.isOk() || isStopped
                      ? null
                      : Failure.ofStatus(status, trailers, node.address())));
        });
  }

  private void onLoop(Runnable job) {
    if (loop.inEventLoop()) {
      job.run();
    } else {
      loop.execute(job);
    }
  }
}
