package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A task that a schedule has added.
 *
 * @param time of the calendar, or when it was triggered
 * @param taskId of the task
 */
public record ScheduleFire(@Nullable Instant time, String taskId) {}
