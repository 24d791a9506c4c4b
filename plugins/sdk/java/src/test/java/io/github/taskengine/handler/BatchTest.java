package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.taskengine.handler.internal.Wire;
import java.io.IOException;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Handlers of several tasks at once. */
class BatchTest {
  private static final Duration FOREVER = Duration.ofDays(1);

  private static List<String> count(List<Task> tasks) {
    return Collections.nCopies(tasks.size(), String.valueOf(tasks.size()));
  }

  private static FakeHost host(int most, Duration wait, BatchHandler handler) {
    return new FakeHost(new Handlers().onBatch("b", most, wait, handler));
  }

  private static List<String> results(List<Wire.Finish> finishes) {
    return finishes.stream()
        .map(finish -> finish.getRunId() + ":" + finish.getResult().toStringUtf8())
        .sorted()
        .toList();
  }

  @Test
  void theHandlerIsCalledOnceThereAreEnough() throws Exception {
    try (FakeHost host = host(3, FOREVER, BatchTest::count)) {
      host.run("b", "", "");
      host.say(frame -> frame.addRuns(FakeHost.run(3, "b", "")).addRuns(FakeHost.run(4, "b", "")));
      assertEquals(List.of("1:3", "2:3", "3:3"), results(host.finishes(3)));
    }
  }

  @Test
  void orWhenTheFirstHasWaitedLongEnough() throws Exception {
    try (FakeHost host = host(3, Duration.ofMillis(20), BatchTest::count)) {
      host.run("b", "", "");
      assertEquals(List.of("1:2", "2:2"), results(host.finishes(2)));
      host.say(frame -> frame.addRuns(FakeHost.run(3, "b", "")));
      assertEquals("1", host.finishes(3).get(2).getResult().toStringUtf8());
    }
  }

  @Test
  void orWhenThereIsNoSlotForMore() throws Exception {
    Handlers handlers =
        new Handlers()
            .onBatch("b", 3, FOREVER, BatchTest::count)
            .onBatch("c", 3, FOREVER, BatchTest::count);
    try (FakeHost host = new FakeHost(handlers, Wire.Welcome.newBuilder().setSlots(3))) {
      host.run("b", "", "");
      host.say(frame -> frame.addRuns(FakeHost.run(3, "c", "")));
      assertEquals(List.of("1:2", "2:2", "3:1"), results(host.finishes(3)));
    }
  }

  @Test
  void orWhenNoMoreWillCome() throws Exception {
    try (FakeHost host = host(3, FOREVER, BatchTest::count)) {
      host.run("b", "", "");
      host.say(frame -> frame.setDrain(Wire.Drain.getDefaultInstance()));
      assertEquals(List.of("1:2", "2:2"), results(host.finishes(2)));
    }
  }

  @Test
  void oneTaskCanFailAlone() throws Exception {
    BatchHandler handler =
        tasks -> List.of("ok", new PermanentException("this one", "bad"), new Snooze(FOREVER));
    try (FakeHost host = host(3, FOREVER, handler)) {
      host.run("b", "", "", "");
      List<Wire.Finish> finishes = host.finishes(3);
      assertEquals("ok", finishes.get(0).getResult().toStringUtf8());
      assertEquals("bad", finishes.get(1).getError().getClass_());
      assertTrue(finishes.get(2).hasSnooze());
    }
  }

  @Test
  void oneExceptionFailsAll() throws Exception {
    BatchHandler handler =
        tasks -> {
          throw new IOException("no money");
        };
    try (FakeHost host = host(2, FOREVER, handler)) {
      host.run("b", "", "");
      for (Wire.Finish finish : host.finishes(2)) {
        assertEquals("IOException", finish.getError().getClass_());
        assertFalse(finish.getError().getPermanent());
      }
    }
  }

  @Test
  void everyTaskNeedsItsOutcome() throws Exception {
    try (FakeHost host = host(2, FOREVER, tasks -> List.of("one"))) {
      host.run("b", "", "");
      for (Wire.Finish finish : host.finishes(2)) {
        String message = finish.getError().getMessage();
        assertTrue(message.contains("1 results for 2 tasks"), message);
      }
    }
  }

  @Test
  void aTaskThatIsCancelledWhileItWaitsIsAnsweredAtOnce() throws Exception {
    try (FakeHost host = host(2, FOREVER, BatchTest::count)) {
      host.run("b", "");
      host.cancel(1, Wire.Cancel.Reason.REASON_CANCELLED, "not needed");
      assertEquals("cancelled: not needed", host.finish().getError().getMessage());
      host.say(frame -> frame.addRuns(FakeHost.run(2, "b", "")).addRuns(FakeHost.run(3, "b", "")));
      List<Wire.Finish> others = host.finishes(3).subList(1, 3);
      assertEquals(List.of("2:2", "3:2"), results(others));
    }
  }

  @Test
  void theCallIsInterruptedOnceAllOfItsTasksAreCancelled() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch oneCancelled = new CountDownLatch(1);
    BatchHandler handler =
        tasks -> {
          begun.countDown();
          while (!tasks.get(0).isCancelled()) {
            TimeUnit.MILLISECONDS.sleep(1);
          }
          oneCancelled.countDown();
          TimeUnit.DAYS.sleep(1);
          return List.of();
        };
    try (FakeHost host = host(2, FOREVER, handler)) {
      host.run("b", "", "");
      begun.await();
      host.cancel(1, Wire.Cancel.Reason.REASON_CANCELLED, "first");
      assertTrue(oneCancelled.await(120, TimeUnit.SECONDS), "it was interrupted too early");
      host.cancel(2, Wire.Cancel.Reason.REASON_CANCELLED, "second");
      assertEquals(
          "cancelled: first, cancelled: second",
          host.finishes(2).stream()
              .map(finish -> finish.getError().getMessage())
              .collect(Collectors.joining(", ")));
    }
  }
}
