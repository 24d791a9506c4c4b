package io.github.taskengine.client;

import com.google.protobuf.MessageLite;
import io.grpc.MethodDescriptor;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The calls of a client with one request and one answer. */
final class Calls {
  private static final Failure CLOSED =
      Failure.closed("the client is closed: the request may have been carried out");

  private final Nodes nodes;
  private final Sender sender;
  private final CountDownLatch closed = new CountDownLatch(1);

  Calls(Nodes nodes, Sender sender) {
    this.nodes = nodes;
    this.sender = sender;
  }

  /** Has calls under way end, once their connections are closed, and those that come. */
  void close() {
    closed.countDown();
  }

  /** The nodes of the client. */
  Nodes nodes() {
    return nodes;
  }

  /**
   * Checks that the client is open.
   *
   * @throws ClosedException if it is not
   */
  void checkOpen() {
    if (closed.getCount() == 0) {
      throw CLOSED.exception();
    }
  }

  /** Waits for so many nanoseconds, or until the client is closed. */
  void rest(long nanos) throws InterruptedException {
    closed.await(nanos, TimeUnit.NANOSECONDS);
  }

  /**
   * Makes a call. If no node answers, it makes it again until its time is over: always if it is
   * repeatable, and otherwise while no node can have received it.
   *
   * @param nanos that it may take
   */
  <Q, A> A make(MethodDescriptor<Q, A> method, Q request, boolean isRepeatable, long nanos) {
    sender.checkThread();
    try {
      return repeat(method, request, isRepeatable, Deadline.after(nanos));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new CallInterruptedException(e);
    }
  }

  private <Q, A> A repeat(
      MethodDescriptor<Q, A> method, Q request, boolean isRepeatable, Deadline deadline)
      throws InterruptedException {
    Pause pauses = new Pause();
    while (true) {
      checkOpen();
      int size = request instanceof MessageLite message ? message.getSerializedSize() : 0;
      Patience patience =
          Patience.of(deadline.left(), size, nodes.hasOthers(), Patience.MOST_QUIET);
      Node node = nodes.pick(deadline, patience, !isRepeatable);
      Failure failure = nodes.absent();
      if (node != null) {
        Node.Answer<A> answer = node.call(method, request, deadline.left(), patience);
        if (answer.failure() == null) {
          return Objects.requireNonNull(answer.message());
        }
        failure = answer.failure();
        if (failure.kind() == Failure.Kind.UNAVAILABLE) {
          nodes.leave(node);
        }
      }
      checkOpen();
      long pause = pauses.next();
      if (!failure.mayRepeat() || node != null && !isRepeatable || deadline.left() <= pause) {
        throw failure.exception();
      }
      rest(pause);
    }
  }
}
