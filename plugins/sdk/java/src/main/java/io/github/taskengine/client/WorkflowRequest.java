package io.github.taskengine.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Describes a workflow to add, see {@link Workflows#submit}. Each method but the accessors returns
 * a copy with one thing changed: {@code WorkflowRequest.named("order").input(order).key("o-1")}.
 *
 * @param name of a workflow in the configuration of the node; empty with a definition
 * @param definition of the workflow: a text or bytes of JSON, or a value that is sent as JSON; null
 *     with a name
 * @param input a text or bytes of JSON, a value that is sent as JSON, or null for none
 * @param key unique among all workflows; empty for none
 * @param priority of the workflow and not of its tasks, 0 (sooner) to 9 (later); null is the
 *     default
 * @param at it is not started before; null is at once
 * @param delay it is not started before this time, which begins when the node gets the request, has
 *     passed; null is at once
 * @param headers that are kept with the workflow
 * @param id of the caller's own, a UUID, so that the caller can submit the request again later;
 *     null has the client make one
 */
public record WorkflowRequest(
    String name,
    @Nullable Object definition,
    @Nullable Object input,
    String key,
    @Nullable Integer priority,
    @Nullable Instant at,
    @Nullable Duration delay,
    Map<String, String> headers,
    @Nullable String id) {
  /** Checks and copies what is given. */
  public WorkflowRequest {
    Objects.requireNonNull(key, "key");
    if (name.isEmpty() == (definition == null)) {
      throw new IllegalArgumentException("a workflow has either a name or a definition");
    }
    if (priority != null && (priority < 0 || priority > 9)) {
      throw new IllegalArgumentException("the priority is " + priority + ": give 0 to 9");
    }
    headers = Map.copyOf(headers);
  }

  /**
   * A workflow in the configuration of the node.
   *
   * @param name of the workflow
   * @return the request
   */
  public static WorkflowRequest named(String name) {
    return new WorkflowRequest(name, null, null, "", null, null, null, Map.of(), null);
  }

  /**
   * A workflow with a definition of its own.
   *
   * @param definition a text or bytes of JSON, or a value that is sent as JSON
   * @return the request
   */
  public static WorkflowRequest of(Object definition) {
    return new WorkflowRequest("", definition, null, "", null, null, null, Map.of(), null);
  }

  /**
   * Gives the workflow an input.
   *
   * @param input a text or bytes of JSON, a value that is sent as JSON, or null for none
   * @return the changed copy
   */
  public WorkflowRequest input(@Nullable Object input) {
    return new WorkflowRequest(name, definition, input, key, priority, at, delay, headers, id);
  }

  /**
   * Makes the workflow unique.
   *
   * @param key among all workflows
   * @return the changed copy
   */
  public WorkflowRequest key(String key) {
    return new WorkflowRequest(name, definition, input, key, priority, at, delay, headers, id);
  }

  /**
   * Says how soon the workflow goes on.
   *
   * @param priority 0 (sooner) to 9 (later)
   * @return the changed copy
   */
  public WorkflowRequest priority(int priority) {
    return new WorkflowRequest(name, definition, input, key, priority, at, delay, headers, id);
  }

  /**
   * Has the workflow not started before a time.
   *
   * @param at the time
   * @return the changed copy
   */
  public WorkflowRequest at(Instant at) {
    return new WorkflowRequest(name, definition, input, key, priority, at, delay, headers, id);
  }

  /**
   * Has the workflow not started before a time has passed.
   *
   * @param delay the time, which begins when the node gets the request
   * @return the changed copy
   */
  public WorkflowRequest delay(Duration delay) {
    return new WorkflowRequest(name, definition, input, key, priority, at, delay, headers, id);
  }

  /**
   * Gives the workflow headers, in place of those that it has.
   *
   * @param headers their names and values
   * @return the changed copy
   */
  public WorkflowRequest headers(Map<String, String> headers) {
    return new WorkflowRequest(name, definition, input, key, priority, at, delay, headers, id);
  }

  /**
   * Gives the workflow an id, so that the request can be submitted again later.
   *
   * @param id a UUID of the caller's own, preferably of version 7
   * @return the changed copy
   */
  public WorkflowRequest id(String id) {
    return new WorkflowRequest(name, definition, input, key, priority, at, delay, headers, id);
  }

  /**
   * Gives the workflow an id, so that the request can be submitted again later.
   *
   * @param id of the caller's own, preferably of version 7
   * @return the changed copy
   */
  public WorkflowRequest id(UUID id) {
    return id(id.toString());
  }
}
