package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * An order that a person has given to a bulk job.
 *
 * @param at when it was given
 * @param by who has given it
 * @param what the order
 * @param reason for it; may be empty
 */
public record BulkEvent(@Nullable Instant at, String by, String what, String reason) {}
