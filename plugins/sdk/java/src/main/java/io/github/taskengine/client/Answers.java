package io.github.taskengine.client;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The answers of one stream. One thread reads them, and any may cancel it. */
final class Answers<Q, A> extends ClientCall.Listener<A> {
  private final BlockingQueue<Item<A>> items =
      new LinkedBlockingQueue<>(); // at most one and the end
  private final Node node;
  private final Node.Line line;
  private final ClientCall<Q, A> call;

  /**
   * An answer, or the end.
   *
   * @param answer null at the end
   * @param failure why it ends; null if the node has ended it in order
   */
  record Item<A>(@Nullable A answer, @Nullable Failure failure) {}

  /**
   * Begins a stream.
   *
   * @throws IOException if there is no connection
   */
  Answers(Node node, MethodDescriptor<Q, A> method, Q request) throws IOException {
    this.node = node;
    line = node.use();
    call = line.call(method, CallOptions.DEFAULT);
    call.start(this, node.headers());
    call.sendMessage(request);
    call.halfClose();
  }

  /** Waits for the next answer, for so many nanoseconds. A node that says nothing is left. */
  Item<A> next(long nanos) throws InterruptedException {
    call.request(1);
    Item<A> item = items.poll(nanos, TimeUnit.NANOSECONDS);
    if (item != null) {
      return item;
    }
    cancel("the node does not answer");
    return new Item<>(null, node.silent());
  }

  void cancel(String why) {
    call.cancel(why, null);
  }

  @Override
  public void onMessage(A answer) {
    node.hear();
    items.add(new Item<>(answer, null));
  }

  @Override
  public void onClose(Status status, Metadata trailers) {
    line.release();
    items.add(
        new Item<>(
            null, status.isOk() ? null : Failure.ofStatus(status, trailers, node.address())));
  }
}
