package io.github.taskengine.handler;

import java.time.Instant;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
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
 * @param after up to 100 tasks that exist, by their ids, see {@link #after(UUID...)}
 * @param isAfterAny whether it runs when the tasks of {@code after} have ended, however
 */
public record Child(
    String type,
    String key,
    String orderingKey,
    @Nullable Object payload,
    Map<String, String> headers,
    @Nullable Instant runAt,
    @Nullable Integer priority,
    List<UUID> after,
    boolean isAfterAny) {
  private static final int MAX_AFTER = 100;

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
    after = List.copyOf(after);
    check(after, isAfterAny, runAt);
  }

  private static void check(List<UUID> after, boolean isAfterAny, @Nullable Instant runAt) {
    if (after.size() > MAX_AFTER) {
      throw new IllegalArgumentException(
          "after has %d tasks, of %d allowed: have the task run after one that runs after some of them"
              .formatted(after.size(), MAX_AFTER));
    }
    if (isAfterAny && after.isEmpty()) {
      throw new IllegalArgumentException("it is after any, and after names no task");
    }
    if (!after.isEmpty() && runAt != null) {
      throw new IllegalArgumentException(
          "it has a time, and after: it runs when the tasks of after have ended");
    }
    Set<UUID> seen = new HashSet<>();
    for (UUID id : after) {
      if (id.equals(new UUID(0, 0))) {
        throw new IllegalArgumentException("after has an id that is zero");
      }
      if (!seen.add(id)) {
        throw new IllegalArgumentException("after has the task " + id + " twice");
      }
    }
  }

  /**
   * A child of which nothing is known but its type.
   *
   * @param type of the task
   * @return the child
   */
  public static Child of(String type) {
    return new Child(type, "", "", null, Map.of(), null, null, List.of(), false);
  }

  /**
   * Gives the child a key.
   *
   * @param key unique per type
   * @return the changed copy
   */
  public Child key(String key) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority, after, isAfterAny);
  }

  /**
   * Gives the child an ordering key.
   *
   * @param orderingKey tasks that share it run one at a time, in the order in which they are ready
   * @return the changed copy
   */
  public Child orderingKey(String orderingKey) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority, after, isAfterAny);
  }

  /**
   * Gives the child an input.
   *
   * @param payload bytes, text, {@code null} or a value for JSON, like a handler's result
   * @return the changed copy
   */
  public Child payload(@Nullable Object payload) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority, after, isAfterAny);
  }

  /**
   * Gives the child headers.
   *
   * @param headers instead of those it has
   * @return the changed copy
   */
  public Child headers(Map<String, String> headers) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority, after, isAfterAny);
  }

  /**
   * Lets the child wait.
   *
   * @param runAt not before this time
   * @return the changed copy
   */
  public Child runAt(Instant runAt) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority, after, isAfterAny);
  }

  /**
   * Gives the child a priority.
   *
   * @param priority from 0 (highest) to 9
   * @return the changed copy
   */
  public Child priority(int priority) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority, after, isAfterAny);
  }

  /**
   * Lets the child run after tasks that exist: when all of them are done. It is cancelled if one of
   * them fails or is cancelled. It has no {@code runAt} then, and is no child that its task learns
   * the end of. If one of them is not in the store, the attempt fails: a task that the same answer
   * adds is not there yet.
   *
   * @param ids of the tasks, instead of those it has; at most 100
   * @return the changed copy
   */
  public Child after(UUID... ids) {
    return new Child(
        type, key, orderingKey, payload, headers, runAt, priority, List.of(ids), false);
  }

  /**
   * Lets the child run after tasks that exist: when all of them have ended, however. See {@link
   * #after(UUID...)}.
   *
   * @param ids of the tasks, instead of those it has; at most 100
   * @return the changed copy
   */
  public Child afterAny(UUID... ids) {
    return new Child(type, key, orderingKey, payload, headers, runAt, priority, List.of(ids), true);
  }
}
