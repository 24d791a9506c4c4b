package io.github.taskengine.client;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A node of the cluster that is alive.
 *
 * @param name several nodes may have the same one
 * @param id new with every start
 * @param address of its API, for other nodes; empty if it announces none
 * @param version of its program
 * @param labels of the node
 * @param types that it runs
 * @param draining whether it starts no tasks, and ends after its running ones
 * @param here whether it is the node that was asked
 * @param status null if it did not answer
 */
public record ClusterNode(
    String name,
    String id,
    String address,
    String version,
    Map<String, String> labels,
    List<String> types,
    boolean draining,
    boolean here,
    @Nullable NodeStatus status) {
  /** Makes it, with copies of its lists. */
  public ClusterNode {
    labels = Map.copyOf(labels);
    types = List.copyOf(types);
  }
}
