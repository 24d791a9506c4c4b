package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** What a handler sees of its task, and what it can say about it. */
class RunTest {
  private static final Wire.Welcome.Builder WELCOME =
      Wire.Welcome.newBuilder()
          .setMaxResultBytes(100)
          .addAllFeatures(List.of("progress", "checkpoint"));

  private static Run task(Wire.Run.Builder run) {
    return new Run(run.build(), null, null, null);
  }

  @Test
  void theTaskIsTheHosts() {
    Run task =
        task(
            FakeHost.run(1, "t", "pöyload")
                .setVersion(-1)
                .setAttempt(3)
                .setCrashes(2)
                .setPriority(9)
                .setKey("käy")
                .setOrderingKey("order")
                .putHeaders("traceparent", "00-1")
                .setTimeLeft(3_600_000_000L)
                .setCheckpoint(ByteString.copyFromUtf8("so far")));
    assertEquals(UUID.fromString("00010203-0405-0607-0809-0a0b0c0d0e0f"), task.id());
    assertEquals("18446744073709551615", Long.toUnsignedString(task.version()));
    assertEquals("t", task.type());
    assertEquals(List.of(3, 2, 9), List.of(task.attempt(), task.crashes(), task.priority()));
    assertEquals(List.of("käy", "order"), List.of(task.key(), task.orderingKey()));
    assertEquals(Map.of("traceparent", "00-1"), task.headers());
    assertEquals(Optional.of("00-1"), task.traceparent());
    Duration left = task.timeLeft().orElseThrow();
    assertTrue(left.compareTo(Duration.ofHours(1)) <= 0 && !left.minusMinutes(59).isNegative());
    assertTrue(task.deadline().orElseThrow().isAfter(Instant.now()));
    assertEquals("pöyload", task.text());
    assertEquals("so far", new String(task.checkpoint(), StandardCharsets.UTF_8));
  }

  @Test
  void whatIsNoTextIsABadPayload() {
    ByteString half = ByteString.copyFrom(new byte[] {'a', (byte) 0xC3});
    Run task = task(FakeHost.run(1, "t", "").setPayload(half));
    PermanentException thrown = assertThrows(PermanentException.class, task::text);
    assertEquals("bad_payload", thrown.errorClass());
  }

  @Test
  void whatIsNotThereIsEmpty() {
    Run task = task(FakeHost.run(1, "t", ""));
    assertEquals(Optional.empty(), task.deadline());
    assertEquals(Optional.empty(), task.timeLeft());
    assertEquals(Optional.empty(), task.traceparent());
    assertEquals(0, task.payload().length + task.checkpoint().length);
  }

  @Test
  void itIsCancelledByTheHostAndByTheDeadline() {
    Run task = task(FakeHost.run(1, "t", ""));
    task.throwIfCancelled();
    assertFalse(task.isCancelled());
    task.cancel(new Cancellation(Cancellation.Reason.CANCELLED, "not needed"));
    assertTrue(task.isCancelled());
    assertEquals(
        "cancelled: not needed",
        assertThrows(CancellationException.class, task::throwIfCancelled).getMessage());

    Run late = task(FakeHost.run(1, "t", "").setTimeLeft(-1));
    assertEquals(
        Optional.of(new Cancellation(Cancellation.Reason.DEADLINE, "")), late.cancellation());
    assertFalse(late.hasToStop(), "by the host");
  }

  @Test
  void checkpointsComeBeforeTheAnswer() throws Exception {
    Handler handler =
        task -> {
          task.saveCheckpoint(task.payload());
          assertThrows(
              IllegalArgumentException.class, () -> task.saveCheckpoint(new byte[(1 << 20) + 1]));
          throw new IOException("kept");
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler), WELCOME)) {
      host.run("a", "so far");
      Wire.FromHandler seen = host.until(frame -> frame.getFinishesCount() == 1);
      assertEquals("so far", seen.getCheckpoints(0).getData().toStringUtf8());
      assertEquals("IOException", seen.getFinishes(0).getError().getClass_());
    }
  }

  @Test
  void theNewestProgressIsSentBeforeTheAnswerAndFewBefore() throws Exception {
    Handler handler =
        task -> {
          for (int n = 1; n <= 10_000; n++) {
            task.progress(n, 10_000, "at " + n);
          }
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler), WELCOME)) {
      long begun = System.nanoTime();
      host.run("a", "");
      Wire.FromHandler seen = host.until(frame -> frame.getFinishesCount() == 1);
      long most = (System.nanoTime() - begun) / 100_000_000 + 2; // the first and the last
      List<Wire.Progress> sent = seen.getProgressList();
      assertTrue(sent.size() <= most, sent.size() + " of at most " + most);
      Wire.Progress last = sent.get(sent.size() - 1);
      assertEquals("at 10000", last.getMessage());
      assertEquals(List.of(10_000L, 10_000L), List.of(last.getDone(), last.getTotal()));
    }
  }

  @Test
  void ofManyCheckpointsTheNewestIsSent() throws Exception {
    CountDownLatch said = new CountDownLatch(1);
    Handler handler =
        task -> {
          for (int n = 1; n <= 1000; n++) {
            ((Run) task).save(String.valueOf(n).getBytes(StandardCharsets.UTF_8));
          }
          said.countDown();
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler), WELCOME)) {
      host.until(Wire.FromHandler.Builder::hasHello);
      host.become(false);
      host.run("a", "");
      said.await();
      host.become(true);
      Wire.FromHandler seen = host.until(frame -> frame.getFinishesCount() == 1);
      assertEquals(1, seen.getCheckpointsCount());
      assertEquals("1000", seen.getCheckpoints(0).getData().toStringUtf8());
    }
  }

  @Test
  void progressIsSentWhileTheHandlerRuns() throws Exception {
    CountDownLatch seen = new CountDownLatch(1);
    Handler handler =
        task -> {
          task.progress(1, 3, "");
          task.progress(2, 3, "");
          seen.await();
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler), WELCOME)) {
      host.run("a", "");
      host.until(
          frame -> frame.getProgressList().stream().anyMatch(progress -> progress.getDone() == 2));
      seen.countDown();
      host.finish();
    }
  }

  @Test
  void aHostWithoutTheFeaturesHearsNothingOfThem() throws Exception {
    Handler handler =
        task -> {
          task.saveCheckpoint(new byte[1000]);
          task.progress(1, 2, "");
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler))) {
      host.run("a", "");
      assertTrue(host.finish().hasResult());
      Wire.FromHandler seen = host.until(frame -> true);
      assertEquals(0, seen.getCheckpointsCount() + seen.getProgressCount());
    }
  }

  @Test
  void whatIsSaidAfterTheAnswerIsNotSent() throws Exception {
    AtomicReference<Task> kept = new AtomicReference<>();
    Handler handler =
        task -> {
          kept.set(task);
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler), WELCOME)) {
      host.run("a", "");
      host.finish();
      kept.get().progress(1, 1, "");
      assertThrows(NotStoredException.class, () -> kept.get().saveCheckpoint(new byte[1]));
      assertThrows(IllegalStateException.class, () -> kept.get().spawn(Child.of("t")));
      host.say(frame -> frame.setPing(1));
      Wire.FromHandler seen = host.until(frame -> frame.getPong() == 1);
      assertEquals(0, seen.getCheckpointsCount() + seen.getProgressCount());
    }
  }

  @Test
  void logLinesHaveLevelAndFields() throws Exception {
    Handler handler =
        task -> {
          task.log().atWarn().addKeyValue("order", 7).log("charged {}", "€5");
          task.log().debug("{} and {}", 1, 2);
          task.log().error("failed", new IOException("why"));
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler))) {
      host.run("a", "");
      List<Wire.LogLine> lines = host.until(frame -> frame.getFinishesCount() == 1).getLogsList();
      assertEquals(
          List.of("4 charged €5", "-4 1 and 2", "8 failed"),
          lines.stream().map(line -> line.getLevel() + " " + line.getMessage()).toList());
      assertEquals(Map.of("order", "7"), lines.get(0).getFieldsMap());
      assertTrue(lines.get(2).getFieldsMap().get("error").startsWith("java.io.IOException: why"));
      for (Wire.LogLine line : lines) {
        assertEquals(1, line.getRunId());
        assertTrue(line.getTime() > 1_700_000_000_000_000L, "microseconds");
      }
    }
  }

  @Test
  void logLinesBeyondWhatTheHostTakesAreCounted() throws Exception {
    CountDownLatch logged = new CountDownLatch(1);
    CountDownLatch taken = new CountDownLatch(1);
    Handler handler =
        task -> {
          for (int n = 0; n < 10_005; n++) {
            task.log().info("line");
          }
          logged.countDown();
          taken.await();
          task.log().info("after");
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler))) {
      host.until(Wire.FromHandler.Builder::hasHello);
      host.become(false);
      host.run("a", "");
      logged.await();
      host.become(true);
      host.until(frame -> frame.getLogsCount() == 10_000);
      taken.countDown();
      Wire.LogLine last = host.until(frame -> frame.getFinishesCount() == 1).getLogs(10_000);
      assertEquals("after", last.getMessage());
      assertEquals(Map.of("lines_dropped_before", "5"), last.getFieldsMap());
    }
  }
}
