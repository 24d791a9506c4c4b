package io.github.taskengine.client;

import java.util.concurrent.ThreadLocalRandom;

/** The time between the tries of a call. */
final class Pause {
  static final long FIRST = 20_000_000; // nanoseconds
  static final long MOST = 1_000_000_000;

  private long next = FIRST;

  /**
   * The next pause in nanoseconds: a random half to whole, so that clients whose node was lost at
   * the same moment do not come back at the same moment.
   */
  long next() {
    long pause = next;
    next = Math.min(2 * pause, MOST);
    return pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2 + 1);
  }

  void reset() {
    next = FIRST;
  }
}
