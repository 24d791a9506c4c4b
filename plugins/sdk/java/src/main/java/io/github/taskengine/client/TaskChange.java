package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A change of a task.
 *
 * @param task after the change, without payload, result and checkpoint
 * @param at when it was made
 * @param fromStore whether the task was found in the store after a gap, and is in its state since
 *     then: other changes may be missing, and it may come again
 * @param cursor where to go on after the change
 */
public record TaskChange(Task task, @Nullable Instant at, boolean fromStore, String cursor)
    implements TaskEvent {}
