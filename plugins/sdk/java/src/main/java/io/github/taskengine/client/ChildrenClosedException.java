package io.github.taskengine.client;

/** The children of the task take no more: they were closed, or the task was woken. */
public final class ChildrenClosedException extends NotAllowedException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public ChildrenClosedException(String message, String code, String address) {
    super(message, code, address);
  }
}
