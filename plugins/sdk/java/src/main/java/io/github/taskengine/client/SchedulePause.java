package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * Since when a schedule is paused, and why.
 *
 * @param since when it was paused
 * @param reason why
 */
public record SchedulePause(@Nullable Instant since, String reason) {}
