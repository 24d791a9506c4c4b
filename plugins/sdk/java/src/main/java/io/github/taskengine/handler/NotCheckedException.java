package io.github.taskengine.handler;

/** It is not known which tasks would be refused. */
public class NotCheckedException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Says why it is not known.
   *
   * @param message the reason
   */
  public NotCheckedException(String message) {
    super(message);
  }
}
