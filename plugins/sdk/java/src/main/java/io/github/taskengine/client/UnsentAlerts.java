package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A notification that its target has not accepted yet.
 *
 * @param id of the notification
 * @param target that is to accept it
 * @param rule of its alerts
 * @param summary for people
 * @param at when it was made
 */
public record UnsentAlerts(
    String id, String target, String rule, String summary, @Nullable Instant at) {}
