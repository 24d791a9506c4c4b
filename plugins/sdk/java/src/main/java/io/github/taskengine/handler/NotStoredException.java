package io.github.taskengine.handler;

/** A checkpoint is not stored, or whether it is is unknown. */
public class NotStoredException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Says why the checkpoint is not stored.
   *
   * @param message the reason
   */
  public NotStoredException(String message) {
    super(message);
  }
}
