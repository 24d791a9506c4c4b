package io.github.taskengine.handler;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What a handler returns that is done for now, and whose task goes on when one of these waits for
 * its children is over, or at the end of the wait. A task that waits takes no slot. {@link
 * Task#children} tells the attempt that follows how they have ended:
 *
 * <pre>{@code
 * task.addChildren("page", pages);
 * return WaitForChildren.of(ChildrenWait.all("page").orFailed()).timeout(Duration.ofDays(2));
 * }</pre>
 *
 * <p>With a host that does not support that, the answer becomes a permanent error of class
 * "unsupported".
 *
 * @param waits of which one is over
 * @param timeout for how long it waits; null if it has no such end
 * @param until when the wait ends; null if it has no such end
 * @param result so far, as {@link Handler#handle} might return it
 * @param payload for what follows, as {@link Handler#handle} might return it; null to keep it as it
 *     is
 * @param checkpoint for what follows, as {@link Handler#handle} might return it, of at most 1 MiB;
 *     null for none
 */
public record WaitForChildren(
    List<ChildrenWait> waits,
    @Nullable Duration timeout,
    @Nullable Instant until,
    @Nullable Object result,
    @Nullable Object payload,
    @Nullable Object checkpoint) {
  public WaitForChildren {
    waits = List.copyOf(waits);
    if (waits.isEmpty()) {
      throw new IllegalArgumentException("name the children: WaitForChildren.of(\"page\")");
    }
    if (timeout != null && until != null) {
      throw new IllegalArgumentException("give either a timeout or until");
    }
  }

  /**
   * Waits for all children of these names, for ever.
   *
   * @param names of the children
   * @return the wait
   */
  public static WaitForChildren of(String... names) {
    return of(Arrays.stream(names).map(ChildrenWait::all).toArray(ChildrenWait[]::new));
  }

  /**
   * Waits until one of these waits is over, for ever.
   *
   * @param waits for children
   * @return the wait
   */
  public static WaitForChildren of(ChildrenWait... waits) {
    return new WaitForChildren(List.of(waits), null, null, null, null, null);
  }

  /**
   * Waits for some time.
   *
   * @param timeout for how long
   * @return the same with this end
   */
  public WaitForChildren timeout(Duration timeout) {
    Objects.requireNonNull(timeout, "timeout");
    return new WaitForChildren(waits, timeout, null, result, payload, checkpoint);
  }

  /**
   * Waits until some time.
   *
   * @param until when the wait ends
   * @return the same with this end
   */
  public WaitForChildren until(Instant until) {
    Objects.requireNonNull(until, "until");
    return new WaitForChildren(waits, null, until, result, payload, checkpoint);
  }

  /**
   * Has a result so far.
   *
   * @param result as {@link Handler#handle} might return it
   * @return the same with this result
   */
  public WaitForChildren withResult(Object result) {
    Objects.requireNonNull(result, "result");
    return new WaitForChildren(waits, timeout, until, result, payload, checkpoint);
  }

  /**
   * Goes on with another payload.
   *
   * @param payload as {@link Handler#handle} might return it
   * @return the same with this payload
   */
  public WaitForChildren withPayload(Object payload) {
    Objects.requireNonNull(payload, "payload");
    return new WaitForChildren(waits, timeout, until, result, payload, checkpoint);
  }

  /**
   * Goes on with a checkpoint.
   *
   * @param checkpoint as {@link Handler#handle} might return it
   * @return the same with this checkpoint
   */
  public WaitForChildren withCheckpoint(Object checkpoint) {
    Objects.requireNonNull(checkpoint, "checkpoint");
    return new WaitForChildren(waits, timeout, until, result, payload, checkpoint);
  }
}
