package io.github.taskengine.client;

import io.grpc.MethodDescriptor;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The items of streams, one stream after the other. When its node does not answer, it goes on at
 * another one. One thread reads it. Any thread may close it.
 */
final class Following<Q, A, E> {
  static final Duration LASTS = Duration.ofSeconds(30); // that a stream is asked to last
  private static final long MOST_QUIET = TimeUnit.SECONDS.toNanos(45); // of a stream

  /** What is followed, and how far it is. */
  interface Progress<Q, A, E> {
    /** The request for what comes after the answers that were taken. */
    Q request();

    /** Adds the items of an answer. */
    void take(A answer, Queue<E> items);

    /** Whether nothing follows. */
    default boolean isOver() {
      return false;
    }
  }

  private final Calls calls;
  private final long timeout;
  private final MethodDescriptor<Q, A> method;
  private final Progress<Q, A, E> progress;
  private final String closed; // why next fails after close
  private final Pause pauses = new Pause();
  private final Queue<E> ready = new ArrayDeque<>();
  private @Nullable Node node; // of answers
  private volatile @Nullable Answers<Q, A> answers; // null: the next stream is to begin
  private volatile boolean isClosed;

  Following(
      Calls calls,
      long timeout,
      MethodDescriptor<Q, A> method,
      Progress<Q, A, E> progress,
      String closed) {
    this.calls = calls;
    this.timeout = timeout;
    this.method = method;
    this.progress = progress;
    this.closed = closed;
  }

  /** Whether it was closed. */
  boolean isClosed() {
    return isClosed;
  }

  /**
   * Waits until there is an item, and leaves it.
   *
   * @return whether there is one; otherwise nothing follows
   * @throws NoSuchElementException if this is closed
   * @throws ClosedException if the client is closed
   */
  boolean await() {
    try {
      while (ready.isEmpty()) {
        if (progress.isOver()) {
          end();
          return false;
        }
        read();
      }
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new CallInterruptedException(e);
    }
  }

  /** Takes the item for which await has waited. */
  E take() {
    return ready.remove();
  }

  /** Ends the connection. */
  void close() {
    isClosed = true;
    end();
  }

  private void end() {
    Answers<Q, A> open = answers;
    if (open != null) {
      open.cancel(closed);
    }
  }

  /** Reads an answer, or begins a stream. */
  private void read() throws InterruptedException {
    check();
    Answers<Q, A> open = answers;
    if (open == null) {
      begin();
      return;
    }
    Answers.Item<A> item = open.next(MOST_QUIET);
    if (item.answer() != null) {
      progress.take(item.answer(), ready);
      pauses.reset();
      return;
    }
    answers = null;
    if (item.failure() != null) {
      check();
      Failure failure = item.failure();
      boolean isLeft =
          failure.kind() == Failure.Kind.UNAVAILABLE || failure.code().equals("canceled");
      if (!isLeft) {
        throw failure.exception();
      }
      calls.nodes().leave(node);
      calls.rest(pauses.next());
    }
  }

  private void check() {
    if (isClosed) {
      throw new NoSuchElementException(closed);
    }
    calls.checkOpen();
  }

  private void begin() throws InterruptedException {
    Deadline deadline = Deadline.after(timeout);
    Nodes nodes = calls.nodes();
    Patience patience = Patience.of(deadline.left(), 0, nodes.hasOthers(), Patience.MOST_QUIET);
    node = nodes.pick(deadline, patience, false);
    if (node == null) {
      calls.rest(pauses.next());
      return;
    }
    try {
      answers = new Answers<>(node, method, progress.request());
    } catch (IOException e) {
      nodes.leave(node);
      calls.rest(pauses.next());
      return;
    }
    if (isClosed) {
      end();
    }
  }
}
