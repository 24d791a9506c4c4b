package io.github.taskengine.client;

import java.util.List;

/**
 * Limits by name and value. The uses of the nodes that did not answer are missing.
 *
 * @param limits as they are in force
 * @param silent that did not answer
 */
public record LimitList(List<Limit> limits, List<SilentNode> silent) {
  /** Makes it, with copies of its lists. */
  public LimitList {
    limits = List.copyOf(limits);
    silent = List.copyOf(silent);
  }
}
