package io.github.taskengine.handler;

import org.jspecify.annotations.Nullable;

/**
 * The attempt failed, and may have done its work all the same, such as one that got no answer from
 * a payment service. A task type with {@code at_most_once} does not try it again, and a person
 * decides; with others the retry policy does. An exception that is no {@link HandlerException} is
 * in doubt, too.
 */
public class InDoubtException extends HandlerException {
  private static final long serialVersionUID = 1L;

  /**
   * Fails the attempt.
   *
   * @param message what happened
   */
  public InDoubtException(String message) {
    this(message, "", null);
  }

  /**
   * Fails the attempt with an error of a class.
   *
   * @param message what happened
   * @param errorClass the error's class; empty for none
   */
  public InDoubtException(String message, String errorClass) {
    this(message, errorClass, null);
  }

  /**
   * Fails the attempt with an error of a class.
   *
   * @param message what happened
   * @param errorClass the error's class; empty for none
   * @param cause why it happened
   */
  public InDoubtException(String message, String errorClass, @Nullable Throwable cause) {
    super(message, errorClass, cause);
  }
}
