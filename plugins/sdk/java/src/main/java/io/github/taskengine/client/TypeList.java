package io.github.taskengine.client;

import java.util.List;

/**
 * Types by name.
 *
 * @param types that are configured, were paused or resumed, or have tasks
 * @param more whether types that are not configured and have tasks may be left out
 */
public record TypeList(List<TaskType> types, boolean more) {
  /** Makes it, with a copy of its list. */
  public TypeList {
    types = List.copyOf(types);
  }
}
