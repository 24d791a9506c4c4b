package io.github.taskengine.handler;

import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A task would be refused, or would not do what it asks for, see {@link Task#checkChildren}.
 *
 * @param index of the task among those that were given
 * @param reason why
 * @param message for people
 * @param id of the task that has the key, with {@link Reason#KEY_TAKEN}; otherwise {@code null}
 */
public record Refusal(int index, Reason reason, String message, @Nullable UUID id) {
  /** Why a task would be refused. */
  public enum Reason {
    /** No task can be made of it. */
    INVALID,
    /** It has too many bytes. */
    TOO_LARGE,
    /** The task would have too many children. */
    TOO_MANY,
    /** The worker may not add tasks of its type. */
    FORBIDDEN,
    /** The backlog of its type has no room. */
    BACKLOG,
    /** Its key is taken: nothing is added. */
    KEY_TAKEN,
    /** It is added, and no node is known that runs tasks of its type. */
    UNKNOWN_TYPE
  }

  /**
   * Whether an answer with the task fails.
   *
   * @return false if the task would only not be added, or wait for a node that runs it
   */
  public boolean fails() {
    return reason != Reason.KEY_TAKEN && reason != Reason.UNKNOWN_TYPE;
  }
}
