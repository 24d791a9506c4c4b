package io.github.taskengine.handler;

import java.time.Instant;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What the handler of a recurring task returns when it is done for now.
 *
 * @param at when the task is due again
 * @param result of this time, as {@link Handler#handle} might return it
 */
public record Again(Instant at, @Nullable Object result) {
  public Again {
    Objects.requireNonNull(at, "at");
  }

  /**
   * Is due again, without a result.
   *
   * @param at when the task is due again
   */
  public Again(Instant at) {
    this(at, null);
  }
}
