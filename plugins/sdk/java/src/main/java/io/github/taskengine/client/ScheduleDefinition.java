package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * When a schedule fires and what it adds. Either cron or every is given. Each method but the
 * accessors returns a copy with one thing changed: {@code ScheduleDefinition.cron("30 2 * * *",
 * task).timezone("Europe/Berlin")}.
 *
 * @param cron an expression with five fields, or six with the seconds first; empty if every is
 *     given
 * @param timezone of cron: a name of the IANA time zone database; empty: UTC
 * @param gap of cron: what happens to a time of the day that a clock change leaves out: run_after
 *     or skip; empty: run_after
 * @param repeat of cron: at which of the times that a clock change repeats it fires: first or both;
 *     empty: first
 * @param every a fixed interval, of at least a second; null if cron is given
 * @param anchor one of the times of every; null: the beginning of 1970, UTC
 * @param start it does not fire before; null: no bound
 * @param end it does not fire after; null: no bound
 * @param jitter a task starts later by a part of this; null: at its time
 * @param catchUp what happens to times at which it could not run; null: a task for the latest one
 * @param overlap what happens when it fires while the task of an earlier fire has not ended: skip,
 *     queue, cancel_old or allow; empty: skip
 * @param task what it adds
 */
public record ScheduleDefinition(
    String cron,
    String timezone,
    String gap,
    String repeat,
    @Nullable Duration every,
    @Nullable Instant anchor,
    @Nullable Instant start,
    @Nullable Instant end,
    @Nullable Duration jitter,
    @Nullable ScheduleCatchUp catchUp,
    String overlap,
    ScheduleTask task) {
  /** Checks and copies what is given. */
  public ScheduleDefinition {
    Objects.requireNonNull(cron, "cron");
    Objects.requireNonNull(timezone, "timezone");
    Objects.requireNonNull(gap, "gap");
    Objects.requireNonNull(repeat, "repeat");
    Objects.requireNonNull(overlap, "overlap");
    Objects.requireNonNull(task, "task");
  }

  /**
   * A schedule that fires by an expression.
   *
   * @param expression with five fields, or six with the seconds first
   * @param task that it adds
   * @return the definition
   */
  public static ScheduleDefinition cron(String expression, ScheduleTask task) {
    return new ScheduleDefinition(
        expression, "", "", "", null, null, null, null, null, null, "", task);
  }

  /**
   * A schedule that fires in a fixed interval.
   *
   * @param interval of at least a second
   * @param task that it adds
   * @return the definition
   */
  public static ScheduleDefinition every(Duration interval, ScheduleTask task) {
    return new ScheduleDefinition("", "", "", "", interval, null, null, null, null, null, "", task);
  }

  /**
   * Says in which zone the expression is meant.
   *
   * @param timezone a name of the IANA time zone database
   * @return the changed copy
   */
  public ScheduleDefinition timezone(String timezone) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Says what happens to a time of the day that a clock change leaves out.
   *
   * @param gap run_after or skip
   * @return the changed copy
   */
  public ScheduleDefinition gap(String gap) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Says at which of the times that a clock change repeats it fires.
   *
   * @param repeat first or both
   * @return the changed copy
   */
  public ScheduleDefinition repeat(String repeat) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Names one of the times of the interval.
   *
   * @param anchor the time
   * @return the changed copy
   */
  public ScheduleDefinition anchor(Instant anchor) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Has it not fire before a time.
   *
   * @param start the time
   * @return the changed copy
   */
  public ScheduleDefinition start(Instant start) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Has it not fire after a time.
   *
   * @param end the time
   * @return the changed copy
   */
  public ScheduleDefinition end(Instant end) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Has its tasks start later by a part of a time.
   *
   * @param jitter the time
   * @return the changed copy
   */
  public ScheduleDefinition jitter(Duration jitter) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Says what happens to times at which it could not run.
   *
   * @param catchUp the rule
   * @return the changed copy
   */
  public ScheduleDefinition catchUp(ScheduleCatchUp catchUp) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }

  /**
   * Says what happens when it fires while the task of an earlier fire has not ended.
   *
   * @param overlap skip, queue, cancel_old or allow
   * @return the changed copy
   */
  public ScheduleDefinition overlap(String overlap) {
    return new ScheduleDefinition(
        cron, timezone, gap, repeat, every, anchor, start, end, jitter, catchUp, overlap, task);
  }
}
