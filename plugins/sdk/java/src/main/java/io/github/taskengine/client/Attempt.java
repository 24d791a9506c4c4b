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
 *     interrupted; no attempt has ended if it is edited or erased: a person has changed what the
 *     task has, or removed its content
 * @param error why it did not finish the task
 * @param node the name of the node that ran it
 * @param by who has edited or erased the task; empty if that is not known
 * @param job the bulk job that has done so; empty if none has
 */
public record Attempt(
    int number,
    @Nullable Instant startedAt,
    @Nullable Instant endedAt,
    String outcome,
    String error,
    String node,
    String by,
    String job) {}
