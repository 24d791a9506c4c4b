package io.github.taskengine.client;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A schedule for {@link Schedules#applyAll}.
 *
 * @param name of the schedule
 * @param definition of it
 * @param ifVersion the version that the schedule must have, 0 if there must be none; null: any
 */
public record NamedSchedule(String name, ScheduleDefinition definition, @Nullable Long ifVersion) {
  /** Checks what is given. */
  public NamedSchedule {
    Objects.requireNonNull(name, "name");
    Objects.requireNonNull(definition, "definition");
  }

  /**
   * A schedule of any version.
   *
   * @param name of the schedule
   * @param definition of it
   * @return the schedule
   */
  public static NamedSchedule of(String name, ScheduleDefinition definition) {
    return new NamedSchedule(name, definition, null);
  }

  /**
   * Applies it only if the schedule has a version.
   *
   * @param version of the schedule, 0 if there must be none
   * @return the changed copy
   */
  public NamedSchedule ifVersion(long version) {
    return new NamedSchedule(name, definition, version);
  }
}
