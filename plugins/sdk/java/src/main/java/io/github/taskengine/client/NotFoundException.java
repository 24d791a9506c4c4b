package io.github.taskengine.client;

/** There is no such task, document, limit, schedule or source. */
public final class NotFoundException extends ClientException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public NotFoundException(String message, String code, String address) {
    super(message, code, address);
  }
}
