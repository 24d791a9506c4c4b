package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A schedule with its state, as it is when its pending orders are carried out.
 *
 * @param name of the schedule
 * @param definition when it fires and what it adds
 * @param next its next time; null: it has none, or is paused
 * @param paused null if it is not paused
 * @param last what it has added last
 * @param fires how many tasks it has added
 * @param missed times that were missed and not caught up with
 * @param overlapped times that were left out because of an earlier task
 * @param waiting times whose tasks wait for the end of an earlier one; not in lists
 * @param running fires whose tasks had not ended when it last ran; not in lists
 * @param orders requests that were accepted and are not carried out yet
 * @param taskId of the task that is the schedule
 * @param error why it cannot run; empty if it can
 * @param attempt how many attempts to run it have failed since it last ran
 * @param version grows with each new definition
 */
public record Schedule(
    String name,
    ScheduleDefinition definition,
    @Nullable Instant next,
    @Nullable SchedulePause paused,
    @Nullable ScheduleFire last,
    long fires,
    long missed,
    long overlapped,
    List<Instant> waiting,
    List<ScheduleFire> running,
    int orders,
    String taskId,
    String error,
    int attempt,
    long version) {
  /** Makes it, with copies of its lists. */
  public Schedule {
    waiting = List.copyOf(waiting);
    running = List.copyOf(running);
  }
}
