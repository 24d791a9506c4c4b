package io.github.taskengine.client;

import com.google.protobuf.CodedOutputStream;
import io.github.taskengine.client.internal.Api;
import io.netty.util.collection.LongObjectHashMap;
import io.netty.util.collection.LongObjectMap;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The tasks that callers submit, until each has its outcome. It decides what is sent, and waits for
 * nothing. It belongs to the event loop.
 */
final class Flow {
  static final int MESSAGE_TASKS = 1000; // in one message
  static final int MESSAGE_BYTES = 1 << 20; // likewise, of a message with several tasks
  static final int MOST_SENT = 4000; // requests without an outcome, as the node allows

  private static final int TASKS_TAG = 1 << 3 | 2;
  private static final int SEQUENCE_TAG = 1 << 3;
  private static final int TASK_TAG = 2 << 3 | 2;

  private final ArrayDeque<Submission> queue = new ArrayDeque<>(); // to be sent
  private final LongObjectMap<Submission> sent = new LongObjectHashMap<>(); // without an outcome
  private long last; // sequence
  private long answered;
  private volatile @Nullable Failure
      trouble; // why the last stream has ended; null after an outcome

  /** How many outcomes there were. */
  long answered() {
    return answered;
  }

  boolean isEmpty() {
    return queue.isEmpty();
  }

  /** Whether something can be sent now. */
  boolean canSend() {
    return !queue.isEmpty() && sent.size() < MOST_SENT;
  }

  /** Whether something that was sent has no outcome. */
  boolean isAwaiting() {
    return !sent.isEmpty();
  }

  /** The patience with a node that has said nothing about what was sent. */
  Patience patience(boolean hasOthers) {
    long wait = Deadline.NEVER;
    long size = 0;
    for (Submission s : sent.values()) {
      wait = Math.min(wait, s.wait);
      size += s.message.length;
    }
    return Patience.of(wait, size, hasOthers, Patience.MOST_QUIET / 3);
  }

  void add(Submission submission) {
    queue.add(submission);
  }

  /** The failure of a submission whose timeout is over. Any thread may call it. */
  Failure lateness() {
    String words = "the task may have been added: the timeout is over";
    Failure known = trouble;
    if (known == null) {
      return Failure.late(words);
    }
    words += ": " + known.exception().getMessage();
    return known.kind() == Failure.Kind.UNAVAILABLE
        ? Failure.unavailable(words, "")
        : Failure.late(words);
  }

  /**
   * Ends submissions whose timeout is over.
   *
   * @return the end of the next one, or a time without end, in System.nanoTime
   */
  long expire(long now) {
    queue.removeIf(s -> expired(s, now));
    sent.values().forEach(s -> expired(s, now)); // they keep their places until they are answered
    long next = now + Deadline.NEVER;
    for (Submission s : queue) {
      next = s.end - next < 0 ? s.end : next;
    }
    for (Submission s : sent.values()) {
      next = !s.isDone() && s.end - next < 0 ? s.end : next;
    }
    return next;
  }

  private boolean expired(Submission s, long now) {
    if (s.end - now <= 0) {
      s.land(lateness());
    }
    return s.isDone();
  }

  /** Moves the next submissions to those that are sent. */
  List<Submission> take() {
    List<Submission> taken = new ArrayList<>(Math.min(queue.size(), MESSAGE_TASKS));
    int size = 0;
    for (Submission s; taken.size() < MESSAGE_TASKS && canSend(); ) {
      s = queue.element();
      if (!taken.isEmpty() && size + s.message.length > MESSAGE_BYTES) {
        break;
      }
      queue.remove();
      if (s.isDone()) {
        continue; // abandoned
      }
      s.sequence = ++last;
      sent.put(s.sequence, s);
      size += s.message.length;
      taken.add(s);
    }
    return taken;
  }

  /** The next SubmitStreamRequest; null if there is nothing to send. */
  byte @Nullable [] nextMessage() {
    List<Submission> taken = take();
    if (taken.isEmpty()) {
      return null;
    }
    int size = 0;
    for (Submission s : taken) {
      int streamed = streamedSize(s);
      size += 1 + CodedOutputStream.computeUInt32SizeNoTag(streamed) + streamed;
    }
    byte[] message = new byte[size];
    int at = 0;
    for (Submission s : taken) {
      message[at++] = TASKS_TAG;
      at = putVarint(message, at, streamedSize(s));
      message[at++] = SEQUENCE_TAG;
      at = putVarint(message, at, s.sequence);
      message[at++] = TASK_TAG;
      at = putVarint(message, at, s.message.length);
      System.arraycopy(s.message, 0, message, at, s.message.length);
      at += s.message.length;
    }
    return message;
  }

  /** The size of a StreamedTask. */
  private static int streamedSize(Submission s) {
    return 2
        + CodedOutputStream.computeUInt64SizeNoTag(s.sequence)
        + CodedOutputStream.computeUInt32SizeNoTag(s.message.length)
        + s.message.length;
  }

  private static int putVarint(byte[] to, int at, long value) {
    while ((value & ~0x7F) != 0) {
      to[at++] = (byte) (value | 0x80);
      value >>>= 7;
    }
    to[at++] = (byte) value;
    return at;
  }

  /** Takes the outcomes that a node has sent, and returns whether it accepts no more. */
  boolean resolve(String address, Api.SubmitStreamResponse response) {
    boolean leave = response.getStopping();
    for (int i = 0, n = response.getOutcomesCount(); i < n; i++) {
      Api.SubmitOutcome outcome = response.getOutcomes(i);
      if (outcome.hasReceipt()) {
        settle(outcome.getSequence(), receiptOf(outcome.getReceipt()));
      } else {
        Api.SubmitError error = outcome.getError();
        Failure failure =
            Failure.ofCode(error.getCode(), error.getMessage(), address, error.getFull());
        leave |= settle(outcome.getSequence(), failure);
      }
    }
    return leave;
  }

  static Receipt receiptOf(Api.Receipt receipt) {
    return new Receipt(
        receipt.getId(), receipt.getCreated(), receipt.getOutcome(), receipt.getWarning());
  }

  /** Takes a receipt. */
  void settle(long sequence, Receipt receipt) {
    Submission s = sent.remove(sequence);
    if (s == null) {
      return;
    }
    Failure refusal = Failure.ofRefusal(receipt);
    answered++;
    trouble = null;
    if (refusal == null) {
      s.land(receipt);
    } else {
      s.land(refusal);
    }
  }

  /** Takes a failure, and returns whether another node is to be used. */
  boolean settle(long sequence, Failure failure) {
    Submission s = sent.remove(sequence);
    if (s == null) {
      return false;
    }
    if (failure.mayRepeat()) {
      trouble = failure;
      queue.add(s);
      return failure.kind() == Failure.Kind.UNAVAILABLE;
    }
    answered++;
    trouble = null;
    s.land(failure);
    return false;
  }

  /** What has no outcome is sent again, first and in its order. */
  void endStream() {
    List<Submission> again = new ArrayList<>(sent.values());
    again.sort(Comparator.comparingLong((Submission s) -> s.sequence).reversed());
    sent.clear();
    again.forEach(queue::addFirst);
  }

  /** Records why nothing is answered. Any thread may call it. */
  void failed(Failure failure) {
    trouble = failure;
  }

  /** Gives a failure to all that waits. */
  void refuse(Failure failure) {
    endStream();
    List<Submission> all = new ArrayList<>(queue);
    queue.clear();
    all.forEach(s -> s.land(failure));
  }
}
