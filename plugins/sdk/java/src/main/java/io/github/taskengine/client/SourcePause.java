package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * Since when a source is paused, and why.
 *
 * @param since when it was paused
 * @param reason why
 */
public record SourcePause(@Nullable Instant since, String reason) {}
