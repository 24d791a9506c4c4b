package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A bulk job at one moment.
 *
 * @param name of the job
 * @param phase running, paused, done, stopped, or ended: its task was cancelled or failed by hand
 * @param verb the change that it makes to each task
 * @param where the filter with its times
 * @param types of the tasks; none: all
 * @param reason of cancel and fail
 * @param at of reschedule and set
 * @param rate tasks in a second; 0 is as fast as possible
 * @param by who has ordered it
 * @param orderedAt when it was ordered
 * @param begunAt when it began
 * @param endedAt when it ended
 * @param total tasks that the filter selected at the order
 * @param totalComplete whether these were all; if not, there were more
 * @param changed tasks that the job has changed
 * @param skipped that were gone, or did not match any more, when the job came to them
 * @param refused of which the state does not allow it
 * @param unclear of which a node that died has left open whether the job has changed them
 * @param read tasks that were read to find them
 * @param refusals the first 100; not in lists
 * @param history the newest orders of people, at most 50; not in lists
 * @param taskId of the job
 * @param problem why it does not go on; empty if it does
 * @param undoes of undo: the job that it undoes
 */
public record BulkJob(
    String name,
    String phase,
    String verb,
    String where,
    List<String> types,
    String reason,
    @Nullable Instant at,
    double rate,
    String by,
    @Nullable Instant orderedAt,
    @Nullable Instant begunAt,
    @Nullable Instant endedAt,
    long total,
    boolean totalComplete,
    long changed,
    long skipped,
    long refused,
    long unclear,
    long read,
    List<BulkRefusal> refusals,
    List<BulkEvent> history,
    String taskId,
    String problem,
    String undoes) {
  /** Makes it, with copies of its lists. */
  public BulkJob {
    types = List.copyOf(types);
    refusals = List.copyOf(refusals);
    history = List.copyOf(history);
  }

  /**
   * Whether the job is over.
   *
   * @return true unless it is running or paused
   */
  public boolean hasEnded() {
    return !phase.equals("running") && !phase.equals("paused");
  }
}
