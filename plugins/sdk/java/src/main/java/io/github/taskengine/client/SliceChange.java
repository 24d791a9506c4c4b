package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A change of a source of time slices or of a platform.
 *
 * @param at the time
 * @param by whom; may be empty
 * @param what with its reason, for people
 */
public record SliceChange(@Nullable Instant at, String by, String what) {}
