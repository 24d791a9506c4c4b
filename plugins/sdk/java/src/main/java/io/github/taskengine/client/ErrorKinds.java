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
 * @param index the field of the index by which the tasks were found or counted; empty if tasks of
 *     all states were read
 * @param total of how many tasks the read ones were; 0 if the store does not count them, or an
 *     index has just the tasks that the filter selects
 */
public record ErrorKinds(
    List<ErrorKind> kinds,
    long tasks,
    long others,
    long read,
    boolean complete,
    String index,
    long total) {
  /** Makes it, with a copy of its list. */
  public ErrorKinds {
    kinds = List.copyOf(kinds);
  }
}
