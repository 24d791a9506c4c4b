package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Which tasks a bulk job changes, and how. Each method but the accessors returns a copy with one
 * thing changed: {@code BulkOrder.of("cancel").where("error~\"503\" since=2h").reason("mended")}.
 *
 * @param verb resume, cancel, fail, reschedule, set, delete, erase or undo
 * @param where a filter; without states it selects those of the verb
 * @param types of the tasks; none: any
 * @param reason of cancel and fail; kept as the error of the tasks
 * @param at of reschedule and set: the time; null is none
 * @param delay of reschedule and set: the time from now on; null is none
 * @param values of set; null is none
 * @param job of undo, which has neither where nor types: the job that is undone; it has ended
 */
public record BulkOrder(
    String verb,
    String where,
    List<String> types,
    String reason,
    @Nullable Instant at,
    @Nullable Duration delay,
    @Nullable TaskValues values,
    String job) {
  /** Checks and copies what is given. */
  public BulkOrder {
    Objects.requireNonNull(verb, "verb");
    Objects.requireNonNull(where, "where");
    types = List.copyOf(types);
    Objects.requireNonNull(reason, "reason");
    Objects.requireNonNull(job, "job");
    if (at != null && delay != null) {
      throw new IllegalArgumentException("give at or delay, and not both");
    }
  }

  /**
   * An order for all tasks of a verb.
   *
   * @param verb resume, cancel, fail, reschedule, set, delete, erase or undo
   * @return the order
   */
  public static BulkOrder of(String verb) {
    return new BulkOrder(verb, "", List.of(), "", null, null, null, "");
  }

  /**
   * Changes tasks only that a filter selects.
   *
   * @param where the filter; {@link BulkJobs#ids} makes one of ids
   * @return the changed copy
   */
  public BulkOrder where(String where) {
    return new BulkOrder(verb, where, types, reason, at, delay, values, job);
  }

  /**
   * Changes tasks of some types only.
   *
   * @param types their names
   * @return the changed copy
   */
  public BulkOrder types(String... types) {
    return new BulkOrder(verb, where, List.of(types), reason, at, delay, values, job);
  }

  /**
   * Gives tasks that are cancelled or failed an error.
   *
   * @param reason the error
   * @return the changed copy
   */
  public BulkOrder reason(String reason) {
    return new BulkOrder(verb, where, types, reason, at, delay, values, job);
  }

  /**
   * Has the tasks run at a time.
   *
   * @param at the time
   * @return the changed copy
   */
  public BulkOrder at(Instant at) {
    return new BulkOrder(verb, where, types, reason, at, null, values, job);
  }

  /**
   * Has the tasks run after a time.
   *
   * @param delay the time, from now on
   * @return the changed copy
   */
  public BulkOrder delay(Duration delay) {
    return new BulkOrder(verb, where, types, reason, null, delay, values, job);
  }

  /**
   * Gives the tasks new values.
   *
   * @param values of each
   * @return the changed copy
   */
  public BulkOrder values(TaskValues values) {
    return new BulkOrder(verb, where, types, reason, at, delay, values, job);
  }

  /**
   * Undoes another job.
   *
   * @param job its name
   * @return the changed copy
   */
  public BulkOrder job(String job) {
    return new BulkOrder(verb, where, types, reason, at, delay, values, job);
  }
}
