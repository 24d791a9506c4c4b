package io.github.taskengine.client;

import java.util.Objects;

/**
 * A task is done, and its result was removed: the task is a tombstone, which only remembers its
 * key.
 */
public final class ResultRemovedException extends ClientException {
  private static final long serialVersionUID = 1L;

  /** The id of the task. */
  private final String id;

  /**
   * Makes the exception.
   *
   * @param id of the task
   */
  public ResultRemovedException(String id) {
    super(
        "task " + id + " is done, and its result was removed after the retention of its type",
        "",
        "");
    this.id = Objects.requireNonNull(id, "id");
  }

  /**
   * The task.
   *
   * @return its id
   */
  public String id() {
    return id;
  }
}
