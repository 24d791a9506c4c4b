package io.github.taskengine.handler;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.internal.Daemons;
import io.netty.channel.DefaultEventLoop;
import io.netty.channel.EventLoop;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.jspecify.annotations.Nullable;

/** Keeps the connection of a worker to one node. One thread calls run, and any may call leave. */
final class Dialer {
  private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
  private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(5);
  // The longest while there are answers: a node that has started awaits them for a short time.
  private static final long URGENT_PAUSE = TimeUnit.SECONDS.toNanos(1);
  private static final long GREETING = TimeUnit.SECONDS.toNanos(10);
  private static final long LAST_MOMENTS = TimeUnit.SECONDS.toNanos(2);
  private static final int SESSION_BYTES = 16;
  private static final String CUT_OFF =
      "this worker was cut off from the node, and the task runs elsewhere, or will: the answer of"
          + " this run counts only if that other run has not begun";
  private static final Logger LOG = Logger.getLogger("taskengine");
  private static final SecureRandom RANDOM = new SecureRandom();

  private final Program program;
  private final Connection to;
  private final String address;
  private final int slots;
  private final EventLoop loop = new DefaultEventLoop(Daemons.named("taskengine-loop-"));
  private final CountDownLatch leaving = new CountDownLatch(1);

  // Owned by the event loop.
  private final Kept kept = new Kept();
  private final Outbox outbox = new Outbox(loop);
  private final Runs runs;
  private boolean connected; // there is a stream with a welcome

  // Owned by run, but while a stream is open.
  private ByteString session = newSession();
  private long reconnect; // nanoseconds for which the node keeps the runs without a connection
  private boolean mayLose; // the node gives the runs to others at cutOff
  private long cutOff; // in System.nanoTime
  private String said = "";
  private Lease.@Nullable Moment offered; // owned by the event loop: when the newest offer was made

  Dialer(Program program, Connection to, String address, int slots) {
    this.program = program;
    this.to = to;
    this.address = address;
    this.slots = slots;
    this.runs = new Runs(program, loop, outbox, kept);
  }

  private static ByteString newSession() {
    byte[] bytes = new byte[SESSION_BYTES];
    RANDOM.nextBytes(bytes);
    return ByteString.copyFrom(bytes);
  }

  void leave() {
    leaving.countDown();
    try {
      loop.execute(
          () -> {
            if (connected) {
              sayLeaving();
            }
          });
    } catch (RejectedExecutionException e) {
      // the worker has ended
    }
  }

  private void sayLeaving() {
    runs.releaseBatches();
    outbox.post(Frame::leaving);
  }

  /** Runs tasks for the node until it has drained the worker, or it has left. */
  void run() {
    try {
      connectAgain();
      long end = System.nanoTime() + LAST_MOMENTS;
      while (onLoop(() -> runs.occupied() > 0) && System.nanoTime() - end < 0) {
        TimeUnit.MILLISECONDS.sleep(10); // for handlers that were cut off
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      loop.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }
  }

  private void connectAgain() throws InterruptedException {
    for (long pause = SHORTEST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      WorkerStream.End end = new WorkerStream(this, loop).serve();
      if (end.why() == null) {
        return;
      }
      if (end.welcomed()) {
        pause = SHORTEST_PAUSE;
        said = "";
        mayLose = true;
        cutOff = System.nanoTime() + reconnect;
      }
      if (!end.why().equals(said)) {
        said = end.why();
        LOG.log(
            Level.WARNING, "no connection to the node at {0}: {1}", new Object[] {address, said});
      }
      if (onLoop(this::hasAnswers)) {
        pause = Math.min(pause, URGENT_PAUSE);
      }
      rest(pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2));
      if (mayLose && System.nanoTime() - cutOff >= 0) {
        onLoop(this::lose);
        session = newSession();
        mayLose = false;
      }
      if (isLeaving() && onLoop(this::holds).isEmpty()) {
        return;
      }
    }
  }

  private void rest(long nanos) throws InterruptedException {
    long wait = mayLose ? Math.min(nanos, Math.max(0, cutOff - System.nanoTime())) : nanos;
    if (isLeaving()) {
      TimeUnit.NANOSECONDS.sleep(wait);
    } else {
      leaving.await(wait, TimeUnit.NANOSECONDS);
    }
  }

  private boolean isLeaving() {
    return leaving.getCount() == 0;
  }

  private <T> T onLoop(Callable<T> call) throws InterruptedException {
    try {
      return loop.submit(call).get();
    } catch (ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  Connection to() {
    return to;
  }

  String address() {
    return address;
  }

  /** Nanoseconds in which the node must welcome the worker. */
  long patience() {
    return mayLose ? Math.max(1, Math.min(GREETING, cutOff - System.nanoTime())) : GREETING;
  }

  // What follows is called on the event loop.

  private List<Long> holds() {
    List<Long> held = new ArrayList<>(kept.runs());
    runs.running().forEach(run -> held.add(run.runId()));
    return held;
  }

  private boolean hasAnswers() {
    return kept.hasAnswers() || runs.hasAnswers();
  }

  private @Nullable Void lose() {
    runs.cut(runs.running(), new Cancellation(Cancellation.Reason.CANCELLED, CUT_OFF));
    kept.forget();
    return null;
  }

  /** The first frame of a stream. */
  Wire.FromHandler offer() {
    offered = runs.lease().now();
    Wire.Offer.Builder offer =
        Wire.Offer.newBuilder()
            .setHandler(to.handler())
            .putAllLabels(to.labels())
            .setSession(session)
            .addAllRuns(holds())
            .setName(hostName() + ":" + ProcessHandle.current().pid());
    return Wire.FromHandler.newBuilder()
        .setHello(program.hello(slots))
        .setOffer(offer)
        .setClock(Codec.micros(Instant.now()))
        .build();
  }

  private static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "process";
    }
  }

  /**
   * Goes on with a stream that the node has welcomed: what may not have arrived is sent again, and
   * the free slots give credits. Runs that the node does not keep are cut off.
   */
  void begin(Wire.Welcome welcome, Outbox.Sink sink) {
    LOG.log(
        Level.INFO,
        "connected to the node {0} at {1} as handler {2} with {3} slots{4}",
        new Object[] {
          welcome.getHost(),
          address,
          welcome.getName(),
          welcome.getSlots(),
          welcome.getResumed() ? ", with the runs of before" : ""
        });
    reconnect = TimeUnit.MICROSECONDS.toNanos(welcome.getReconnect());
    mayLose = false;
    runs.agree(welcome, welcome.getSlots());
    runs.lease().renew(welcome, offered);
    kept.acknowledge(welcome.getReceived());
    if (welcome.getResumed()) {
      List<Run> cut = new ArrayList<>(runs.running());
      cut.removeIf(run -> welcome.getRunsList().contains(run.runId()));
      runs.cut(cut, new Cancellation(Cancellation.Reason.CANCELLED, CUT_OFF));
    } else {
      lose();
      kept.adopt(runs.takesEarlier());
    }
    List<Frame.Part> first = new ArrayList<>();
    List<Run> all = new ArrayList<>(kept.answered());
    all.addAll(runs.running());
    for (Run run : all) {
      Wire.Checkpoint checkpoint = run.checkpointSent();
      if (checkpoint != null) {
        first.add(frame -> frame.checkpoint(checkpoint));
      }
    }
    for (Run run : runs.running()) {
      first.addAll(run.questions());
    }
    for (Wire.Finish finish : kept.unacknowledged()) {
      first.add(frame -> frame.finish(finish));
    }
    int credits = welcome.getSlots() - runs.occupied() - kept.unsent();
    if (credits > 0) {
      first.add(frame -> frame.credits(credits));
    }
    connected = true;
    outbox.open(sink, first);
    if (isLeaving()) {
      sayLeaving();
    }
  }

  void take(Wire.ToHandler frame) {
    if (frame.getReceived() != 0) {
      kept.acknowledge(frame.getReceived());
    }
    runs.take(frame);
  }

  void flush() {
    outbox.flush();
  }

  /** Keeps everything for the next stream. */
  void pause() {
    connected = false;
    outbox.close();
  }
}
