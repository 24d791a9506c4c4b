package io.github.taskengine.client;

import java.util.List;

/**
 * The tasks after which a task runs, and how many of them have ended. One in the state error has
 * not.
 *
 * @param tasks their ids
 * @param done how many are done
 * @param failed how many have failed
 * @param cancelled how many were cancelled
 * @param any whether the task runs when they have ended, however; only while it waits for them
 */
public record After(List<String> tasks, int done, int failed, int cancelled, boolean any) {
  /** Makes it, with a copy of its list. */
  public After {
    tasks = List.copyOf(tasks);
  }
}
