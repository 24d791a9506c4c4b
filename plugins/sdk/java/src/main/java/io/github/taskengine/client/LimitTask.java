package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A task that takes slots of a limit.
 *
 * @param id of the task
 * @param type of the task
 * @param slots how many it takes: its weight
 * @param startedAt null: it is being started
 * @param node that runs it
 */
public record LimitTask(
    String id, String type, int slots, @Nullable Instant startedAt, String node) {}
