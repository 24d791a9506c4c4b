package io.github.taskengine.internal;

/** Why a connection failed, as text. */
public final class Causes {
  private static final int MAX_CAUSES = 10; // causes may form a circle

  private Causes() {}

  /**
   * Returns the message of an exception and the first cause of it, which names the reason: a
   * certificate that has expired is only a failed validation above it.
   */
  public static String textOf(Throwable thrown) {
    Throwable first = thrown;
    for (int depth = 0; first.getCause() != null && depth < MAX_CAUSES; depth++) {
      first = first.getCause();
    }
    String message = thrown.getMessage();
    String text = message == null ? thrown.getClass().getSimpleName() : message;
    if (first == thrown) {
      return text;
    }
    String reason = first.getMessage();
    if (reason != null && text.contains(reason)) {
      return text;
    }
    String name = first.getClass().getSimpleName();
    return text + ": " + name + (reason == null ? "" : ": " + reason);
  }
}
