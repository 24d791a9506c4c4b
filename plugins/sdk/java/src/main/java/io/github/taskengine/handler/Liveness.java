package io.github.taskengine.handler;

import io.netty.channel.EventLoop;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** Notices that a node has sent nothing for some time. It belongs to the event loop. */
final class Liveness {
  private static final int CHECKS = 4; // in the time in which a node must have sent something

  private final EventLoop loop;
  private @Nullable ScheduledFuture<?> checks;
  private boolean heard; // a frame came since the last check
  private int missed; // checks in a row before which no frame came

  Liveness(EventLoop loop) {
    this.loop = loop;
  }

  /** Notes that a frame has come. */
  void hear() {
    heard = true;
  }

  /**
   * Calls silent with the reason, maybe several times, once no frame has come for so many
   * microseconds. 0 is no bound.
   */
  void watch(long life, Consumer<String> silent) {
    if (life <= 0) {
      return;
    }
    long pause = Math.max(1, life / CHECKS);
    // Not at a fixed rate: after a pause of the process, all checks that were due would run before
    // the frames that have come meanwhile are read.
    checks =
        loop.scheduleWithFixedDelay(() -> check(life, silent), pause, pause, TimeUnit.MICROSECONDS);
  }

  private void check(long life, Consumer<String> silent) {
    missed = heard ? 0 : missed + 1;
    heard = false;
    if (missed > CHECKS) {
      silent.accept("the node was silent for " + TimeUnit.MICROSECONDS.toMillis(life) + " ms");
    }
  }

  void close() {
    if (checks != null) {
      checks.cancel(false);
    }
  }
}
