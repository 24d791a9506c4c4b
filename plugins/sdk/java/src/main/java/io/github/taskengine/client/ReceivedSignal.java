package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A signal that a task has got.
 *
 * @param name of the signal
 * @param at when the task got it
 * @param data for the handler
 */
public record ReceivedSignal(String name, @Nullable Instant at, byte[] data) {}
