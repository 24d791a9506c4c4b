package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * What an attempt has reported of how far it is.
 *
 * @param done in a unit that the handler chooses
 * @param total 0 if it is not known
 * @param message for people
 * @param at when it was reported
 */
public record Progress(long done, long total, String message, @Nullable Instant at) {}
