package io.github.taskengine.client;

import java.util.Objects;

/**
 * Which schedules one call changes: {@code ScheduleSelection.prefix("tenant-17/")}.
 *
 * @param prefix of their names
 * @param isAll whether these are all schedules; the prefix is empty
 * @param dryRun whether they are only counted
 */
public record ScheduleSelection(String prefix, boolean isAll, boolean dryRun) {
  /** Checks what is given. */
  public ScheduleSelection {
    Objects.requireNonNull(prefix, "prefix");
  }

  /**
   * Schedules by a prefix.
   *
   * @param prefix of their names
   * @return the selection
   */
  public static ScheduleSelection prefix(String prefix) {
    return new ScheduleSelection(prefix, false, false);
  }

  /**
   * All schedules.
   *
   * @return the selection
   */
  public static ScheduleSelection all() {
    return new ScheduleSelection("", true, false);
  }

  /**
   * Only counts the schedules.
   *
   * @return the changed copy
   */
  public ScheduleSelection counted() {
    return new ScheduleSelection(prefix, isAll, true);
  }
}
