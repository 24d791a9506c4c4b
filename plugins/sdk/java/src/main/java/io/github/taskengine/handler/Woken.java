package io.github.taskengine.handler;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * What ended the wait of a task for a signal or for children.
 *
 * @param by what it was
 * @param id of the signal; null if it was none
 * @param name of the signal; empty if it was none
 * @param at when the signal came; null if it was none
 * @param data that the sender has given with the signal; empty if there is none
 */
public record Woken(By by, @Nullable UUID id, String name, @Nullable Instant at, byte[] data) {
  /** What may end a wait. */
  public enum By {
    /** A signal came. */
    SIGNAL,
    /** The time came until which the task waited. */
    TIMEOUT,
    /** A user has resumed the task. */
    USER,
    /** Children have ended. */
    CHILDREN
  }

  static Woken of(By by) {
    return new Woken(by, null, "", null, new byte[0]);
  }

  /**
   * The data as UTF-8 text.
   *
   * @return the text
   */
  public String text() {
    return new String(data, StandardCharsets.UTF_8);
  }
}
