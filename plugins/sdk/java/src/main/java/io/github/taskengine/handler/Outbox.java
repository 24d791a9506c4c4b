package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import io.netty.channel.EventLoop;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * What is to be sent, in order. Any thread posts; the event loop sends, in each of its turns, all
 * that is there, as long as the host takes it. The outbox of a worker outlives its streams.
 */
final class Outbox {
  private static final int MAX_LOGS = 10_000;

  private final EventLoop loop;
  private final Queue<Frame.Part> parts = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean called = new AtomicBoolean(); // a flush is scheduled
  private final AtomicInteger logs = new AtomicInteger(); // lines among the parts
  private final AtomicInteger droppedLogs = new AtomicInteger(); // since the last that was posted

  // Owned by the event loop.
  private final Queue<Frame.Part> first = new ArrayDeque<>(); // go before the other parts
  private @Nullable Sink sink; // null while there is no stream

  /** A stream. It is called on the event loop. */
  interface Sink {
    boolean isReady();

    void send(Wire.FromHandler frame);
  }

  Outbox(EventLoop loop) {
    this.loop = loop;
  }

  /** Sends to a stream: some parts, and then those that wait. It is called on the event loop. */
  void open(Sink sink, List<Frame.Part> parts) {
    this.sink = sink;
    first.clear();
    first.addAll(parts);
    flush();
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
    while (sink != null && sink.isReady()) {
      Frame frame = new Frame();
      for (Frame.Part part; !frame.isFull() && (part = poll()) != null; ) {
        part.addTo(frame);
      }
      if (frame.isEmpty()) {
        return;
      }
      sink.send(frame.build());
    }
  }

  private Frame.@Nullable Part poll() {
    Frame.Part part = first.poll();
    return part == null ? parts.poll() : part;
  }

  /** Sends nothing more to the stream. It is called on the event loop. */
  void close() {
    sink = null;
  }
}
