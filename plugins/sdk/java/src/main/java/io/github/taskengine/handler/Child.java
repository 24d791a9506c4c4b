package io.github.taskengine.handler;

import java.time.Instant;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A task that shall exist if and only if the success of its parent is stored. Each method but the
 * accessors returns a copy with one thing changed: {@code Child.of("mail").key("order 7")}.
 *
 * @param type of the task
 * @param key unique per type; empty for none
 * @param orderingKey tasks that share it run one at a time; empty for none
 * @param payload bytes, text, {@code null} or a value for JSON, like a handler's result
 * @param headers of the task
 * @param runAt not before this time; {@code null} is at once
 * @param priority from 0 (highest) to 9; {@code null} leaves it to the type
 */
public record Child(
    String type,
    String key,
    String orderingKey,
    @Nullable Object payload,
    Map<String, String> headers,
    @Nullable Instant runAt,
    @Nullable Integer priority) {

  public Child {
    if (type.isEmpty()) {
      throw new IllegalArgumentException("a child needs a type");
    }
    if (priority != null && (priority < 0 || priority > 9)) {
      throw new IllegalArgumentException("the priority is " + priority + ": give 0 to 9");
    }
    Objects.requireNonNull(key, "key");
    Objects.requireNonNull(orderingKey, "orderingKey");
    headers = Map.copyOf(headers);
  }

  /**
   * A child of which nothing is known but its type.
   *
   * @param type of the task
   * @return the child
   */
  public static Child of(String type) {
    return new Child(type, "", "", null, Map.of(), null, null);
  }

  /**
   * Gives the child a key.
   *
   * @param key unique per type
   * @return the changed copy
   */
  public Child key(String key) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority);
  }

  /**
   * Gives the child an ordering key.
   *
   * @param orderingKey tasks that share it run one at a time, in the order in which they are ready
   * @return the changed copy
   */
  public Child orderingKey(String orderingKey) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority);
  }

  /**
   * Gives the child an input.
   *
   * @param payload bytes, text, {@code null} or a value for JSON, like a handler's result
   * @return the changed copy
   */
  public Child payload(@Nullable Object payload) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority);
  }

  /**
   * Gives the child headers.
   *
   * @param headers instead of those it has
   * @return the changed copy
   */
  public Child headers(Map<String, String> headers) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority);
  }

  /**
   * Lets the child wait.
   *
   * @param runAt not before this time
   * @return the changed copy
   */
  public Child runAt(Instant runAt) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority);
  }

  /**
   * Gives the child a priority.
   *
   * @param priority from 0 (highest) to 9
   * @return the changed copy
   */
  public Child priority(int priority) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority);
  }
}
