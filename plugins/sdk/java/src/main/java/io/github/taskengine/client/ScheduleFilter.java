package io.github.taskengine.client;

import java.util.Objects;

/**
 * Which schedules are listed: {@code ScheduleFilter.prefix("tenant-17/").onlyPaused()}.
 *
 * @param prefix of their names; empty: any
 * @param paused whether only paused schedules are listed
 * @param failing whether only schedules that cannot run are listed
 */
public record ScheduleFilter(String prefix, boolean paused, boolean failing) {
  /** Checks what is given. */
  public ScheduleFilter {
    Objects.requireNonNull(prefix, "prefix");
  }

  /**
   * Schedules by a prefix.
   *
   * @param prefix of their names; empty: any
   * @return the filter
   */
  public static ScheduleFilter prefix(String prefix) {
    return new ScheduleFilter(prefix, false, false);
  }

  /**
   * Takes paused schedules only.
   *
   * @return the changed copy
   */
  public ScheduleFilter onlyPaused() {
    return new ScheduleFilter(prefix, true, failing);
  }

  /**
   * Takes schedules only that cannot run.
   *
   * @return the changed copy
   */
  public ScheduleFilter onlyFailing() {
    return new ScheduleFilter(prefix, paused, true);
  }
}
