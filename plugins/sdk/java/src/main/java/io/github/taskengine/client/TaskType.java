package io.github.taskengine.client;

import java.util.List;

/**
 * A type of tasks as the node that was asked has it.
 *
 * @param name of the type
 * @param configured whether the configuration has it
 * @param handled whether the node has a handler for it
 * @param paused whether its tasks are not started
 * @param running how many of its tasks have a slot of the node
 * @param nodes which nodes may run it: labels and their values, such as "gpu=true, zone=eu|us";
 *     empty: all
 * @param runBy the names of the live nodes that start its tasks
 */
public record TaskType(
    String name,
    boolean configured,
    boolean handled,
    boolean paused,
    int running,
    String nodes,
    List<String> runBy) {
  /** Makes it, with a copy of its list. */
  public TaskType {
    runBy = List.copyOf(runBy);
  }
}
