package io.github.taskengine.client;

/**
 * The state does not allow it, such as to cancel a task that has ended, or the caller may not do
 * it.
 */
public class NotAllowedException extends ClientException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public NotAllowedException(String message, String code, String address) {
    super(message, code, address);
  }
}
