package io.github.taskengine.client;

import java.util.List;

/**
 * Nodes do not answer: their changes come later.
 *
 * @param nodes that do not answer
 * @param cursor where to go on
 */
public record NodesSilent(List<SilentNode> nodes, String cursor) implements TaskEvent {
  /** Makes it, with a copy of its list. */
  public NodesSilent {
    nodes = List.copyOf(nodes);
  }
}
