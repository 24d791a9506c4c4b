package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Why a limit holds tasks up: what uses it, and what waits for it.
 *
 * @param limit as a whole, or for the value
 * @param tasks that take slots of it, on all nodes, at most 100 of each
 * @param queued ready tasks that wait for it in the memory of a node, by node and type; the store
 *     may have more
 * @param nextStart when its rate allows the next start, of several values the latest; null: now, or
 *     there is no rate
 * @param nodes with the scope cluster: the nodes with permits, in the order in which they last got
 *     some, then the nodes that wait, in their order
 * @param nodesProblem why the nodes are not known; empty if they are
 * @param silent nodes that are missing in tasks and queued
 */
public record LimitReasons(
    Limit limit,
    List<LimitTask> tasks,
    List<LimitQueue> queued,
    @Nullable Instant nextStart,
    List<LimitNode> nodes,
    String nodesProblem,
    List<SilentNode> silent) {
  /** Makes it, with copies of its lists. */
  public LimitReasons {
    tasks = List.copyOf(tasks);
    queued = List.copyOf(queued);
    nodes = List.copyOf(nodes);
    silent = List.copyOf(silent);
  }
}
