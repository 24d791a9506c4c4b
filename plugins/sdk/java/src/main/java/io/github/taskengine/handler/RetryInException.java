package io.github.taskengine.handler;

import java.time.Duration;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** An attempt failed, and the handler decides when the next one begins. */
public class RetryInException extends HandlerException {
  private static final long serialVersionUID = 1L;

  /** Until the next attempt. */
  private final Duration delay;

  /**
   * Fails the attempt.
   *
   * @param delay until the next attempt
   * @param message what happened
   */
  public RetryInException(Duration delay, String message) {
    this(delay, message, "", null);
  }

  /**
   * Fails the attempt.
   *
   * @param delay until the next attempt
   * @param message what happened
   * @param errorClass the error's class; empty for none
   */
  public RetryInException(Duration delay, String message, String errorClass) {
    this(delay, message, errorClass, null);
  }

  /**
   * Fails the attempt.
   *
   * @param delay until the next attempt
   * @param message what happened
   * @param errorClass the error's class; empty for none
   * @param cause why it happened
   */
  public RetryInException(
      Duration delay, String message, String errorClass, @Nullable Throwable cause) {
    super(message, errorClass, cause);
    this.delay = Objects.requireNonNull(delay, "delay");
  }

  /**
   * The delay before the next attempt.
   *
   * @return the delay
   */
  public final Duration delay() {
    return delay;
  }
}
