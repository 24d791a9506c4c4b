package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A slice that has not ended.
 *
 * @param start of the slice
 * @param end the start of the next slice
 * @param failedAt null if it has not failed
 * @param taskId of its task
 */
public record OpenSlice(
    @Nullable Instant start, @Nullable Instant end, @Nullable Instant failedAt, String taskId) {}
