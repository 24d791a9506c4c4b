package io.github.taskengine.handler;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What a handler returns that is done for now, and whose task goes on when it gets a signal of one
 * of these names, or at the end of the wait. A task that waits takes no slot. {@link Task#woken}
 * tells the attempt that follows which it was:
 *
 * <pre>{@code
 * return WaitFor.signal("paid", "refused").timeout(Duration.ofDays(2)).withResult("asked");
 * }</pre>
 *
 * <p>With a host that does not support waits, the answer becomes a permanent error of class
 * "unsupported".
 *
 * @param names of the signals
 * @param timeout for how long it waits; null if it has no such end
 * @param until when the wait ends; null if it has no such end
 * @param result so far, as {@link Handler#handle} might return it
 * @param payload for what follows, as {@link Handler#handle} might return it; null to keep it as it
 *     is
 * @param checkpoint for what follows, as {@link Handler#handle} might return it, of at most 1 MiB;
 *     null for none
 */
public record WaitFor(
    List<String> names,
    @Nullable Duration timeout,
    @Nullable Instant until,
    @Nullable Object result,
    @Nullable Object payload,
    @Nullable Object checkpoint) {
  public WaitFor {
    names = List.copyOf(names);
    if (names.isEmpty()) {
      throw new IllegalArgumentException("name the signals: WaitFor.signal(\"paid\")");
    }
    if (timeout != null && until != null) {
      throw new IllegalArgumentException("give either a timeout or until");
    }
  }

  /**
   * Waits for ever.
   *
   * @param names of the signals
   * @return the wait
   */
  public static WaitFor signal(String... names) {
    return new WaitFor(List.of(names), null, null, null, null, null);
  }

  /**
   * Waits for some time.
   *
   * @param timeout for how long
   * @return the same with this end
   */
  public WaitFor timeout(Duration timeout) {
    Objects.requireNonNull(timeout, "timeout");
    return new WaitFor(names, timeout, null, result, payload, checkpoint);
  }

  /**
   * Waits until some time.
   *
   * @param until when the wait ends
   * @return the same with this end
   */
  public WaitFor until(Instant until) {
    Objects.requireNonNull(until, "until");
    return new WaitFor(names, null, until, result, payload, checkpoint);
  }

  /**
   * Has a result so far.
   *
   * @param result as {@link Handler#handle} might return it
   * @return the same with this result
   */
  public WaitFor withResult(Object result) {
    Objects.requireNonNull(result, "result");
    return new WaitFor(names, timeout, until, result, payload, checkpoint);
  }

  /**
   * Goes on with another payload.
   *
   * @param payload as {@link Handler#handle} might return it
   * @return the same with this payload
   */
  public WaitFor withPayload(Object payload) {
    Objects.requireNonNull(payload, "payload");
    return new WaitFor(names, timeout, until, result, payload, checkpoint);
  }

  /**
   * Goes on with a checkpoint.
   *
   * @param checkpoint as {@link Handler#handle} might return it
   * @return the same with this checkpoint
   */
  public WaitFor withCheckpoint(Object checkpoint) {
    Objects.requireNonNull(checkpoint, "checkpoint");
    return new WaitFor(names, timeout, until, result, payload, checkpoint);
  }
}
