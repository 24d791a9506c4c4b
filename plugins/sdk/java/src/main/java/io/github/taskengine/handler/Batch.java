package io.github.taskengine.handler;

import io.netty.channel.EventLoop;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** The runs of a type that wait to share a call. It belongs to the event loop. */
final class Batch {
  private final int most;
  private final long waitNanos;
  private final EventLoop loop;
  private final Consumer<List<Run>> caller;

  private List<Run> runs = new ArrayList<>();
  private @Nullable ScheduledFuture<?> timer; // set while a run waits

  /** Calls with up to most runs: once there are so many, or the first has waited so long. */
  Batch(int most, Duration wait, EventLoop loop, Consumer<List<Run>> caller) {
    this.most = most;
    this.waitNanos = TimeUnit.MICROSECONDS.toNanos(Codec.micros(wait));
    this.loop = loop;
    this.caller = caller;
  }

  void add(Run run) {
    if (most == 1) {
      caller.accept(List.of(run));
      return;
    }
    runs.add(run);
    if (runs.size() == most) {
      release();
    } else if (timer == null) {
      timer = loop.schedule(this::release, waitNanos, TimeUnit.NANOSECONDS);
    }
  }

  void remove(Run run) {
    runs.remove(run);
    if (runs.isEmpty()) {
      stopTimer();
    }
  }

  /** Calls with the runs that wait now. */
  void release() {
    stopTimer();
    if (!runs.isEmpty()) {
      List<Run> released = runs;
      runs = new ArrayList<>();
      caller.accept(released);
    }
  }

  private void stopTimer() {
    if (timer != null) {
      timer.cancel(false);
      timer = null;
    }
  }
}
