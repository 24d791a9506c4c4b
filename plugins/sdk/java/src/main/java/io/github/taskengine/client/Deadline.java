package io.github.taskengine.client;

import java.time.Duration;

/**
 * When a call has to be over.
 *
 * @param end in {@link System#nanoTime}
 */
record Deadline(long end) {
  /** Nanoseconds that stand for no end. */
  static final long NEVER = Long.MAX_VALUE / 4;

  static Deadline after(long nanos) {
    return new Deadline(System.nanoTime() + Math.min(nanos, NEVER));
  }

  /** The nanoseconds of a time, which is at most one without end. */
  static long nanos(Duration time) {
    return time.getSeconds() >= NEVER / 1_000_000_000L ? NEVER : Math.max(0, time.toNanos());
  }

  /** Nanoseconds until then, at least 0. */
  long left() {
    return Math.max(0, end - System.nanoTime());
  }

  boolean isOver() {
    return left() == 0;
  }
}
