package io.github.taskengine.client;

import java.util.List;

/**
 * A workflow and its steps.
 *
 * @param name of the workflow
 * @param task that is the workflow, without payload and result
 * @param steps in an order in which they may run
 * @param output JSON; empty if the workflow is not done, or has none
 * @param retries how often it was retried
 */
public record Workflow(
    String name, Task task, List<WorkflowStep> steps, String output, int retries) {
  /** Makes it, with a copy of its list. */
  public Workflow {
    steps = List.copyOf(steps);
  }
}
