package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * An attempt that ended without finishing its task.
 *
 * @param number of the attempt
 * @param startedAt when it began
 * @param endedAt when it ended
 * @param outcome completed, errored, crashed, timed_out, snoozed, handed_back, overruled or
 *     interrupted
 * @param error why it did not finish the task
 * @param node the name of the node that ran it
 */
public record Attempt(
    int number,
    @Nullable Instant startedAt,
    @Nullable Instant endedAt,
    String outcome,
    String error,
    String node) {}
