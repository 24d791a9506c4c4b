package io.github.taskengine.client;

import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A step of a workflow. Its tasks are those of its newest run.
 *
 * @param name of the step
 * @param type of its tasks; empty for a wait
 * @param state pending, running, done, failed, cancelled or skipped
 * @param after the steps after which it runs
 * @param waits the steps for which it waits, if it is pending
 * @param count how many tasks it has
 * @param done how many of them are done
 * @param failed how many of them have failed
 * @param cancelled how many of them were cancelled
 * @param taskIds the ids of its first hundred tasks
 * @param began null if it has not
 * @param ended null if it has not
 * @param error why it is not done, or was skipped
 * @param signal that it waits for; empty if it waits for none
 * @param until until when it waits; null if it does not
 * @param compensation its state, tasks, times and error; null if the step was not compensated
 */
public record WorkflowStep(
    String name,
    String type,
    String state,
    List<String> after,
    List<String> waits,
    int count,
    int done,
    int failed,
    int cancelled,
    List<String> taskIds,
    @Nullable Instant began,
    @Nullable Instant ended,
    String error,
    String signal,
    @Nullable Instant until,
    @Nullable WorkflowStep compensation) {
  /** Makes it, with copies of its lists. */
  public WorkflowStep {
    after = List.copyOf(after);
    waits = List.copyOf(waits);
    taskIds = List.copyOf(taskIds);
  }
}
