package io.github.taskengine.handler;

import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A signal to another task, see {@link Task#sendSignal}. Each method but the accessors returns a
 * copy with one thing changed: {@code Signal.toKey("order", "4711", "paid").keep()}.
 *
 * @param name of the signal
 * @param to the id of the task; null if its key names it
 * @param type of the task; with an id it may be empty, but not for a worker with a token for some
 *     types
 * @param key of the task; empty with an id
 * @param orderingKey of the task that has the key; empty if it has none
 * @param id a task gets signals of one id once; null for a new one
 * @param data bytes, text, {@code null} or a value for JSON, like a handler's result
 * @param isKept whether a task that does not wait for the signal keeps it; otherwise it is dropped
 */
public record Signal(
    String name,
    @Nullable UUID to,
    String type,
    String key,
    String orderingKey,
    @Nullable UUID id,
    @Nullable Object data,
    boolean isKept) {
  public Signal {
    Objects.requireNonNull(orderingKey, "orderingKey");
    if (name.isEmpty() || to == null && (type.isEmpty() || key.isEmpty())) {
      throw new IllegalArgumentException(
          "a signal has a name, and the id of a task or a type and a key");
    }
  }

  /**
   * A signal to a task by its id.
   *
   * @param task the id of the task
   * @param name of the signal
   * @return the signal
   */
  public static Signal to(UUID task, String name) {
    return new Signal(name, Objects.requireNonNull(task, "task"), "", "", "", null, null, false);
  }

  /**
   * A signal to a task by its key.
   *
   * @param type of the task
   * @param key of the task
   * @param name of the signal
   * @return the signal
   */
  public static Signal toKey(String type, String key, String name) {
    return new Signal(name, null, type, key, "", null, null, false);
  }

  /**
   * Names the type of the task.
   *
   * @param type of the task: one of another type does not get the signal
   * @return the changed copy
   */
  public Signal type(String type) {
    return new Signal(name, to, type, key, orderingKey, id, data, isKept);
  }

  /**
   * Names the ordering key of the task that has the key.
   *
   * @param orderingKey of the task
   * @return the changed copy
   */
  public Signal orderingKey(String orderingKey) {
    return new Signal(name, to, type, key, orderingKey, id, data, isKept);
  }

  /**
   * Gives the signal an id of its own.
   *
   * @param id a task gets signals of one id once
   * @return the changed copy
   */
  public Signal id(UUID id) {
    return new Signal(name, to, type, key, orderingKey, id, data, isKept);
  }

  /**
   * Gives the signal data.
   *
   * @param data bytes, text, {@code null} or a value for JSON, like a handler's result
   * @return the changed copy
   */
  public Signal data(@Nullable Object data) {
    return new Signal(name, to, type, key, orderingKey, id, data, isKept);
  }

  /**
   * Has a task that does not wait for the signal keep it.
   *
   * @return the changed copy
   */
  public Signal keep() {
    return new Signal(name, to, type, key, orderingKey, id, data, true);
  }
}
