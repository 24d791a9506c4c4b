package io.github.taskengine.handler;

import java.util.Objects;
import java.util.UUID;

/** How the children of a step have ended. */
public final class EndedChildren {
  private final ChildSet set;
  private final int first;
  private final int count;
  private final int done;
  private final int failed;
  private final int cancelled;

  EndedChildren(ChildSet set, int first, int count, int done, int failed, int cancelled) {
    this.set = set;
    this.first = first;
    this.count = count;
    this.done = done;
    this.failed = failed;
    this.cancelled = cancelled;
  }

  /**
   * How many there are.
   *
   * @return their number
   */
  public int count() {
    return count;
  }

  /**
   * How many are done.
   *
   * @return their number
   */
  public int done() {
    return done;
  }

  /**
   * How many have failed for good.
   *
   * @return their number
   */
  public int failed() {
    return failed;
  }

  /**
   * How many were cancelled.
   *
   * @return their number
   */
  public int cancelled() {
    return cancelled;
  }

  /**
   * The id of a child, where one database keeps the tasks.
   *
   * @param number of the child in the step, from 0 on
   * @return the id
   */
  public UUID id(int number) {
    return set.id(first + Objects.checkIndex(number, count));
  }
}
