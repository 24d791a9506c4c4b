package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * That the breaker has stopped a platform.
 *
 * @param since when
 * @param next when a failed slice is tried again
 * @param probes how many were tried
 */
public record PlatformStop(@Nullable Instant since, @Nullable Instant next, int probes) {}
