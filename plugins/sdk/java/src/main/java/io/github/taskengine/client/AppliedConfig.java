package io.github.taskengine.client;

import java.util.List;

/**
 * The outcome of {@link Cluster#applyConfig} for one node.
 *
 * @param node its name
 * @param changes of its configuration
 * @param problem why nothing was changed, or which part of the changes was not applied
 * @param unchanged whether nothing was changed because of the problem
 */
public record AppliedConfig(
    String node, List<ConfigChange> changes, String problem, boolean unchanged) {
  /** Makes it, with a copy of its list. */
  public AppliedConfig {
    changes = List.copyOf(changes);
  }
}
