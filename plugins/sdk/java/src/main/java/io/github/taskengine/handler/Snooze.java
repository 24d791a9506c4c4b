package io.github.taskengine.handler;

import java.time.Duration;
import java.util.Objects;

/**
 * What a handler returns to be called again later. The attempt is not counted.
 *
 * @param delay until the next call
 */
public record Snooze(Duration delay) {
  public Snooze {
    Objects.requireNonNull(delay, "delay");
  }
}
