package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A line that a handler has logged.
 *
 * @param attempt of which it is
 * @param time of the line
 * @param level DEBUG, INFO, WARN or ERROR, or one of these with an offset, such as INFO+2
 * @param message of the line
 * @param attrs its attributes, as the text of a JSON object; empty if there are none
 * @param dropped if not 0, this is no line: so many lines are missing here, because too many were
 *     logged
 * @param cut whether the line was too long, so that its texts are truncated
 * @param node that has the line
 * @param cursor where to go on after the line
 */
public record LogLine(
    int attempt,
    @Nullable Instant time,
    String level,
    String message,
    String attrs,
    long dropped,
    boolean cut,
    String node,
    String cursor)
    implements LogEntry {}
