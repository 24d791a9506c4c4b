package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * An ordering key of which tasks run or wait.
 *
 * @param key the key
 * @param head the task that runs or is to run next; null if the first task of the key waits for its
 *     time
 * @param behind how many tasks are behind it, at most 1000
 * @param behindTruncated whether there are more
 * @param oldestReadyAt of the head and those behind
 */
public record OrderingKey(
    String key,
    @Nullable Task head,
    long behind,
    boolean behindTruncated,
    @Nullable Instant oldestReadyAt) {}
