package io.github.taskengine.client;

/**
 * The request is larger than the node accepts. {@code max_payload} of its type says how large it
 * may be.
 */
public final class TooLargeException extends ClientException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public TooLargeException(String message, String code, String address) {
    super(message, code, address);
  }
}
