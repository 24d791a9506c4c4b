package io.github.taskengine.client;

import java.time.Instant;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Keeps alerts out of notifications.
 *
 * @param id of the silence
 * @param rule of the alerts; empty: any
 * @param labels that an alert must have; a value with * at its end stands for all that begin so
 * @param until its end
 * @param comment of who made it
 * @param by who made it
 * @param at when it was made
 */
public record AlertSilence(
    String id,
    String rule,
    Map<String, String> labels,
    @Nullable Instant until,
    String comment,
    String by,
    @Nullable Instant at) {
  /** Makes it, with a copy of its labels. */
  public AlertSilence {
    labels = Map.copyOf(labels);
  }
}
