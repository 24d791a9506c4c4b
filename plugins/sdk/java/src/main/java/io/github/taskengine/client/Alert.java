package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A rule of the configuration about one type, limit, node, handler or directory.
 *
 * @param rule its name
 * @param when the subject of the rule, as the configuration has it: errors, queue_age, ...
 * @param labels type, limit, handler or path; node if it is about a node
 * @param status firing, or resolved if it ended without a notification so far
 * @param since since when it has the status
 * @param firedAt when it began to fire
 * @param resolvedAt null while it fires
 * @param value when a notification was made last, or it began to fire
 * @param summary for people
 * @param detail for people; it may have any text of a task
 * @param notified targets with a notification that it fires, sent or due
 * @param silence the id of a silence that covers it; empty: none does
 */
public record Alert(
    String rule,
    String when,
    Map<String, String> labels,
    String status,
    @Nullable Instant since,
    @Nullable Instant firedAt,
    @Nullable Instant resolvedAt,
    double value,
    String summary,
    String detail,
    List<String> notified,
    String silence) {
  /** Makes it, with copies of its lists. */
  public Alert {
    labels = Map.copyOf(labels);
    notified = List.copyOf(notified);
  }
}
