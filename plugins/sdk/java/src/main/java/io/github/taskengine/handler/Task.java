package io.github.taskengine.handler;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import org.slf4j.Logger;

/**
 * One attempt of one task. Any thread may use it. It is an interface for the sake of the tests of
 * handlers; methods may be added to it.
 */
public interface Task {
  /**
   * The task's id.
   *
   * @return the id
   */
  UUID id();

  /**
   * The fencing token, together with {@link #id}: it names this attempt and no other, and a later
   * attempt has a higher one.
   *
   * @return the version, unsigned
   */
  long version();

  /**
   * The task's type.
   *
   * @return the type
   */
  String type();

  /**
   * Which attempt this is.
   *
   * @return 1 for the first
   */
  int attempt();

  /**
   * How many earlier attempts crashed their process.
   *
   * @return the number
   */
  int crashes();

  /**
   * The task's priority.
   *
   * @return 0 (highest) to 9
   */
  int priority();

  /**
   * The task's key, unique per type.
   *
   * @return the key; empty if it has none
   */
  String key();

  /**
   * The ordering key that its submitter gave: tasks that share it run one at a time, in the order
   * in which they are ready.
   *
   * @return the ordering key; empty if it has none
   */
  String orderingKey();

  /**
   * The task's headers.
   *
   * @return the headers, which cannot be changed
   */
  Map<String, String> headers();

  /**
   * The W3C trace context of the submitter.
   *
   * @return the header {@code traceparent}, if there is one
   */
  Optional<String> traceparent();

  /**
   * When the attempt will be cancelled.
   *
   * @return the time, by the clock of this machine, if there is one
   */
  Optional<Instant> deadline();

  /**
   * How much time is left until the attempt will be cancelled. Setting the clock does not change
   * it.
   *
   * @return at least zero, if there is a deadline
   */
  Optional<Duration> timeLeft();

  /**
   * The input as bytes.
   *
   * @return a copy
   */
  byte[] payload();

  /**
   * The input as UTF-8 text.
   *
   * @return the text
   * @throws PermanentException of class {@code bad_payload} if the input is not UTF-8
   */
  String text();

  /**
   * The input as a value that is JSON on the wire, such as a record, an array, a {@link Map} or a
   * {@code JsonNode}.
   *
   * @param <T> the type of the value
   * @param type the class of the value
   * @return the value
   * @throws PermanentException of class {@code bad_payload} if the input is no such value
   */
  <T> T json(Class<T> type);

  /**
   * What an earlier attempt kept.
   *
   * @return a copy; empty if none kept anything
   */
  byte[] checkpoint();

  /**
   * What ended the newest wait of the task, see {@link WaitFor}. Attempts have it until one has
   * done its work.
   *
   * @return the end of the wait, if there is one
   */
  default Optional<Woken> woken() {
    return Optional.empty();
  }

  /**
   * Keeps data for the next attempt, should this one fail. It returns when the node has stored the
   * data, also if the thread is interrupted meanwhile. Nothing happens with a host that does not
   * keep checkpoints.
   *
   * @param data instead of what was kept before
   * @throws IllegalArgumentException if it is larger than 1 MiB
   * @throws NotStoredException if it is not stored, or if that cannot be known any more
   */
  void saveCheckpoint(byte[] data);

  /**
   * Tells people how far the work is. Calls may be frequent: the newest is sent, at most every 100
   * ms and before the end.
   *
   * @param done how much is done
   * @param total of how much; 0 if unknown
   * @param message for people; may be empty
   */
  void progress(long done, long total, String message);

  /**
   * Has a task submitted if this one succeeds. On a host that cannot do that the task fails for
   * good, with an error of class {@code unsupported}.
   *
   * @param child the task to submit
   */
  void spawn(Child child);

  /**
   * How the children of the task have ended.
   *
   * @return the children, by the name that they were added with
   */
  Map<String, ChildSet> children();

  /**
   * The task that this one is a child of.
   *
   * @return the parent, if there is one
   */
  Optional<Parent> parent();

  /**
   * Adds children if this task succeeds, runs again or waits. Unlike a task that is spawned, it
   * learns of their ends: see {@link WaitForChildren} and {@link #children}. The children of one
   * name are numbered, across all attempts of the task, and have no key.
   *
   * @param name of the children
   * @param children to add
   * @throws PermanentException of class {@code unsupported} if the host does not support that: the
   *     task fails then, also if that is caught
   */
  void addChildren(String name, List<Child> children);

  /**
   * Says which of these children would be refused if the task ended with them now. A handler asks
   * before it does what it cannot undo. Nothing is reserved, so the answer is advice: a backlog may
   * be full later.
   *
   * @param name of the children
   * @param children that the task means to add
   * @return the refusals; empty if all would be added
   * @throws NotCheckedException if the host cannot say it
   * @throws PermanentException of class {@code unsupported} if the host never does
   */
  default List<Refusal> checkChildren(String name, List<Child> children) {
    return List.of();
  }

  /**
   * The same for a task to spawn.
   *
   * @param child that the task means to spawn
   * @return why it would be refused, if it would
   * @throws NotCheckedException if the host cannot say it
   * @throws PermanentException of class {@code unsupported} if the host never does
   */
  default Optional<Refusal> checkSpawn(Child child) {
    return Optional.empty();
  }

  /**
   * Sends a signal to another task if this one succeeds, runs again or waits.
   *
   * @param signal to send
   * @throws PermanentException of class {@code unsupported} if the host does not support that: the
   *     task fails then, also if that is caught
   */
  void sendSignal(Signal signal);

  /**
   * Reads a document, a small state that tasks share.
   *
   * @param key of the document
   * @return the document; its version is 0 if there is none
   * @throws NotReadException if the host cannot read it
   * @throws PermanentException of class {@code unsupported} if the host never does
   */
  default Document readDocument(String key) {
    return new Document(key, new byte[0], 0, null, null, null);
  }

  /**
   * Writes a document if this task succeeds, runs again or waits: {@code
   * task.writeDocument(stock.write(left - 1))}. If the document has another version than the write
   * names, nothing of this answer is stored, the attempt does not count, and the task runs again
   * soon.
   *
   * @param write of the document
   * @throws PermanentException of class {@code unsupported} if the host does not support documents:
   *     the task fails then, also if that is caught
   */
  void writeDocument(DocumentWrite write);

  /**
   * A logger for this task: the host gets each line with its level and its key-value pairs, as in
   * {@code task.log().atInfo().addKeyValue("order", 7).log("charged")}.
   *
   * @return the logger
   */
  Logger log();

  /**
   * Whether the work is to stop: because it was cancelled, or because its deadline is over.
   *
   * @return true if so
   */
  boolean isCancelled();

  /**
   * Why the work is to stop.
   *
   * @return the cancellation, if {@link #isCancelled}
   */
  Optional<Cancellation> cancellation();

  /**
   * Ends the attempt if the work shall stop. To be called in long loops that neither block nor look
   * at {@link Thread#interrupted}.
   *
   * @throws CancellationException if {@link #isCancelled}
   */
  void throwIfCancelled();
}
