package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import io.grpc.ServerCall;
import io.netty.channel.EventLoop;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What is to be sent, in order. Any thread posts; the event loop sends, in each of its turns, all
 * that is there, as long as the host takes it.
 */
final class Outbox {
  private static final int MAX_LOGS = 10_000;

  private final ServerCall<?, Wire.FromHandler> call;
  private final EventLoop loop;
  private final Queue<Frame.Part> parts = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean called = new AtomicBoolean(); // a flush is scheduled
  private final AtomicInteger logs = new AtomicInteger(); // lines among the parts
  private final AtomicInteger droppedLogs = new AtomicInteger(); // since the last that was posted
  private boolean closed; // owned by the event loop

  Outbox(ServerCall<?, Wire.FromHandler> call, EventLoop loop) {
    this.call = call;
    this.loop = loop;
  }

  void post(Frame.Part part) {
    parts.add(part);
    if (called.compareAndSet(false, true)) {
      loop.execute(this::flush);
    }
  }

  void postIn(long nanos, Frame.Part part) {
    loop.schedule(() -> post(part), nanos, TimeUnit.NANOSECONDS);
  }

  /** Posts a line of the log, unless there are too many already: then it only counts them. */
  void postLog(Wire.LogLine line) {
    if (logs.incrementAndGet() > MAX_LOGS) {
      logs.decrementAndGet();
      droppedLogs.incrementAndGet();
      return;
    }
    int dropped = droppedLogs.getAndSet(0);
    Wire.LogLine counted =
        dropped == 0
            ? line
            : line.toBuilder().putFields("lines_dropped_before", String.valueOf(dropped)).build();
    post(
        frame -> {
          logs.decrementAndGet();
          frame.log(counted);
        });
  }

  /** Sends all parts that wait. It is called on the event loop. */
  void flush() {
    called.set(false);
    while (!closed && call.isReady()) {
      Frame frame = new Frame();
      for (Frame.Part part; !frame.isFull() && (part = parts.poll()) != null; ) {
        part.addTo(frame);
      }
      if (frame.isEmpty()) {
        return;
      }
      call.sendMessage(frame.build());
    }
  }

  /** Sends nothing more. It is called on the event loop. */
  void close() {
    closed = true;
  }
}
