package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * Changes of tasks may be missing.
 *
 * @param from the first that is missing may be as old
 * @param until the last one
 * @param text for people
 * @param cursor where to go on, with the gap again
 */
public record EventGap(@Nullable Instant from, @Nullable Instant until, String text, String cursor)
    implements TaskEvent {}
