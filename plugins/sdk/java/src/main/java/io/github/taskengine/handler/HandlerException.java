package io.github.taskengine.handler;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * An attempt failed, and has certainly not done its work. It is repeated as the retry policy of the
 * task's type says, which may have rules for the error's class, also with {@code at_most_once}.
 */
public class HandlerException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The class of the error for the retry policy; empty if it has none. */
  private final String errorClass;

  /**
   * Fails the attempt with an error of a class.
   *
   * @param message what happened
   * @param errorClass the error's class; empty for none
   */
  public HandlerException(String message, String errorClass) {
    this(message, errorClass, null);
  }

  /**
   * Fails the attempt with an error of a class.
   *
   * @param message what happened
   * @param errorClass the error's class; empty for none
   * @param cause why it happened
   */
  public HandlerException(String message, String errorClass, @Nullable Throwable cause) {
    super(message, cause);
    this.errorClass = Objects.requireNonNull(errorClass, "errorClass");
  }

  /**
   * The class of the error.
   *
   * @return the class; empty for none
   */
  public final String errorClass() {
    return errorClass;
  }
}
