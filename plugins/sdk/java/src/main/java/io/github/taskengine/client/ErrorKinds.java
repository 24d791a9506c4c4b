package io.github.taskengine.client;

import java.util.List;

/**
 * The errors of tasks, by their kinds.
 *
 * @param kinds those of most tasks first
 * @param tasks with an error, also of kinds that are left out
 * @param others with an error of a kind that is left out
 * @param read how many tasks the node has read at least
 * @param complete whether all tasks were read; if not, the newest were
 */
public record ErrorKinds(
    List<ErrorKind> kinds, long tasks, long others, long read, boolean complete) {
  /** Makes it, with a copy of its list. */
  public ErrorKinds {
    kinds = List.copyOf(kinds);
  }
}
