package io.github.taskengine.client;

import java.util.List;

/**
 * The effect of a change of the schedules of a {@link ScheduleSelection}.
 *
 * @param changed how many were changed, or would be
 * @param unchanged how many are so already
 * @param failed schedules that refuse the change
 */
public record SchedulesChanged(long changed, long unchanged, List<ScheduleFailure> failed) {
  /** Makes it, with a copy of its list. */
  public SchedulesChanged {
    failed = List.copyOf(failed);
  }
}
