package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * How long a task has waited for one thing, or has run.
 *
 * @param code as in Reason; unknown: the node has no notes of that time
 * @param text for people
 * @param limit of a limit, a rate or a pause: its name
 * @param value that the limit is per
 * @param total the sum of its times
 * @param from the begin of the first time
 * @param until the end of the last time
 */
public record Wait(
    String code,
    String text,
    String limit,
    String value,
    Duration total,
    @Nullable Instant from,
    @Nullable Instant until) {}
