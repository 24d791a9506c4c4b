package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A range of offsets that a source could not read, because the topic did not have them any more.
 *
 * @param begin the first offset
 * @param end the offset behind the last one
 * @param at when it was noticed
 * @param reason why they are lost
 */
public record SourceLoss(long begin, long end, @Nullable Instant at, String reason) {}
