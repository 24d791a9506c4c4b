package io.github.taskengine.client;

import java.util.List;

/**
 * Nodes by name. Those that did not answer are among them, without a status.
 *
 * @param nodes that are alive
 * @param silent that did not answer
 */
public record NodeList(List<ClusterNode> nodes, List<SilentNode> silent) {
  /** Makes it, with copies of its lists. */
  public NodeList {
    nodes = List.copyOf(nodes);
    silent = List.copyOf(silent);
  }
}
