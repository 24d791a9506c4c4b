package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A platform of a source of time slices.
 *
 * @param source of the platform
 * @param name of the platform
 * @param cursor the start of its next slice; null: it has not begun
 * @param lowWater all slices before it have ended; null: it has not begun
 * @param cursorLag the time from its cursor to the present; null: it has not begun
 * @param next when its cursor runs next; null: at the next order
 * @param running slices that run or will
 * @param failed slices that have failed, and wait until they are retried
 * @param stopped by its breaker; null: it is not
 * @param paused null: it is not
 * @param removed whether it makes no slices until it is added again
 * @param orders that were accepted and are not carried out yet
 * @param problem why it does not go on, or why its newest values are not in force; empty if neither
 * @param made slices, since it was added
 * @param done how many of them are done
 * @param givenUp slices whose tasks were cancelled or failed by hand
 * @param taskId of its cursor
 * @param settings in force, by name; none before it has begun; not in lists
 * @param slices that have not ended, in the order in which they were made; not in lists
 * @param history the newest changes, the oldest first; not in lists
 * @param version grows with each change of its own values, and when it is added or removed
 * @param own the values that were set for it while nodes ran, after its orders
 * @param configured whether the configuration of the source names it
 */
public record Platform(
    String source,
    String name,
    @Nullable Instant cursor,
    @Nullable Instant lowWater,
    @Nullable Duration cursorLag,
    @Nullable Instant next,
    int running,
    int failed,
    @Nullable PlatformStop stopped,
    @Nullable SourcePause paused,
    boolean removed,
    int orders,
    String problem,
    long made,
    long done,
    long givenUp,
    String taskId,
    List<SliceSetting> settings,
    List<OpenSlice> slices,
    List<SliceChange> history,
    long version,
    Map<String, String> own,
    boolean configured) {
  /** Makes it, with copies of its lists and its map. */
  public Platform {
    settings = List.copyOf(settings);
    slices = List.copyOf(slices);
    history = List.copyOf(history);
    own = Map.copyOf(own);
  }
}
