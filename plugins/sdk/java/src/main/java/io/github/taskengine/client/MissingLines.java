package io.github.taskengine.client;

import java.util.List;

/**
 * Which lines of a log are missing.
 *
 * @param elsewhere attempts that ran on other nodes, and of which no line has come
 * @param silent nodes that did not answer
 * @param cursor where to go on
 */
public record MissingLines(List<RanElsewhere> elsewhere, List<SilentNode> silent, String cursor)
    implements LogEntry {
  /** Makes it, with copies of its lists. */
  public MissingLines {
    elsewhere = List.copyOf(elsewhere);
    silent = List.copyOf(silent);
  }
}
