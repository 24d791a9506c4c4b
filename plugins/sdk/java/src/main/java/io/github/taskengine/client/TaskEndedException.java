package io.github.taskengine.client;

/** The task has ended, and takes no children. */
public final class TaskEndedException extends NotAllowedException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public TaskEndedException(String message, String code, String address) {
    super(message, code, address);
  }
}
