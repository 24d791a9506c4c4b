package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.fail;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.internal.Daemons;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.Status;
import io.netty.channel.DefaultEventLoop;
import io.netty.channel.EventLoop;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** The other end of a session's stream, without a process or a socket between them. */
final class FakeHost extends ServerCall<Wire.ToHandler, Wire.FromHandler> implements AutoCloseable {
  private static final long PATIENCE = TimeUnit.SECONDS.toNanos(120);

  private final Program program;
  private final EventLoop loop = new DefaultEventLoop(Daemons.named("loop-"));
  private final Session session;

  // Guarded by this.
  private final Wire.FromHandler.Builder seen = Wire.FromHandler.newBuilder();
  private final List<Wire.FromHandler> frames = new ArrayList<>();
  private int credits;
  private Status status;
  private boolean ready = true;
  private String fault = ""; // why checkpoints are not stored; null if they are not answered

  static {
    Program.quietLogging();
  }

  private FakeHost(Handlers handlers, Wire.Welcome welcome) {
    program = handlers.program();
    session = new Session(program, this, loop);
    say(frame -> frame.setWelcome(welcome));
  }

  FakeHost(Handlers handlers, Wire.Welcome.Builder welcome) {
    this(handlers, welcome.setProtocol(1).build());
  }

  FakeHost(Handlers handlers, int protocol) {
    this(handlers, Wire.Welcome.newBuilder().setProtocol(protocol).build());
  }

  FakeHost(Handlers handlers) {
    this(handlers, 1);
  }

  static Wire.Run.Builder run(long runId, String type, String payload) {
    return Wire.Run.newBuilder()
        .setRunId(runId)
        .setTaskId(ByteString.fromHex("000102030405060708090a0b0c0d0e0f"))
        .setType(type)
        .setPayload(ByteString.copyFromUtf8(payload));
  }

  void say(Consumer<Wire.ToHandler.Builder> content) {
    Wire.ToHandler.Builder frame = Wire.ToHandler.newBuilder();
    content.accept(frame);
    loop.execute(() -> session.onMessage(frame.build()));
  }

  /** Sends runs, numbered from 1. */
  void run(String type, String... payloads) {
    say(
        frame -> {
          for (String payload : payloads) {
            frame.addRuns(run(frame.getRunsCount() + 1, type, payload));
          }
        });
  }

  void cancel(long runId, Wire.Cancel.Reason reason, String message) {
    Wire.Cancel.Builder cancel =
        Wire.Cancel.newBuilder().setRunId(runId).setReason(reason).setMessage(message);
    say(frame -> frame.addCancels(cancel));
  }

  private static Wire.Stored.Builder answer(Wire.Checkpoint to, String why) {
    return Wire.Stored.newBuilder().setRunId(to.getRunId()).setNumber(to.getNumber()).setError(why);
  }

  /** Has checkpoints not be stored; null has them not be answered. */
  synchronized void fault(String why) {
    fault = why;
  }

  void endStream() {
    loop.execute(session::onHalfClose);
  }

  /** Takes frames from now on, or none. */
  void become(boolean ready) {
    synchronized (this) {
      this.ready = ready;
    }
    if (ready) {
      loop.execute(session::onReady);
    }
  }

  /** Waits for something to come, and returns all that came until then in one frame. */
  synchronized Wire.FromHandler until(Predicate<Wire.FromHandler.Builder> enough)
      throws InterruptedException {
    long end = System.nanoTime() + PATIENCE;
    while (!enough.test(seen)) {
      long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
      if (left <= 0) {
        fail("it did not come within 20 s; what came: " + seen);
      }
      wait(left);
    }
    return seen.build();
  }

  /** Waits for the end of the stream, and returns its status. */
  synchronized Status untilEnd() throws InterruptedException {
    until(anything -> status != null);
    return status;
  }

  /** Waits for so many answers. */
  List<Wire.Finish> finishes(int count) throws InterruptedException {
    return until(seen -> seen.getFinishesCount() >= count).getFinishesList();
  }

  /** Waits for the first answer. */
  Wire.Finish finish() throws InterruptedException {
    return finishes(1).get(0);
  }

  synchronized List<Wire.FromHandler> frames() {
    return List.copyOf(frames);
  }

  synchronized int credits() {
    return credits;
  }

  @Override
  public synchronized void sendMessage(Wire.FromHandler frame) {
    frames.add(frame);
    credits += frame.getCredits();
    seen.mergeFrom(frame);
    notifyAll();
    String why = fault;
    if (why != null && frame.getCheckpointsCount() > 0) {
      say(to -> frame.getCheckpointsList().forEach(k -> to.addStored(answer(k, why))));
    }
  }

  @Override
  public synchronized boolean isReady() {
    return ready;
  }

  @Override
  public synchronized void close(Status status, Metadata trailers) {
    this.status = status;
    notifyAll();
  }

  @Override
  public void request(int count) {}

  @Override
  public void sendHeaders(Metadata headers) {}

  @Override
  public boolean isCancelled() {
    return false;
  }

  @Override
  public MethodDescriptor<Wire.ToHandler, Wire.FromHandler> getMethodDescriptor() {
    throw new UnsupportedOperationException();
  }

  @Override
  public void close() {
    endStream();
    program.executor().shutdownNow();
    try {
      if (!program.executor().awaitTermination(PATIENCE, TimeUnit.NANOSECONDS)) {
        fail("a handler does not end");
      }
    } catch (InterruptedException e) {
      fail(e);
    }
    loop.shutdownGracefully(0, 1, TimeUnit.SECONDS);
  }
}
