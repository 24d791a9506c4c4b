package io.github.taskengine.client;

import java.util.Objects;

/**
 * Which lines of the log of a task are read: {@code LogFilter.all().followed()}.
 *
 * @param attempt only its lines; 0: those of all attempts
 * @param isFollowed whether new lines follow as they come, until the task has ended
 * @param cursor of an earlier entry; empty: the first line
 */
public record LogFilter(int attempt, boolean isFollowed, String cursor) {
  /** Checks what is given. */
  public LogFilter {
    Objects.requireNonNull(cursor, "cursor");
    if (attempt < 0) {
      throw new IllegalArgumentException("the attempt is " + attempt + ": give 1 or more");
    }
  }

  /**
   * All lines that there are.
   *
   * @return the filter
   */
  public static LogFilter all() {
    return new LogFilter(0, false, "");
  }

  /**
   * Takes the lines of one attempt only.
   *
   * @param attempt its number
   * @return the changed copy
   */
  public LogFilter attempt(int attempt) {
    return new LogFilter(attempt, isFollowed, cursor);
  }

  /**
   * Has new lines follow as they come, until the task has ended.
   *
   * @return the changed copy
   */
  public LogFilter followed() {
    return new LogFilter(attempt, true, cursor);
  }

  /**
   * Goes on after an entry.
   *
   * @param cursor of the entry
   * @return the changed copy
   */
  public LogFilter after(String cursor) {
    return new LogFilter(attempt, isFollowed, cursor);
  }
}
