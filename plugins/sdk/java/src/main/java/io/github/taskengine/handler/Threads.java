package io.github.taskengine.handler;

import io.github.taskengine.internal.Daemons;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import org.jspecify.annotations.Nullable;

/** The threads in which tasks run. */
final class Threads {
  private Threads() {}

  /** Runs each job at once in a thread, of the factory if there is one. */
  static ExecutorService executor(@Nullable ThreadFactory factory) {
    if (factory != null) {
      return Executors.newCachedThreadPool(factory);
    }
    try {
      return (ExecutorService)
          Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    } catch (ReflectiveOperationException older) { // than Java 21
      return Executors.newCachedThreadPool(Daemons.named("task-"));
    }
  }
}
