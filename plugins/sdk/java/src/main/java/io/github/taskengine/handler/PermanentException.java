package io.github.taskengine.handler;

import org.jspecify.annotations.Nullable;

/** The task failed, and a retry cannot succeed: it waits for a person. */
public class PermanentException extends HandlerException {
  private static final long serialVersionUID = 1L;

  /**
   * Fails the task for good.
   *
   * @param message what happened
   */
  public PermanentException(String message) {
    this(message, "", null);
  }

  /**
   * Fails the task for good.
   *
   * @param message what happened
   * @param errorClass the error's class; empty for none
   */
  public PermanentException(String message, String errorClass) {
    this(message, errorClass, null);
  }

  /**
   * Fails the task for good.
   *
   * @param message what happened
   * @param errorClass the error's class; empty for none
   * @param cause why it happened
   */
  public PermanentException(String message, String errorClass, @Nullable Throwable cause) {
    super(message, errorClass, cause);
  }
}
