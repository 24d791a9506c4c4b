package io.github.taskengine.internal;

import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;

/** Threads that do not keep the process alive. */
public final class Daemons {
  private Daemons() {}

  /** Makes threads with numbers after a prefix. */
  public static ThreadFactory named(String prefix) {
    AtomicInteger made = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, prefix + made.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }
}
