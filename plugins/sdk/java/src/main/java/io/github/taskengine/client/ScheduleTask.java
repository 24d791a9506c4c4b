package io.github.taskengine.client;

import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The tasks that a schedule adds. Each method but the accessors returns a copy with one thing
 * changed.
 *
 * @param type of the tasks; empty if workflow is given
 * @param payload a text, which may have placeholders such as {{date}}; empty in lists. Of a
 *     workflow: its input, which is JSON
 * @param priority 0 (sooner) to 9 (later); null leaves it to the type
 * @param headers of the tasks
 * @param expires a task that has not begun this long after its time becomes an error; null: no
 *     bound
 * @param workflow in place of type: its name in the configuration of the nodes; empty if type is
 *     given
 */
public record ScheduleTask(
    String type,
    String payload,
    @Nullable Integer priority,
    Map<String, String> headers,
    @Nullable Duration expires,
    String workflow) {
  /** Checks and copies what is given. */
  public ScheduleTask {
    Objects.requireNonNull(type, "type");
    Objects.requireNonNull(payload, "payload");
    Objects.requireNonNull(workflow, "workflow");
    headers = Map.copyOf(headers);
  }

  /**
   * Tasks of which nothing is known but their type.
   *
   * @param type of the tasks
   * @return the description
   */
  public static ScheduleTask of(String type) {
    return new ScheduleTask(type, "", null, Map.of(), null, "");
  }

  /**
   * Workflows of the configuration of the nodes, each with the definition of its time.
   *
   * @param workflow its name
   * @return the description
   */
  public static ScheduleTask ofWorkflow(String workflow) {
    return new ScheduleTask("", "", null, Map.of(), null, workflow);
  }

  /**
   * Gives the tasks a payload.
   *
   * @param payload a text, which may have placeholders such as {{date}}
   * @return the changed copy
   */
  public ScheduleTask payload(String payload) {
    return new ScheduleTask(type, payload, priority, headers, expires, workflow);
  }

  /**
   * Says how soon the tasks run.
   *
   * @param priority 0 (sooner) to 9 (later)
   * @return the changed copy
   */
  public ScheduleTask priority(int priority) {
    return new ScheduleTask(type, payload, priority, headers, expires, workflow);
  }

  /**
   * Gives the tasks headers.
   *
   * @param headers their names and values
   * @return the changed copy
   */
  public ScheduleTask headers(Map<String, String> headers) {
    return new ScheduleTask(type, payload, priority, headers, expires, workflow);
  }

  /**
   * Makes a task an error that has not begun for a time.
   *
   * @param expires after the time of the schedule
   * @return the changed copy
   */
  public ScheduleTask expires(Duration expires) {
    return new ScheduleTask(type, payload, priority, headers, expires, workflow);
  }
}
