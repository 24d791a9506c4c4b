package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * What people have set for a limit.
 *
 * @param max null: not set; 0: no limit
 * @param rate null: not set; with a count of 0: no limit
 * @param paused whether tasks that count for it are not started
 * @param version grows with every change of any limit
 * @param by who set it
 * @param node that took the request
 * @param at when it was set
 * @param value the value, or pattern, for which it is set; empty: the limit as a whole
 * @param problem why it has no effect on this node, or not the wanted one; empty if there is no
 *     problem
 */
public record LimitSetting(
    @Nullable Integer max,
    @Nullable Rate rate,
    boolean paused,
    long version,
    String by,
    String node,
    @Nullable Instant at,
    String value,
    String problem) {}
