package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import io.netty.channel.EventLoop;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * The runs of a host or a node: they begin, are cancelled and are answered. It belongs to the event
 * loop, which calls all of its methods but {@link #answer}; handlers run elsewhere.
 */
final class Runs {
  private final Program program;
  private final Outbox outbox;
  private final @Nullable Kept kept; // of a worker; null if a host has started the program
  private final Map<Long, Run> running = new HashMap<>(); // those whose answer was not sent
  private final Map<String, Batch> batches = new HashMap<>();

  private final Lease lease = new Lease(Lease.clock);
  private final AtomicInteger unsent = new AtomicInteger(); // answers

  // Set by the welcome of the host.
  private @Nullable Host host;
  private volatile @Nullable Answers answers;
  private int slots;

  Runs(Program program, EventLoop loop, Outbox outbox, @Nullable Kept kept) {
    this.program = program;
    this.outbox = outbox;
    this.kept = kept;
    program
        .routes()
        .forEach(
            (type, route) ->
                batches.put(
                    type,
                    new Batch(
                        route.most(), route.patience(), loop, all -> call(all, route.handler()))));
  }

  /** Takes the terms of a host, and how many tasks it may run at once. */
  void agree(Wire.Welcome welcome, int slots) {
    Host greeted = Host.of(welcome);
    host = greeted;
    answers = new Answers(program.codec(), greeted);
    this.slots = slots;
  }

  /** What says until when runs may begin. */
  Lease lease() {
    return lease;
  }

  /** Processes a frame of the host. */
  void take(Wire.ToHandler frame) {
    lease.hear(frame);
    for (Wire.Run run : frame.getRunsList()) {
      begin(run);
    }
    for (Wire.Cancel cancel : frame.getCancelsList()) {
      cancel(cancel);
    }
    for (Wire.Stored stored : frame.getStoredList()) {
      Run run = running.get(stored.getRunId());
      if (run != null) {
        run.stored(stored);
      }
    }
    for (Wire.Checked checked : frame.getCheckedList()) {
      Run run = running.get(checked.getRunId());
      if (run != null) {
        run.checked(checked);
      }
    }
    for (Wire.DocumentRead read : frame.getDocumentsList()) {
      Run run = running.get(read.getRunId());
      if (run != null) {
        run.read(read);
      }
    }
    if (frame.hasDrain() || occupied() >= slots) { // no further task can join a batch
      releaseBatches();
    }
    long ping = frame.getPing();
    if (ping != 0) {
      outbox.post(
          answer -> {
            answer.pong(ping);
            if (kept != null) {
              answer.clock();
            }
          });
    }
  }

  /** Has no batch wait for more tasks. */
  void releaseBatches() {
    batches.values().forEach(Batch::release);
  }

  /** How many slots are not free. */
  int occupied() {
    return running.size() + (kept == null ? 0 : kept.strays());
  }

  Collection<Run> running() {
    return running.values();
  }

  private void call(List<Run> all, BatchHandler handler) {
    Call work = new Call(this, handler, all);
    all.forEach(run -> run.begin(work));
    try {
      program.executor().execute(work);
    } catch (RejectedExecutionException | OutOfMemoryError e) { // there is no thread for it
      for (Run run : all) {
        running.remove(run.runId());
        refuse(run.runId(), "the program cannot start a thread: " + e);
      }
    }
  }

  private void begin(Wire.Run wire) {
    Batch batch = batches.get(wire.getType());
    if (batch == null) {
      refuse(wire.getRunId(), "the program does not serve the type \"" + wire.getType() + "\"");
    } else if (occupied() >= slots) {
      refuse(wire.getRunId(), "the program runs " + slots + " tasks already");
    } else {
      Run run = new Run(wire, program.codec(), host, outbox);
      running.put(run.runId(), run);
      batch.add(run);
    }
  }

  private void refuse(long runId, String why) {
    Wire.Finish finish = Answers.refused(runId, why);
    if (kept == null) {
      outbox.post(frame -> frame.finish(finish));
      return;
    }
    int session = kept.session();
    kept.waits(runId);
    outbox.post(
        frame -> {
          if (session == kept.session()) {
            frame.finish(finish);
            kept.sent(finish);
          }
        });
  }

  private void cancel(Wire.Cancel cancel) {
    Run run = running.get(cancel.getRunId());
    if (run == null) {
      return; // it is answered
    }
    boolean late = cancel.getReason() == Wire.Cancel.Reason.REASON_DEADLINE;
    cancel(
        run,
        new Cancellation(
            late ? Cancellation.Reason.DEADLINE : Cancellation.Reason.CANCELLED,
            cancel.getMessage()));
  }

  private void cancel(Run run, Cancellation why) {
    if (!run.cancel(why)) {
      batches.get(run.type()).remove(run);
      answer(run, new CancellationException());
    }
  }

  /** Cancels all runs, because the host is gone. */
  void cancelAll(Cancellation why) {
    for (Run run : new ArrayList<>(running.values())) {
      run.giveUp(why.message());
      cancel(run, why);
    }
  }

  /** Has some runs count for nothing any more, because they run elsewhere. */
  void cut(Collection<Run> some, Cancellation why) {
    for (Run run : List.copyOf(some)) {
      running.remove(run.runId());
      run.goAstray();
      run.giveUp(why.message());
      kept.strayed();
      cancel(run, why);
    }
  }

  /** Whether there are answers that were not sent. */
  boolean hasAnswers() {
    return unsent.get() > 0;
  }

  /** Whether the node takes answers of sessions that it does not know. */
  boolean takesEarlier() {
    return host.serves(Host.EARLIER);
  }

  /**
   * The runs of a call whose handler may be called. The others are handed back. Any thread may call
   * it.
   */
  List<Run> admitted(List<Run> some) {
    String over = lease.over();
    List<Run> admitted = new ArrayList<>(some.size());
    for (Run run : some) {
      if (over == null && !run.isStray()) {
        admitted.add(run);
      } else {
        run.end();
        String why = over == null ? "the node has given the task to another worker" : over;
        send(run, Answers.refused(run.runId(), why));
      }
    }
    return admitted;
  }

  /** Answers a run with what its handler returned or threw. Any thread may call it. */
  void answer(Run run, @Nullable Object outcome) {
    send(run, answers.of(run, outcome));
  }

  private void send(Run run, Wire.Finish finish) {
    boolean wasCutOff = run.isStray();
    unsent.incrementAndGet();
    outbox.post(
        frame -> {
          unsent.decrementAndGet();
          if (run.isStray()) {
            kept.returned();
            if (takesEarlier() && !finish.hasRefused() && !(wasCutOff && finish.hasError())) {
              Wire.Finish earlier = run.earlier(finish);
              frame.finish(earlier);
              kept.sent(earlier);
            } else {
              frame.credits(1);
            }
            return;
          }
          running.remove(run.runId());
          run.answer(frame, finish);
          if (kept != null) {
            kept.sent(finish);
            if (!finish.hasRefused()) {
              kept.answered(run);
            }
          }
        });
  }
}
