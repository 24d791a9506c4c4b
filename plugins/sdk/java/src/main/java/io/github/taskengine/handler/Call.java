package io.github.taskengine.handler;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One call of a handler: for one run, or for those of a batch. */
final class Call implements Runnable {
  private final Runs all;
  private final BatchHandler handler;

  private volatile List<Run> runs; // those that do not begin are removed
  private @Nullable Thread thread; // guarded by this: that is in the handler

  Call(Runs all, BatchHandler handler, List<Run> runs) {
    this.all = all;
    this.handler = handler;
    this.runs = runs;
  }

  @Override
  public void run() {
    List<Run> admitted = all.admitted(runs);
    runs = admitted;
    if (admitted.isEmpty()) {
      return;
    }
    List<? extends @Nullable Object> outcomes = outcomes();
    for (int i = 0; i < admitted.size(); i++) {
      all.answer(admitted.get(i), outcomes.get(i));
    }
  }

  private List<? extends @Nullable Object> outcomes() {
    try {
      enter();
      List<@Nullable Object> outcomes = // the handler's own list may be any kind of list
          new ArrayList<>(handler.handle(Collections.unmodifiableList(runs)));
      if (outcomes.size() != runs.size()) {
        throw new IllegalStateException(
            "the handler gave " + outcomes.size() + " results for " + runs.size() + " tasks");
      }
      return outcomes;
    } catch (Throwable thrown) { // an Error too: a task must not end the process
      return Collections.nCopies(runs.size(), thrown);
    } finally {
      leave();
    }
  }

  private synchronized void enter() {
    thread = Thread.currentThread();
    interruptIfCancelled(); // the cancellation may have come before the thread
  }

  private synchronized void leave() {
    thread = null;
    Thread.interrupted(); // the interrupt was for this call, and the thread may be reused
  }

  synchronized void interruptIfCancelled() {
    if (thread != null && isCancelled()) {
      thread.interrupt();
    }
  }

  private boolean isCancelled() {
    for (Run run : runs) {
      if (!run.hasToStop()) {
        return false;
      }
    }
    return true;
  }
}
