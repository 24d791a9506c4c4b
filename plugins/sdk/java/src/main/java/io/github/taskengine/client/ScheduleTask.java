package io.github.taskengine.client;

import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The tasks that a schedule adds. Each method but the accessors returns a copy with one thing
 * changed.
 *
 * @param type of the tasks
 * @param payload a text, which may have placeholders such as {{date}}; empty in lists
 * @param priority 0 (sooner) to 9 (later); null leaves it to the type
 * @param headers of the tasks
 * @param expires a task that has not begun this long after its time becomes an error; null: no
 *     bound
 */
public record ScheduleTask(
    String type,
    String payload,
    @Nullable Integer priority,
    Map<String, String> headers,
    @Nullable Duration expires) {
  /** Checks and copies what is given. */
  public ScheduleTask {
    Objects.requireNonNull(type, "type");
    Objects.requireNonNull(payload, "payload");
    headers = Map.copyOf(headers);
  }

  /**
   * Tasks of which nothing is known but their type.
   *
   * @param type of the tasks
   * @return the description
   */
  public static ScheduleTask of(String type) {
    return new ScheduleTask(type, "", null, Map.of(), null);
  }

  /**
   * Gives the tasks a payload.
   *
   * @param payload a text, which may have placeholders such as {{date}}
   * @return the changed copy
   */
  public ScheduleTask payload(String payload) {
    return new ScheduleTask(type, payload, priority, headers, expires);
  }

  /**
   * Says how soon the tasks run.
   *
   * @param priority 0 (sooner) to 9 (later)
   * @return the changed copy
   */
  public ScheduleTask priority(int priority) {
    return new ScheduleTask(type, payload, priority, headers, expires);
  }

  /**
   * Gives the tasks headers.
   *
   * @param headers their names and values
   * @return the changed copy
   */
  public ScheduleTask headers(Map<String, String> headers) {
    return new ScheduleTask(type, payload, priority, headers, expires);
  }

  /**
   * Makes a task an error that has not begun for a time.
   *
   * @param expires after the time of the schedule
   * @return the changed copy
   */
  public ScheduleTask expires(Duration expires) {
    return new ScheduleTask(type, payload, priority, headers, expires);
  }
}
