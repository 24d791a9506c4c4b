package io.github.taskengine.client;

import java.util.List;

/**
 * Outcomes by node. The nodes that did not answer may have applied their files.
 *
 * @param nodes that answered
 * @param silent that did not answer
 */
public record ConfigList(List<AppliedConfig> nodes, List<SilentNode> silent) {
  /** Makes it, with copies of its lists. */
  public ConfigList {
    nodes = List.copyOf(nodes);
    silent = List.copyOf(silent);
  }
}
