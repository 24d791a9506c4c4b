package io.github.taskengine.handler;

/** A document was not read. */
public class NotReadException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Says why it was not read.
   *
   * @param message the reason
   */
  public NotReadException(String message) {
    super(message);
  }
}
