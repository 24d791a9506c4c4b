package io.github.taskengine.client;

/** The node does not support it: its store, or an older version. */
public final class UnsupportedException extends ClientException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public UnsupportedException(String message, String code, String address) {
    super(message, code, address);
  }
}
