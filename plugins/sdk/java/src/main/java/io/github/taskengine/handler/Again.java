package io.github.taskengine.handler;

import java.time.Instant;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What the handler of a recurring task returns when it is done for now. The task keeps its payload
 * and has no checkpoint then, unless these are given:
 *
 * <pre>{@code
 * return new Again(at, result).withPayload(next).withCheckpoint(soFar);
 * }</pre>
 *
 * <p>With a host that takes neither of them, they make the answer a permanent error of class
 * "unsupported".
 *
 * @param at when the task is due again
 * @param result of this time, as {@link Handler#handle} might return it
 * @param payload of the next time, as {@link Handler#handle} might return it; null to keep it as it
 *     is
 * @param checkpoint for the next time, as {@link Handler#handle} might return it, of at most 1 MiB;
 *     null for none
 */
public record Again(
    Instant at, @Nullable Object result, @Nullable Object payload, @Nullable Object checkpoint) {
  public Again {
    Objects.requireNonNull(at, "at");
  }

  /**
   * Is due again, as it is.
   *
   * @param at when the task is due again
   * @param result of this time, as {@link Handler#handle} might return it
   */
  public Again(Instant at, @Nullable Object result) {
    this(at, result, null, null);
  }

  /**
   * Is due again, without a result.
   *
   * @param at when the task is due again
   */
  public Again(Instant at) {
    this(at, null);
  }

  /**
   * Is due again with another payload.
   *
   * @param payload of the next time, as {@link Handler#handle} might return it
   * @return the same with this payload
   */
  public Again withPayload(Object payload) {
    return new Again(at, result, Objects.requireNonNull(payload, "payload"), checkpoint);
  }

  /**
   * Is due again with a checkpoint.
   *
   * @param checkpoint for the next time, as {@link Handler#handle} might return it
   * @return the same with this checkpoint
   */
  public Again withCheckpoint(Object checkpoint) {
    return new Again(at, result, payload, Objects.requireNonNull(checkpoint, "checkpoint"));
  }
}
