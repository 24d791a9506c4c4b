package io.github.taskengine.client;

/** A line that a handler has logged or, as the last entry, which lines are missing. */
public sealed interface LogEntry permits LogLine, MissingLines {
  /**
   * Where to go on after the entry; a few lines may come again.
   *
   * @return the cursor for {@link LogFilter#after}
   */
  String cursor();
}
