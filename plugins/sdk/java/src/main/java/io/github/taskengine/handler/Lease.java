package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Until when a worker may begin runs that it has: for some time after a moment at which the node
 * has certainly heard it. Later the node may have given them to others, and what lies in the
 * connection may be of any age: the process or the machine may have stood still. Any thread may use
 * it.
 */
final class Lease {
  private final Clock time;

  // Guarded by this.
  private long length; // nanoseconds; 0 is no bound
  private Moment from; // when the worker was heard, or before
  private final Map<Long, Moment> pings = new HashMap<>(); // whose answers may not have arrived

  /**
   * A moment.
   *
   * @param nanos in System.nanoTime, which may stop while the machine is suspended
   * @param wall of the wall clock, in nanoseconds
   * @param boot since the start of the machine, in nanoseconds; null if that is not known
   */
  record Moment(long nanos, long wall, @Nullable Long boot) {}

  /** Says which moment it is. */
  @FunctionalInterface
  interface Clock {
    /** The moment; with boot only if that is asked for, because it takes longer. */
    Moment now(boolean withBoot);
  }

  /** The clock of new leases; a test replaces it. */
  static volatile Clock clock = Lease::machine;

  Lease(Clock clock) {
    this.time = clock;
    this.from = clock.now(true);
  }

  /** The clocks of this machine. */
  private static Moment machine(boolean withBoot) {
    long wall = TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis());
    return new Moment(System.nanoTime(), wall, withBoot ? sinceBoot() : null);
  }

  /** On Linux, the time since the start of the machine, also that in which it was suspended. */
  private static @Nullable Long sinceBoot() {
    try {
      String text = Files.readString(Path.of("/proc/uptime"));
      double seconds = Double.parseDouble(text.substring(0, text.indexOf(' ')));
      return (long) (seconds * TimeUnit.SECONDS.toNanos(1));
    } catch (IOException | RuntimeException e) {
      return null;
    }
  }

  Moment now() {
    return time.now(true);
  }

  /** Begins with a connection, whose offer was sent at a moment. */
  synchronized void renew(Wire.Welcome welcome, Moment offered) {
    length = TimeUnit.MICROSECONDS.toNanos(welcome.getLease());
    from = offered;
    pings.clear();
  }

  /** Takes what a frame says of pings. */
  synchronized void hear(Wire.ToHandler frame) {
    if (length == 0) {
      return;
    }
    Moment at = pings.get(frame.getHeard());
    if (at != null) {
      from = at;
      pings.keySet().removeIf(number -> number <= frame.getHeard());
    }
    if (frame.getPing() != 0) {
      pings.put(frame.getPing(), time.now(true)); // the answer is sent later
    }
  }

  /** Why no run may begin, or null. */
  synchronized @Nullable String over() {
    if (length == 0) {
      return null;
    }
    long unheard = since(from);
    if (unheard <= length) {
      return null;
    }
    return "the node may not have heard this worker for %d ms, and may have given the task to another"
        .formatted(TimeUnit.NANOSECONDS.toMillis(unheard));
  }

  /**
   * Where the wall clock goes on far more than the precise one, the machine was suspended, or the
   * clock was set: then the time since the start of the machine decides, if it is known.
   */
  private long since(Moment then) {
    Moment now = time.now(false);
    long precise = now.nanos() - then.nanos();
    long wall = now.wall() - then.wall();
    if (wall - precise < TimeUnit.MILLISECONDS.toNanos(100)) {
      return precise;
    }
    Long boot = time.now(true).boot();
    return boot == null || then.boot() == null ? wall : Math.max(precise, boot - then.boot());
  }
}
