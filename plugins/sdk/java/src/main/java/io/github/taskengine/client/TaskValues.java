package io.github.taskengine.client;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * New values of a task. What is left out stays as it is. Each method but the accessors returns a
 * copy with one thing changed: {@code TaskValues.none().priority(1)}.
 *
 * @param priority 0 (sooner) to 9 (later); null leaves it
 * @param payload encoded as that of a {@link Request}; null leaves it, and an empty text is an
 *     empty one
 * @param headers that are set; others stay as they are
 * @param removedHeaders the names of headers that are removed
 */
public record TaskValues(
    @Nullable Integer priority,
    @Nullable Object payload,
    Map<String, String> headers,
    List<String> removedHeaders) {
  /** Checks and copies what is given. */
  public TaskValues {
    if (priority != null && (priority < 0 || priority > 9)) {
      throw new IllegalArgumentException("the priority is " + priority + ": give 0 to 9");
    }
    headers = Map.copyOf(headers);
    removedHeaders = List.copyOf(removedHeaders);
  }

  /**
   * No new values.
   *
   * @return the values
   */
  public static TaskValues none() {
    return new TaskValues(null, null, Map.of(), List.of());
  }

  /**
   * Changes the priority.
   *
   * @param priority 0 (sooner) to 9 (later)
   * @return the changed copy
   */
  public TaskValues priority(int priority) {
    return new TaskValues(priority, payload, headers, removedHeaders);
  }

  /**
   * Changes the payload.
   *
   * @param payload bytes or a text, which are sent as they are, or a value that is sent as JSON
   * @return the changed copy
   */
  public TaskValues payload(Object payload) {
    return new TaskValues(priority, payload, headers, removedHeaders);
  }

  /**
   * Sets headers.
   *
   * @param headers their names and values
   * @return the changed copy
   */
  public TaskValues headers(Map<String, String> headers) {
    return new TaskValues(priority, payload, headers, removedHeaders);
  }

  /**
   * Removes headers.
   *
   * @param names of the headers
   * @return the changed copy
   */
  public TaskValues removeHeaders(String... names) {
    return new TaskValues(priority, payload, headers, List.of(names));
  }
}
