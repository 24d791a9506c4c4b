package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.taskengine.handler.internal.Wire;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A worker, against a node of a few lines. */
class WorkerTest {
  private FakeNode node;
  private @Nullable Worker worker;
  private final Gate gate = new Gate();

  /** A handler whose tasks return when the test says so, also if they are interrupted. */
  private static final class Gate implements Handler {
    private final List<Task> tasks = new CopyOnWriteArrayList<>();
    private final Map<Task, CountDownLatch> open = new ConcurrentHashMap<>();
    private final List<Task> failing = new CopyOnWriteArrayList<>();

    @Override
    public @Nullable Object handle(Task task) {
      CountDownLatch latch = new CountDownLatch(1);
      open.put(task, latch);
      tasks.add(task);
      for (boolean isOpen = false; !isOpen; ) {
        try {
          isOpen = latch.await(1, TimeUnit.MINUTES);
        } catch (InterruptedException e) {
          // the test decides
        }
      }
      if (failing.contains(task)) {
        throw new IllegalStateException("cancelled");
      }
      return null;
    }

    Task of(long runId) {
      return tasks.stream().filter(task -> ((Run) task).runId() == runId).findFirst().orElseThrow();
    }

    void open(long runId) {
      open.get(of(runId)).countDown();
    }
  }

  @BeforeEach
  void start() throws Exception {
    node = new FakeNode();
  }

  @AfterEach
  void end() throws Exception {
    if (worker != null) {
      gate.open.values().forEach(CountDownLatch::countDown);
      worker.leave();
      for (FakeNode.Line line : node.lines) {
        try {
          line.end();
        } catch (IllegalStateException e) {
          // it has ended
        }
      }
      worker.await();
    }
    node.close();
  }

  private FakeNode.Line connect(Handler handler) throws Exception {
    worker = new Handlers().on("x", handler).slots(2).work(Connection.to(node.address()));
    return node.line(0);
  }

  @Test
  void itOffersWhatItIsAndLeavesWhenItIsAskedTo() throws Exception {
    Connection to =
        Connection.to(node.address()).handler("h").labels(Map.of("region", "eu")).token("te_x");
    worker = new Handlers().on("x", Task::type).slots(2).version("1.2").work(to);
    FakeNode.Line line = node.line(0);
    Wire.FromHandler first = line.frames().get(0);
    assertEquals("java", first.getHello().getSdk());
    assertEquals(2, first.getHello().getSlots());
    assertEquals("h", first.getOffer().getHandler());
    assertEquals(Map.of("region", "eu"), first.getOffer().getLabelsMap());
    assertEquals(16, first.getOffer().getSession().size());
    assertTrue(first.getOffer().getName().endsWith(":" + ProcessHandle.current().pid()));
    line.welcome(welcome -> {});
    FakeNode.until(() -> line.credits() == 2);
    line.run(1);
    FakeNode.until(() -> line.finishes().equals(List.of(1L)));
    assertEquals(3, line.credits());
    worker.leave();
    FakeNode.until(() -> line.all().getLeaving());
    line.end();
    worker.await();
  }

  @Test
  void whatMayNotHaveArrivedIsSentAgainAndWhatRunsGoesOn() throws Exception {
    FakeNode.Line first = connect(gate);
    first.welcome(welcome -> {});
    first.run(1, 2);
    FakeNode.until(() -> gate.tasks.size() == 2);
    ((Run) gate.of(2)).save("page 7".getBytes());
    gate.open(1);
    FakeNode.until(() -> first.finishes().size() == 1 && first.all().getCheckpointsCount() == 1);
    first.run(3);
    FakeNode.until(() -> gate.tasks.size() == 3);
    first.say(frame -> frame.setReceived(1));
    gate.open(3);
    FakeNode.until(() -> first.finishes().size() == 2);
    first.breaks();
    FakeNode.Line second = node.line(1);
    assertEquals(first.offer().getSession(), second.offer().getSession());
    assertEquals(List.of(2L, 3L), second.offer().getRunsList().stream().sorted().toList());
    second.welcome(welcome -> welcome.setResumed(true).setReceived(1).addRuns(2).addRuns(3));
    FakeNode.until(() -> second.credits() == 1);
    assertEquals(List.of(3L), second.finishes());
    assertEquals("page 7", second.all().getCheckpoints(0).getData().toStringUtf8());
    gate.open(2);
    FakeNode.until(() -> second.finishes().equals(List.of(3L, 2L)));
    assertFalse(gate.of(2).isCancelled());
  }

  @Test
  void oneThatWasNotHeardBeginsNothing() throws Exception {
    Lease.Clock real = Lease.clock;
    AtomicLong still = new AtomicLong(); // for which it stood still, by the clock since the start
    Lease.clock =
        withBoot -> {
          Lease.Moment now = real.now(false);
          return new Lease.Moment(0, now.wall() + still.get(), 0L + still.get());
        };
    try {
      FakeNode.Line line = connect(gate);
      line.welcome(welcome -> welcome.setLease(TimeUnit.HOURS.toMicros(1)));
      line.say(frame -> frame.setPing(1));
      line.say(frame -> frame.setPing(2).setHeard(1));
      line.run(1);
      FakeNode.until(() -> gate.tasks.size() == 1);
      gate.open(1);
      FakeNode.until(() -> line.finishes().size() == 1);
      still.set(TimeUnit.HOURS.toNanos(1) + TimeUnit.SECONDS.toNanos(1));
      line.say(frame -> frame.setPing(3));
      line.run(2, 3);
      line.say(frame -> frame.setPing(4));
      FakeNode.until(() -> line.finishes().size() == 3);
      assertEquals(1, gate.tasks.size());
      String why = line.all().getFinishes(1).getRefused().getMessage();
      assertTrue(why.contains("may not have heard this worker"), why);
      line.say(frame -> frame.setPing(5).setHeard(4));
      line.run(4);
      FakeNode.until(() -> gate.tasks.size() == 2);
      gate.open(4);
    } finally {
      Lease.clock = real;
    }
  }

  @Test
  void answersThatAreLostTwiceAreSentAThirdTime() throws Exception {
    FakeNode.Line first = connect(task -> null);
    first.welcome(welcome -> {});
    first.run(1);
    FakeNode.until(() -> first.finishes().size() == 1);
    first.breaks();
    FakeNode.Line second = node.line(1);
    second.welcome(welcome -> welcome.setResumed(true).addRuns(1));
    FakeNode.until(() -> second.finishes().equals(List.of(1L)));
    second.breaks();
    FakeNode.Line third = node.line(2);
    assertEquals(List.of(1L), third.offer().getRunsList());
    third.welcome(welcome -> welcome.setResumed(true).addRuns(1));
    FakeNode.until(() -> third.finishes().equals(List.of(1L)) && third.credits() == 2);
  }

  @Test
  void theCheckpointOfAnAnswerIsSentBeforeItIfNeitherHasArrived() throws Exception {
    FakeNode.Line first =
        connect(
            task -> {
              ((Run) task).save("done".getBytes());
              return null;
            });
    first.welcome(welcome -> {});
    first.run(1);
    FakeNode.until(() -> first.finishes().size() == 1);
    first.breaks();
    FakeNode.Line second = node.line(1);
    second.welcome(welcome -> welcome.setResumed(true).addRuns(1));
    FakeNode.until(() -> second.finishes().size() == 1);
    int checkpoint = 0;
    while (second.frames().get(checkpoint).getCheckpointsCount() == 0) {
      checkpoint++;
    }
    for (int i = 0; i < checkpoint; i++) {
      assertEquals(0, second.frames().get(i).getFinishesCount()); // in a frame checkpoints go first
    }
  }

  @Test
  void whatRunsElsewhereIsStoppedAndSaysNothing() throws Exception {
    FakeNode.Line first = connect(gate);
    first.welcome(welcome -> {});
    first.run(1, 2);
    FakeNode.until(() -> gate.tasks.size() == 2);
    first.breaks();
    FakeNode.Line second = node.line(1);
    second.welcome(welcome -> welcome.setResumed(true).addRuns(2));
    Task stray = gate.of(1);
    FakeNode.until(stray::isCancelled);
    assertTrue(stray.cancellation().orElseThrow().message().contains("runs elsewhere"));
    assertThrows(NotStoredException.class, () -> stray.saveCheckpoint("x".getBytes()));
    stray.progress(1, 2, "");
    assertEquals(0, second.credits()); // its handler has not returned
    gate.open(1);
    FakeNode.until(() -> second.credits() == 1);
    gate.open(2);
    FakeNode.until(() -> second.credits() == 2);
    assertEquals(List.of(2L), second.finishes());
    assertEquals(0, second.all().getCheckpointsCount() + second.all().getProgressCount());
  }

  @Test
  void itBeginsAnewWhenTheNodeHasGivenItsRunsToOthers() throws Exception {
    FakeNode.Line first = connect(gate);
    first.welcome(welcome -> welcome.setReconnect(1));
    first.run(1);
    FakeNode.until(() -> gate.tasks.size() == 1);
    first.breaks();
    FakeNode.Line second = node.line(1);
    assertNotEquals(first.offer().getSession(), second.offer().getSession());
    assertEquals(List.of(), second.offer().getRunsList());
    FakeNode.until(gate.of(1)::isCancelled);
    gate.open(1);
    second.welcome(welcome -> {});
    FakeNode.until(() -> second.credits() == 2);
    assertEquals(List.of(), second.finishes());
  }

  @Test
  void answersOfASessionAreGivenToTheNodeThatComesAfter() throws Exception {
    answersAreGivenToTheNodeThatComesAfter(TimeUnit.MINUTES.toMicros(1));
  }

  @Test
  void answersOfASessionThatIsOverAreGivenToTheNodeThatComesAfter() throws Exception {
    answersAreGivenToTheNodeThatComesAfter(1);
  }

  private void answersAreGivenToTheNodeThatComesAfter(long reconnect) throws Exception {
    FakeNode.Line first = connect(gate);
    first.welcome(welcome -> welcome.setReconnect(reconnect).setSlots(3));
    first.run(1, 2, 3);
    FakeNode.until(() -> gate.tasks.size() == 3);
    gate.open(1);
    FakeNode.until(() -> first.finishes().equals(List.of(1L)));
    first.breaks();
    FakeNode.Line second = node.line(1);
    assertEquals(reconnect == 1 ? 0 : 3, second.offer().getRunsCount());
    second.welcome(welcome -> welcome.setSlots(3).addFeatures("earlier"));
    FakeNode.until(() -> second.earlier().equals(List.of(11L)) && gate.of(2).isCancelled());
    gate.open(2); // its handler does not care
    FakeNode.until(() -> second.earlier().equals(List.of(11L, 12L)));
    gate.failing.add(gate.of(3));
    gate.open(3);
    FakeNode.until(() -> second.credits() == 3);
    second.breaks();
    FakeNode.Line third = node.line(2);
    assertEquals(List.of(), third.offer().getRunsList());
    third.welcome(welcome -> welcome.setSlots(3).setResumed(true).setReceived(1));
    FakeNode.until(() -> third.earlier().equals(List.of(12L)) && third.credits() == 3);
    third.say(frame -> frame.setReceived(2));
    third.breaks();
    FakeNode.Line fourth = node.line(3);
    fourth.welcome(welcome -> welcome.setSlots(3).addFeatures("earlier"));
    FakeNode.until(() -> fourth.credits() == 3);
    assertEquals(List.of(), fourth.earlier());
    assertEquals(List.of(), fourth.finishes());
  }

  @Test
  void itConnectsAgainToANodeThatIsSilentOrSpeaksAnotherProtocol() throws Exception {
    connect(task -> null).welcome(welcome -> welcome.setProtocol(9));
    node.line(1).welcome(welcome -> welcome.setSlots(0));
    node.line(2).welcome(welcome -> welcome.setLiveness(200_000));
    node.line(3).welcome(welcome -> {});
    FakeNode.until(() -> node.line(3).credits() == 2);
    assertEquals(0, node.line(0).credits() + node.line(1).credits());
  }

  @Test
  void itAnswersPingsAndEndsWhenTheNodeDrainsIt() throws Exception {
    FakeNode.Line line = connect(task -> null);
    line.welcome(welcome -> {});
    line.say(frame -> frame.setPing(7));
    FakeNode.until(() -> line.all().getPong() == 7);
    line.say(frame -> frame.setDrain(Wire.Drain.getDefaultInstance()));
    line.end();
    worker.await();
  }

  @Test
  void oneThatWaitsForANodeEndsWhenItIsAskedTo() throws Exception {
    Connection nowhere = Connection.to(node.address() + ".none");
    Worker waiting = new Handlers().on("x", task -> null).work(nowhere);
    waiting.close();
  }

  @Test
  void theConnectionComesFromTheEnvironment() {
    Connection c =
        Connection.fromEnvironment(
            Map.of(
                "TASKENGINE_ADDRESS", "a:1, unix:/s, https://b,",
                "TASKENGINE_WORKER_HANDLER", "h",
                "TASKENGINE_WORKER_LABELS", "region=eu, disk = fast,",
                "TASKENGINE_TOKEN", "te_x",
                "TASKENGINE_CA", "/ca.pem"));
    assertEquals(List.of("a:1", "unix:/s", "https://b"), c.addresses());
    assertEquals("h", c.handler());
    assertEquals(Map.of("region", "eu", "disk", "fast"), c.labels());
    assertEquals("te_x", c.access().token());
    assertEquals(Path.of("/ca.pem"), c.access().authority());
  }

  @Test
  void whatCannotBeIsRefused() {
    for (Map<String, String> environment :
        List.of(
            Map.of("TASKENGINE_ADDRESS", ""),
            Map.of("TASKENGINE_ADDRESS", " , "),
            Map.of("TASKENGINE_ADDRESS", "ftp://a"),
            Map.of("TASKENGINE_ADDRESS", "http://a/b"),
            Map.of("TASKENGINE_ADDRESS", "http://a", "TASKENGINE_CA", "/ca.pem"),
            Map.of("TASKENGINE_ADDRESS", "unix:"),
            Map.of("TASKENGINE_ADDRESS", "a:1", "TASKENGINE_WORKER_LABELS", "eu"),
            Map.of("TASKENGINE_ADDRESS", "a:1", "TASKENGINE_CLIENT_KEY", "k"))) {
      assertThrows(
          IllegalArgumentException.class,
          () -> Connection.fromEnvironment(environment),
          environment::toString);
    }
    assertThrows(IllegalArgumentException.class, Connection::to);
    assertThrows(IllegalStateException.class, () -> new Handlers().work(Connection.to("a:1")));
  }
}
