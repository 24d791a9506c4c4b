package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Describes a task to add. Each method but the accessors returns a copy with one thing changed:
 * {@code Request.of("mail").payload(mail).key("m-1")}.
 *
 * @param type of the task
 * @param payload bytes or a text, which are sent as they are, a value that is sent as JSON, or null
 *     for none
 * @param key unique among the tasks of the type that are kept; empty for none
 * @param orderingKey tasks that share it run one at a time; empty for none
 * @param priority 0 (sooner) to 9 (later); null leaves it to the type
 * @param at it is not started before; null is at once
 * @param delay it is not started before this time, which begins when the node gets the request, has
 *     passed; null is at once
 * @param expiresAt it becomes an error if it has not begun by then; null is never
 * @param headers of the task
 * @param id of the caller's own, a UUID, so that the caller can submit the request again later;
 *     null has the client make one
 * @param after ids of tasks that exist: it runs when all of them are done, and is cancelled if one
 *     of them fails or is cancelled; empty for none
 * @param afterAny it runs when the tasks of after have ended, however
 */
public record Request(
    String type,
    @Nullable Object payload,
    String key,
    String orderingKey,
    @Nullable Integer priority,
    @Nullable Instant at,
    @Nullable Duration delay,
    @Nullable Instant expiresAt,
    Map<String, String> headers,
    @Nullable String id,
    List<String> after,
    boolean afterAny) {
  /** Checks and copies what is given. */
  public Request {
    Objects.requireNonNull(key, "key");
    Objects.requireNonNull(orderingKey, "orderingKey");
    if (type.isEmpty()) {
      throw new IllegalArgumentException("a request needs a type");
    }
    if (priority != null && (priority < 0 || priority > 9)) {
      throw new IllegalArgumentException("the priority is " + priority + ": give 0 to 9");
    }
    headers = Map.copyOf(headers);
    after = List.copyOf(after);
  }

  /**
   * A request of which nothing is known but its type.
   *
   * @param type of the task
   * @return the request
   */
  public static Request of(String type) {
    return new Draft(type).request();
  }

  /**
   * Gives the task a payload.
   *
   * @param payload bytes or a text, which are sent as they are, a value that is sent as JSON, or
   *     null for none
   * @return the changed copy
   */
  public Request payload(@Nullable Object payload) {
    return with(draft -> draft.payload = payload);
  }

  /**
   * Makes the task unique.
   *
   * @param key among the tasks of the type that are kept
   * @return the changed copy
   */
  public Request key(String key) {
    return with(draft -> draft.key = key);
  }

  /**
   * Has the task run after those that were added before with the same ordering key.
   *
   * @param orderingKey shared with them
   * @return the changed copy
   */
  public Request orderingKey(String orderingKey) {
    return with(draft -> draft.orderingKey = orderingKey);
  }

  /**
   * Says how soon the task runs.
   *
   * @param priority 0 (sooner) to 9 (later)
   * @return the changed copy
   */
  public Request priority(int priority) {
    return with(draft -> draft.priority = priority);
  }

  /**
   * Has the task not started before a time.
   *
   * @param at the time
   * @return the changed copy
   */
  public Request at(Instant at) {
    return with(draft -> draft.at = at);
  }

  /**
   * Has the task not started before a time has passed.
   *
   * @param delay the time, which begins when the node gets the request
   * @return the changed copy
   */
  public Request delay(Duration delay) {
    return with(draft -> draft.delay = delay);
  }

  /**
   * Makes the task an error if it has not begun by a time.
   *
   * @param expiresAt the time
   * @return the changed copy
   */
  public Request expiresAt(Instant expiresAt) {
    return with(draft -> draft.expiresAt = expiresAt);
  }

  /**
   * Gives the task headers, in place of those that it has.
   *
   * @param headers their names and values
   * @return the changed copy
   */
  public Request headers(Map<String, String> headers) {
    return with(draft -> draft.headers = headers);
  }

  /**
   * Has the task run when others, which exist, are done. If one of them fails or is cancelled, the
   * task is cancelled.
   *
   * @param ids of the others
   * @return the changed copy
   */
  public Request after(String... ids) {
    return with(
        draft -> {
          draft.after = List.of(ids);
          draft.afterAny = false;
        });
  }

  /**
   * Has the task run when others, which exist, have ended, however.
   *
   * @param ids of the others
   * @return the changed copy
   */
  public Request afterAny(String... ids) {
    return with(
        draft -> {
          draft.after = List.of(ids);
          draft.afterAny = true;
        });
  }

  /**
   * Gives the task an id, so that the request can be submitted again later.
   *
   * @param id a UUID of the caller's own, preferably of version 7
   * @return the changed copy
   */
  public Request id(String id) {
    return with(draft -> draft.id = id);
  }

  /**
   * Gives the task an id, so that the request can be submitted again later.
   *
   * @param id of the caller's own, preferably of version 7
   * @return the changed copy
   */
  public Request id(UUID id) {
    return id(id.toString());
  }

  private Request with(Consumer<Draft> change) {
    Draft draft = new Draft(this);
    change.accept(draft);
    return draft.request();
  }

  /** The values of a request that is being made. Of the fields of a request it alone knows all. */
  private static final class Draft {
    private final String type;
    private @Nullable Object payload;
    private String key = "";
    private String orderingKey = "";
    private @Nullable Integer priority;
    private @Nullable Instant at;
    private @Nullable Duration delay;
    private @Nullable Instant expiresAt;
    private Map<String, String> headers = Map.of();
    private @Nullable String id;
    private List<String> after = List.of();
    private boolean afterAny;

    Draft(String type) {
      this.type = type;
    }

    Draft(Request r) {
      type = r.type;
      payload = r.payload;
      key = r.key;
      orderingKey = r.orderingKey;
      priority = r.priority;
      at = r.at;
      delay = r.delay;
      expiresAt = r.expiresAt;
      headers = r.headers;
      id = r.id;
      after = r.after;
      afterAny = r.afterAny;
    }

    Request request() {
      return new Request(
          type,
          payload,
          key,
          orderingKey,
          priority,
          at,
          delay,
          expiresAt,
          headers,
          id,
          after,
          afterAny);
    }
  }
}
