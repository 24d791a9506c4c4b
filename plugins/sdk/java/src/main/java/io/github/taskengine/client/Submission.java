package io.github.taskengine.client;

import java.util.concurrent.CompletableFuture;

/** A task that a caller waits for. It may be completed by any thread: then it is not sent again. */
final class Submission extends CompletableFuture<Receipt> {
  final byte[] message;
  final String id;
  final boolean isOwn; // the client has made the id: nothing else adds a task under it
  final long end; // in System.nanoTime
  final long wait; // nanoseconds from when it was made
  long sequence; // when it was sent last; owned by the flow

  Submission(byte[] message, String id, boolean isOwn, long end) {
    this.message = message;
    this.id = id;
    this.isOwn = isOwn;
    this.end = end;
    this.wait = end - System.nanoTime();
  }

  /** Takes its receipt. */
  void land(Receipt receipt) {
    complete(firstOfTwo(receipt, id, isOwn));
  }

  /** Takes why it has no receipt. */
  void land(Failure failure) {
    if (!isDone()) {
      completeExceptionally(failure.exception());
    }
  }

  /**
   * The receipt of a request that may have been sent twice: if nothing else adds a task under its
   * id, an earlier try has added it.
   */
  static Receipt firstOfTwo(Receipt receipt, String id, boolean isOwn) {
    return !receipt.created() && isOwn && receipt.id().equals(id)
        ? new Receipt(id, true, "created", receipt.warning())
        : receipt;
  }
}
