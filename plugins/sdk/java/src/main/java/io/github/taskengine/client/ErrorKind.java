package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The tasks whose newest error is of one kind. Errors of a kind differ only in numbers, ids and
 * addresses.
 *
 * @param kind for a filter: error.kind=...
 * @param pattern the error without numbers, ids and addresses
 * @param tasks how many they are
 * @param first the newest change of the task that changed first
 * @param last and of the one that changed last
 * @param types of the tasks, at most 16
 * @param nodes that ran the newest attempts, at most 16
 * @param sample the id of the newest of the tasks
 * @param error of that
 */
public record ErrorKind(
    String kind,
    String pattern,
    long tasks,
    @Nullable Instant first,
    @Nullable Instant last,
    List<String> types,
    List<String> nodes,
    String sample,
    String error) {
  /** Makes it, with copies of its lists. */
  public ErrorKind {
    types = List.copyOf(types);
    nodes = List.copyOf(nodes);
  }
}
