package io.github.taskengine.client;

import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The children that are added with a task, and how it waits for them, see {@link
 * TaskengineClient#submitWithChildren}. Each method but the accessors returns a copy with one thing
 * changed: {@code Children.of(pages).name("page").orFailed()}.
 *
 * @param requests for them, without ids and keys. Either all have an ordering key, or none has
 * @param name by which the handler of the task finds them; empty stands for child
 * @param count the task runs when so many have ended; 0 stands for all
 * @param isOrFailed whether the task also runs when one of them has failed or was cancelled
 * @param until when the task runs at the latest; null is never
 */
public record Children(
    List<Request> requests, String name, int count, boolean isOrFailed, @Nullable Instant until) {
  /** Checks and copies what is given. */
  public Children {
    requests = List.copyOf(requests);
    Objects.requireNonNull(name, "name");
    if (count < 0) {
      throw new IllegalArgumentException("the count is " + count + ": give 0 or more");
    }
  }

  /**
   * Children, for all of which the task waits.
   *
   * @param requests for them
   * @return the children
   */
  public static Children of(Collection<Request> requests) {
    return new Children(List.copyOf(requests), "", 0, false, null);
  }

  /**
   * Names the children.
   *
   * @param name by which the handler of the task finds them
   * @return the changed copy
   */
  public Children name(String name) {
    return new Children(requests, name, count, isOrFailed, until);
  }

  /**
   * Has the task wait for some of them.
   *
   * @param count how many have ended
   * @return the changed copy
   */
  public Children count(int count) {
    return new Children(requests, name, count, isOrFailed, until);
  }

  /**
   * Has the task also run when one of them has failed or was cancelled.
   *
   * @return the changed copy
   */
  public Children orFailed() {
    return new Children(requests, name, count, true, until);
  }

  /**
   * Ends the wait at a time.
   *
   * @param until when the task runs at the latest
   * @return the changed copy
   */
  public Children until(Instant until) {
    return new Children(requests, name, count, isOrFailed, until);
  }
}
