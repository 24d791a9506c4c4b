package io.github.taskengine.client;

import java.util.Objects;

/** A task has ended without being done. */
public final class NotDoneException extends ClientException {
  private static final long serialVersionUID = 1L;

  /** The id of the task. */
  private final String id;

  /** The state of the task. */
  private final String state;

  /** Why it is not done. */
  private final String reason;

  /**
   * Makes the exception.
   *
   * @param id of the task
   * @param state of the task: error, failed or cancelled
   * @param reason why it is not done
   */
  public NotDoneException(String id, String state, String reason) {
    super("task " + id + " is " + state + ": " + reason, "", "");
    this.id = Objects.requireNonNull(id, "id");
    this.state = Objects.requireNonNull(state, "state");
    this.reason = Objects.requireNonNull(reason, "reason");
  }

  /**
   * The task.
   *
   * @return its id
   */
  public String id() {
    return id;
  }

  /**
   * The state of the task.
   *
   * @return error, failed or cancelled
   */
  public String state() {
    return state;
  }

  /**
   * Why the task is not done.
   *
   * @return the text of its error
   */
  public String reason() {
    return reason;
  }
}
