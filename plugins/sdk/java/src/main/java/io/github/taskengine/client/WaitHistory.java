package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * How long a task has waited for what.
 *
 * @param waits in the order in which the task began to wait for each
 * @param notedSince from when on the node knows what it kept waiting
 * @param node the name of the node that answers
 * @param silent the node that knows more, if it did not answer
 */
public record WaitHistory(
    List<Wait> waits, @Nullable Instant notedSince, String node, List<SilentNode> silent) {
  /** Makes it, with copies of its lists. */
  public WaitHistory {
    waits = List.copyOf(waits);
    silent = List.copyOf(silent);
  }
}
