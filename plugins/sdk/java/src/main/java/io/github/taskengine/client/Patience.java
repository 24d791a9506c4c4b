package io.github.taskengine.client;

import java.util.concurrent.TimeUnit;

/**
 * How long a client awaits a node that says nothing, in nanoseconds. A node that is slow, because a
 * request waits there, answers the probe, and is awaited as long as the caller wants.
 *
 * @param quiet until the node is probed
 * @param probe from then until the node is left
 */
record Patience(long quiet, long probe) {
  static final long MOST_QUIET = TimeUnit.MILLISECONDS.toNanos(1500);
  private static final long LEAST_QUIET = TimeUnit.MILLISECONDS.toNanos(250);
  static final long MOST_PROBE = TimeUnit.SECONDS.toNanos(2);
  private static final long LEAST_PROBE = TimeUnit.MILLISECONDS.toNanos(500);

  /** Nanoseconds for a byte on the slowest network, on which a request may be on its way. */
  private static final long A_BYTE = TimeUnit.SECONDS.toNanos(1) / (64 << 10);

  /**
   * The patience of a call: half of its time is for another node, if there is one.
   *
   * @param left nanoseconds of the call
   * @param size bytes of its request
   * @param quiet the longest until the node is probed
   */
  static Patience of(long left, long size, boolean hasOthers, long quiet) {
    long part = hasOthers ? left / 4 : Long.MAX_VALUE;
    return new Patience(
        Math.max(LEAST_QUIET, Math.min(quiet, part)),
        Math.max(LEAST_PROBE, Math.min(MOST_PROBE, part)) + size * A_BYTE);
  }
}
