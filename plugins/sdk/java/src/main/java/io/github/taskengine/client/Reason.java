package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A reason why a task does not run, or its present state.
 *
 * @param code ended, running, starting, stuck, scheduled, signal, children, retry, paused,
 *     no_handler, no_node, limit, rate, queue, behind, draining, elsewhere, node_gone, no_proof,
 *     handler, database, key, bus or unwritten
 * @param text for people
 * @param limit the name of the limit; empty for the slots of the node, and for a type that is
 *     paused
 * @param value the value that the limit is per
 * @param used of the limit, by tasks of this node; for queue: how many tasks are before it
 * @param max of the limit
 * @param until when it ends, if that is known
 * @param holders some of the tasks of this node that hold the limit
 * @param cluster whether the limit counts the tasks of all nodes
 * @param held permits of this node
 * @param waiting permits that other nodes wait for
 * @param head for behind: the id of the task before it
 * @param headState for behind: the state of that task
 */
public record Reason(
    String code,
    String text,
    String limit,
    String value,
    long used,
    long max,
    @Nullable Instant until,
    List<String> holders,
    boolean cluster,
    long held,
    long waiting,
    String head,
    String headState) {
  /** Makes it, with copies of its lists. */
  public Reason {
    holders = List.copyOf(holders);
  }
}
