package io.github.taskengine.handler;

import io.github.taskengine.internal.Daemons;
import java.util.ArrayList;
import java.util.List;

/** A program that runs tasks of nodes to which it connects. {@link Handlers#work} makes it. */
public final class Worker implements AutoCloseable {
  private final List<Dialer> dialers = new ArrayList<>();
  private final List<Thread> threads = new ArrayList<>();

  Worker(Program program, Connection connection) {
    Program.quietLogging();
    int nodes = connection.addresses().size();
    for (int i = 0; i < nodes; i++) {
      int share = program.slots() / nodes + (i < program.slots() % nodes ? 1 : 0);
      String address = connection.addresses().get(i);
      Dialer dialer = new Dialer(program, connection, address, Math.max(1, share));
      dialers.add(dialer);
      threads.add(Daemons.named("taskengine-" + address + "-").newThread(dialer::run));
    }
    threads.forEach(Thread::start);
  }

  /** Takes no more tasks. The worker ends when those that have begun are answered. */
  public void leave() {
    dialers.forEach(Dialer::leave);
  }

  /**
   * Waits until the worker has ended: after {@link #leave}, or because every node has drained it.
   *
   * @throws InterruptedException if the thread is interrupted; the worker goes on
   */
  public void await() throws InterruptedException {
    for (Thread thread : threads) {
      thread.join();
    }
  }

  /** Takes no more tasks, and waits until those that have begun are answered. */
  @Override
  public void close() {
    leave();
    try {
      await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
