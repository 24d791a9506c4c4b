package io.github.taskengine.json;

import org.jspecify.annotations.Nullable;

/** A value that cannot be encoded as JSON, or bytes that are no JSON for a value of the type. */
public final class JsonException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param message for people, without the value itself
   * @param cause of it
   */
  public JsonException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
