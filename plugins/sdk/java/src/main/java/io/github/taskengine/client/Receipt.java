package io.github.taskengine.client;

import java.io.Serializable;

/**
 * Which task a request has added. The task is durable.
 *
 * @param id of the new task, or of the existing task with the same id or key
 * @param created false if there was such a task: nothing was added
 * @param outcome created, existing, replaced (the task with its key has its content now) or
 *     already_done (the task with its key has ended)
 * @param warning for people: the task waits because no live node has a handler for its type; else
 *     empty
 */
public record Receipt(String id, boolean created, String outcome, String warning)
    implements Serializable {

  /** A receipt without a warning. */
  public Receipt(String id, boolean created, String outcome) {
    this(id, created, outcome, "");
  }
}
