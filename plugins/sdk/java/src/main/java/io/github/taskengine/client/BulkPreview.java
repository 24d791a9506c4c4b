package io.github.taskengine.client;

import java.util.List;
import java.util.Map;

/**
 * Which tasks a bulk job would change.
 *
 * @param where the filter with its times
 * @param tasks that it selects
 * @param complete whether these are all; if not, there are more
 * @param read how many tasks were read at least
 * @param states how many of the tasks are in each
 * @param kinds of their errors, the most frequent first, at most 20
 * @param samples the newest of the tasks, at most 10, without payload, result and checkpoint
 * @param left of undo: how many tasks stay as they are, by the reason; of set: how many could not
 *     be undone, likewise
 * @param total of how many tasks the read ones were, as in {@link ErrorKinds}
 * @param index the field of the index by which they were found, as in {@link ErrorKinds}
 */
public record BulkPreview(
    String where,
    long tasks,
    boolean complete,
    long read,
    Map<String, Long> states,
    List<BulkKind> kinds,
    List<Task> samples,
    Map<String, Long> left,
    long total,
    String index) {
  /** Makes it, with copies of its lists. */
  public BulkPreview {
    states = Map.copyOf(states);
    kinds = List.copyOf(kinds);
    samples = List.copyOf(samples);
    left = Map.copyOf(left);
  }
}
