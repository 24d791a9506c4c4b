package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.internal.Daemons;
import io.grpc.Status;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The stream: greeting, slots, credits, cancellation and the end. */
class SessionTest {
  private static final int LARGE = 300 << 10;
  private static final Handler BLOCK =
      task -> {
        TimeUnit.DAYS.sleep(1);
        return null;
      };

  @Test
  void itGreets() throws Exception {
    Handlers handlers = new Handlers().on("b", BLOCK).on("a", BLOCK).version("v7").slots(3);
    try (FakeHost host = new FakeHost(handlers)) {
      Wire.FromHandler frame = host.until(Wire.FromHandler.Builder::hasHello);
      assertEquals(3, frame.getCredits());
      assertEquals(
          Wire.Hello.newBuilder()
              .setProtocol(1)
              .setSdk("java")
              .setSdkVersion(Session.SDK_VERSION)
              .setVersion("v7")
              .addAllTypes(List.of("a", "b"))
              .setSlots(3)
              .addAllFeatures(
                  List.of("progress", "checkpoint", "children", "rerun", "ended", "wait"))
              .build(),
          frame.getHello());
    }
  }

  @Test
  void theHostsSlotsGoBeforeItsOwn() throws Exception {
    try (FakeHost host =
        new FakeHost(new Handlers().on("a", BLOCK), Wire.Welcome.newBuilder().setSlots(5))) {
      Wire.FromHandler frame = host.until(Wire.FromHandler.Builder::hasHello);
      assertEquals(List.of(5, 5), List.of(frame.getHello().getSlots(), frame.getCredits()));
    }
  }

  @Test
  void aHostOfAnotherProtocolIsRefused() throws Exception {
    try (FakeHost host = new FakeHost(new Handlers().on("a", BLOCK), 2)) {
      Status status = host.untilEnd();
      assertEquals(Status.Code.FAILED_PRECONDITION, status.getCode());
      assertTrue(status.getDescription().contains("version 2"), status.getDescription());
      assertEquals(List.of(), host.frames());
    }
  }

  @Test
  void everyRunIsAnsweredOnceAndGivesOneCredit() throws Exception {
    Handlers handlers = new Handlers().on("echo", Task::text).slots(2000);
    try (FakeHost host = new FakeHost(handlers)) {
      String[] payloads = IntStream.range(0, 2000).mapToObj(String::valueOf).toArray(String[]::new);
      host.run("echo", payloads);
      List<Wire.Finish> finishes = host.finishes(2000);
      assertEquals(2000, finishes.size());
      for (Wire.Finish finish : finishes) {
        assertEquals(payloads[(int) finish.getRunId() - 1], finish.getResult().toStringUtf8());
      }
      Set<Long> ids = finishes.stream().map(Wire.Finish::getRunId).collect(Collectors.toSet());
      assertEquals(2000, ids.size());
      assertEquals(4000, host.credits());
    }
  }

  @Test
  void whatItDoesNotServeIsRefused() throws Exception {
    try (FakeHost host = new FakeHost(new Handlers().on("a", BLOCK))) {
      host.run("b", "");
      assertTrue(host.finish().getRefused().getMessage().contains("does not serve the type \"b\""));
    }
  }

  @Test
  void runsBeyondItsSlotsAreRefused() throws Exception {
    try (FakeHost host = new FakeHost(new Handlers().on("a", BLOCK).slots(2))) {
      host.run("a", "", "", "");
      assertEquals(3, host.finish().getRunId());
      assertTrue(host.finish().getRefused().getMessage().contains("runs 2 tasks already"));
    }
  }

  @Test
  void runsThatGetNoThreadAreRefused() throws Exception {
    ThreadFactory none =
        task -> {
          throw new OutOfMemoryError("unable to create native thread");
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", BLOCK).slots(1).threads(none))) {
      host.run("a", "");
      assertTrue(host.finish().getRefused().getMessage().contains("native thread"));
      host.say(frame -> frame.addRuns(FakeHost.run(2, "a", "")));
      assertTrue(host.finishes(2).get(1).getRefused().getMessage().contains("native thread"));
    }
  }

  @Test
  void pingsAreAnsweredWhileHandlersCompute() throws Exception {
    AtomicInteger computing = new AtomicInteger();
    CountDownLatch stop = new CountDownLatch(1);
    Handler compute =
        task -> {
          computing.incrementAndGet();
          while (stop.getCount() > 0) {
            Thread.onSpinWait();
          }
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", compute).slots(4))) {
      host.run("a", "", "", "", "");
      while (computing.get() == 0) {
        Thread.onSpinWait();
      }
      host.say(frame -> frame.setPing(-1));
      assertEquals(-1, host.until(seen -> seen.getPong() != 0).getPong());
      stop.countDown();
      host.finishes(4);
    }
  }

  @Test
  void aCancelledHandlerIsInterruptedAndLearnsWhy() throws Exception {
    CountDownLatch begun = new CountDownLatch(2);
    Handler handler =
        task -> {
          begun.countDown();
          try {
            TimeUnit.DAYS.sleep(1);
          } catch (InterruptedException e) {
            return task.isCancelled() + " " + task.cancellation().orElseThrow();
          }
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler))) {
      host.run("a", "", "");
      begun.await();
      host.cancel(1, Wire.Cancel.Reason.REASON_CANCELLED, "not needed");
      assertEquals(
          "true Cancellation[reason=CANCELLED, message=not needed]",
          host.finish().getResult().toStringUtf8());
      host.cancel(2, Wire.Cancel.Reason.REASON_DEADLINE, "");
      host.cancel(77, Wire.Cancel.Reason.REASON_CANCELLED, "never heard of");
      assertEquals(
          "true Cancellation[reason=DEADLINE, message=]",
          host.finishes(2).get(1).getResult().toStringUtf8());
    }
  }

  @Test
  void aHandlerThatEndsByItsCancellationFailsWithTheReason() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    Handler handler =
        task -> {
          begun.countDown();
          try {
            TimeUnit.DAYS.sleep(1);
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler))) {
      host.run("a", "");
      begun.await();
      host.cancel(1, Wire.Cancel.Reason.REASON_DEADLINE, "after 5 s");
      Wire.Error error = host.finish().getError();
      assertEquals("the deadline is over: after 5 s", error.getMessage());
      assertEquals("cancelled", error.getClass_());
      assertFalse(error.getPermanent());
    }
  }

  @Test
  void aCancelMayComeWithItsRun() throws Exception {
    try (FakeHost host = new FakeHost(new Handlers().on("a", BLOCK))) {
      host.say(
          frame ->
              frame
                  .addRuns(FakeHost.run(1, "a", ""))
                  .addCancels(Wire.Cancel.newBuilder().setRunId(1).setMessage("hasty")));
      assertEquals("cancelled: hasty", host.finish().getError().getMessage());
    }
  }

  @Test
  void anInterruptHitsNoOtherTask() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    Handlers handlers =
        new Handlers()
            .threads(Daemons.named("one of few-")) // which are used again
            .on(
                "stubborn",
                task -> {
                  begun.countDown();
                  while (!Thread.currentThread().isInterrupted()) {
                    Thread.onSpinWait();
                  }
                  return "still set";
                })
            .on("next", task -> Thread.currentThread().isInterrupted());
    try (FakeHost host = new FakeHost(handlers)) {
      host.run("stubborn", "");
      begun.await();
      host.cancel(1, Wire.Cancel.Reason.REASON_CANCELLED, "");
      assertEquals("still set", host.finish().getResult().toStringUtf8());
      for (int n = 2; n < 5; n++) {
        host.run("next", "");
        assertEquals("false", host.finishes(n).get(n - 1).getResult().toStringUtf8());
      }
    }
  }

  @Test
  void theEndOfTheStreamCancelsWhatRuns() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch ended = new CountDownLatch(1);
    Handler handler =
        task -> {
          begun.countDown();
          try {
            TimeUnit.DAYS.sleep(1);
          } finally {
            if (task.cancellation().orElseThrow().message().equals("the host is gone")) {
              ended.countDown();
            }
          }
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler))) {
      host.run("a", "");
      begun.await();
      host.endStream();
      assertEquals(Status.OK, host.untilEnd());
      assertTrue(ended.await(120, TimeUnit.SECONDS));
    }
  }

  @Test
  void framesAreOfBoundedSize() throws Exception {
    CountDownLatch done = new CountDownLatch(1500);
    Handler handler =
        task -> {
          done.countDown();
          return new byte[Integer.parseInt(task.text())];
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler).slots(2000))) {
      host.until(Wire.FromHandler.Builder::hasHello);
      host.become(false);
      String[] sizes = new String[1500];
      Arrays.fill(sizes, 0, 1490, "0");
      Arrays.fill(sizes, 1490, 1500, String.valueOf(LARGE));
      host.run("a", sizes);
      done.await();
      host.become(true);
      host.finishes(1500);
      assertTrue(host.frames().size() < 100, "it sent " + host.frames().size() + " frames");
      for (Wire.FromHandler frame : host.frames()) {
        assertTrue(frame.getFinishesCount() <= 512, frame.getFinishesCount() + " messages");
        assertTrue(frame.getSerializedSize() < (1 << 20) + LARGE + 8192, "too many bytes");
      }
    }
  }

  @Test
  void whatTheHostDoesNotTakeWaits() throws Exception {
    CountDownLatch done = new CountDownLatch(40);
    Handler handler =
        task -> {
          done.countDown();
          return null;
        };
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler))) {
      host.until(Wire.FromHandler.Builder::hasHello);
      host.become(false);
      host.run("a", Collections.nCopies(40, "").toArray(String[]::new));
      done.await();
      assertEquals(1, host.frames().size());
      host.become(true);
      assertEquals(40, host.finishes(40).size());
    }
  }
}
