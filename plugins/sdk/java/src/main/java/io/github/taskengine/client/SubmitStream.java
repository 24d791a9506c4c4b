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
  private final boolean hasOthers;
  private final Runnable received;
  private final CompletableFuture<End> over = new CompletableFuture<>();
  private @Nullable ClientCall<byte[], Api.SubmitStreamResponse> call;
  private @Nullable ScheduledFuture<?> timer; // since the node stops
  private @Nullable ScheduledFuture<?> watch; // the next look at what the node owes
  private @Nullable Failure silence; // why the node was left

  /**
   * How a stream ended.
   *
   * @param failure why; null if the node stops
   */
  record End(@Nullable Failure failure) {}

  SubmitStream(
      Flow flow, EventLoop loop, Node node, Node.Line line, boolean hasOthers, Runnable received) {
    this.hasOthers = hasOthers;
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
    if (watch == null && !over.isDone() && flow.isAwaiting()) {
      watch(node.isSilent() ? 0 : flow.patience(hasOthers).quiet());
    }
  }

  private void watch(long nanos) {
    watch = loop.schedule(this::check, nanos, TimeUnit.NANOSECONDS);
  }

  /** Probes a node that owes outcomes and says nothing. */
  private void check() {
    watch = null;
    if (over.isDone() || !flow.isAwaiting()) {
      return;
    }
    Patience patience = flow.patience(hasOthers);
    long rest = patience.quiet() - (System.nanoTime() - node.heard());
    if (node.isSilent()) { // as another call has found
      leave();
    } else if (rest > 0) {
      watch(rest);
    } else {
      long begin = System.nanoTime();
      watch = loop.schedule(() -> decide(begin, patience), patience.probe(), TimeUnit.NANOSECONDS);
      ScheduledFuture<?> last = watch;
      node.probe().thenAccept(isAlive -> onLoop(() -> answered(isAlive, last, patience)));
    }
  }

  private void answered(boolean isAlive, ScheduledFuture<?> last, Patience patience) {
    if (isAlive && watch == last && !over.isDone() && last.cancel(false)) {
      watch(patience.quiet());
    }
  }

  private void decide(long begin, Patience patience) {
    watch = null;
    if (over.isDone()) {
      return;
    }
    if (node.heard() - begin >= 0) {
      watch(patience.quiet());
    } else {
      leave();
    }
  }

  private void leave() {
    silence = node.silent();
    call.cancel("the node does not answer", null);
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
    node.hear();
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
          if (watch != null) {
            watch.cancel(false);
          }
          if (silence != null) {
            over.complete(new End(silence));
            return;
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
