package io.github.taskengine.handler;

import java.util.Objects;

/**
 * What a task waits for of its children of one name.
 *
 * @param name of the children
 * @param count how many have ended; 0 stands for all that were added
 * @param isOrFailed whether the wait is also over when one of them has failed or was cancelled
 */
public record ChildrenWait(String name, int count, boolean isOrFailed) {
  public ChildrenWait {
    Objects.requireNonNull(name, "name");
    if (count < 0) {
      throw new IllegalArgumentException("the count is " + count + ": give 0 or more");
    }
  }

  /**
   * Waits for all children.
   *
   * @param name of the children
   * @return the wait
   */
  public static ChildrenWait all(String name) {
    return new ChildrenWait(name, 0, false);
  }

  /**
   * Waits for some children.
   *
   * @param count how many have ended
   * @return the changed copy
   */
  public ChildrenWait count(int count) {
    return new ChildrenWait(name, count, isOrFailed);
  }

  /**
   * Is also over when a child has failed or was cancelled.
   *
   * @return the changed copy
   */
  public ChildrenWait orFailed() {
    return new ChildrenWait(name, count, true);
  }
}
