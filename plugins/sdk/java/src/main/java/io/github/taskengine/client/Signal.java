package io.github.taskengine.client;

import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A signal to a task, see {@link TaskengineClient#signal}. Each method but the accessors returns a
 * copy with one thing changed: {@code Signal.toKey("order", "4711", "paid").keep()}.
 *
 * @param name of the signal, at most 100 bytes
 * @param to the id of the task; empty if its key names it
 * @param type of the task; empty with an id
 * @param key of the task; empty with an id
 * @param orderingKey of the task that has the key; empty if it has none
 * @param data bytes or a text, which are sent as they are, a value that is sent as JSON, or null
 *     for none
 * @param isKept whether a task that does not wait for the signal keeps it; otherwise it is dropped
 * @param id of the caller's own, a UUID: a task gets signals of one id once; null has the client
 *     make one
 */
public record Signal(
    String name,
    String to,
    String type,
    String key,
    String orderingKey,
    @Nullable Object data,
    boolean isKept,
    @Nullable String id) {
  /** Checks what is given. */
  public Signal {
    Objects.requireNonNull(orderingKey, "orderingKey");
    if (name.isEmpty() || to.isEmpty() && (type.isEmpty() || key.isEmpty())) {
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
  public static Signal to(String task, String name) {
    return new Signal(name, task, "", "", "", null, false, null);
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
    return new Signal(name, "", type, key, "", null, false, null);
  }

  /**
   * Names the ordering key of the task that has the key.
   *
   * @param orderingKey of the task
   * @return the changed copy
   */
  public Signal orderingKey(String orderingKey) {
    return new Signal(name, to, type, key, orderingKey, data, isKept, id);
  }

  /**
   * Gives the signal data.
   *
   * @param data bytes or a text, which are sent as they are, a value that is sent as JSON, or null
   *     for none
   * @return the changed copy
   */
  public Signal data(@Nullable Object data) {
    return new Signal(name, to, type, key, orderingKey, data, isKept, id);
  }

  /**
   * Has a task that does not wait for the signal keep it until it does, or ends.
   *
   * @return the changed copy
   */
  public Signal keep() {
    return new Signal(name, to, type, key, orderingKey, data, true, id);
  }

  /**
   * Gives the signal an id, so that it can be sent again later.
   *
   * @param id a UUID of the caller's own
   * @return the changed copy
   */
  public Signal id(String id) {
    return new Signal(name, to, type, key, orderingKey, data, isKept, id);
  }

  /**
   * Gives the signal an id, so that it can be sent again later.
   *
   * @param id of the caller's own
   * @return the changed copy
   */
  public Signal id(UUID id) {
    return id(id.toString());
  }
}
