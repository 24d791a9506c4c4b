package io.github.taskengine.client;

/** A task has up to 1,048,576 children of one name. */
public final class TooManyChildrenException extends InvalidException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people
   * @param code of the API, such as invalid_argument; empty if no node has answered
   * @param address of the node; empty if no node has answered
   */
  public TooManyChildrenException(String message, String code, String address) {
    super(message, code, address);
  }
}
