package io.github.taskengine.client;

import java.util.Objects;

/**
 * Who gives an order to a source of time slices or to a platform, and why, for the history.
 *
 * @param by at most 200 bytes; may be empty
 * @param reason at most 1000 bytes; may be empty
 */
public record SliceOrder(String by, String reason) {
  /** Checks what is given. */
  public SliceOrder {
    Objects.requireNonNull(by, "by");
    Objects.requireNonNull(reason, "reason");
  }
}
