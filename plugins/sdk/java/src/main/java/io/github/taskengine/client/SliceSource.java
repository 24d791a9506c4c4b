package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A source of time slices: platforms that are polled for what happened in slices of time. Counts
 * are sums over its platforms.
 *
 * @param name of the source
 * @param type of the tasks of its slices
 * @param platformCount how many platforms it has
 * @param lowWater the oldest one of its platforms; null: none has begun
 * @param cursorLag the longest one of its platforms; null: none has begun
 * @param running slices that run or will
 * @param failed slices that have failed, and wait until they are retried
 * @param stopped platforms that are stopped by their breaker
 * @param paused platforms that are paused
 * @param problems platforms that have a problem
 * @param orders that it has not carried out, or has not passed to all of its platforms
 * @param problem why it carries out no orders; empty if it does
 * @param taskId of the task that is the source
 * @param values that are set for it, by name; not in lists
 * @param history the newest changes, the oldest first; not in lists
 * @param onlyOn the node that has these values and platforms in a store of its own; empty: all
 *     nodes have them
 * @param version of its values: grows with each change of them, also by the configuration
 */
public record SliceSource(
    String name,
    String type,
    int platformCount,
    @Nullable Instant lowWater,
    @Nullable Duration cursorLag,
    long running,
    long failed,
    int stopped,
    int paused,
    int problems,
    int orders,
    String problem,
    String taskId,
    List<SliceSetting> values,
    List<SliceChange> history,
    String onlyOn,
    long version) {
  /** Makes it, with copies of its lists. */
  public SliceSource {
    values = List.copyOf(values);
    history = List.copyOf(history);
  }
}
