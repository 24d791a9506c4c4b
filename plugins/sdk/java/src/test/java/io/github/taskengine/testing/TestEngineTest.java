package io.github.taskengine.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.taskengine.client.Request;
import io.github.taskengine.client.Task;
import io.github.taskengine.handler.Again;
import io.github.taskengine.handler.Handlers;
import io.github.taskengine.handler.Steps;
import io.github.taskengine.handler.Woken;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** The test kit, with a real node. */
@EnabledIfEnvironmentVariable(named = "TASKENGINE_PROGRAM", matches = ".+")
class TestEngineTest {
  private static final Instant NEW_YEAR = Instant.parse("2030-01-01T00:00:00Z");

  private final List<String> calls = new CopyOnWriteArrayList<>();

  @Test
  void whatIsDueIsDoneAtItsTime() {
    Map<String, Object> backoff = Map.of("fixed", List.of("1h", "2h"), "jitter", 0);
    Map<String, Object> retry = Map.of("backoff", backoff, "max", 3);
    try (TestEngine engine =
        TestEngine.start(Map.of("mail", Map.of("retry", retry), "tick", Map.of()), NEW_YEAR)) {
      engine.handle(
          "mail",
          task -> {
            calls.add("mail " + task.attempt() + " " + task.text());
            if (task.attempt() < 3) {
              throw new IllegalStateException("no");
            }
            return "sent";
          });
      engine.handle(
          "tick",
          task -> {
            calls.add("tick");
            return new Again(NEW_YEAR.plus(Duration.ofHours(calls.size())), null);
          });
      engine.client().submit(Request.of("mail").payload(Map.of("to", "a")));
      engine.settle();
      assertEquals(List.of("mail 1 {\"to\":\"a\"}"), calls);
      assertEquals("waiting", engine.only("mail").state());
      engine.advance(Duration.ofMinutes(59));
      assertEquals(1, calls.size());
      engine.advance(Duration.ofMinutes(1));
      assertEquals(2, calls.size());
      engine.advance(Duration.ofHours(2));
      Task task = engine.only("mail");
      assertEquals("done", task.state());
      assertEquals(3, task.attempt());
      assertEquals("sent", new String(task.result()));
      assertEquals(NEW_YEAR.plus(Duration.ofHours(3)), engine.now());
      engine.client().submit(Request.of("tick").at(NEW_YEAR.plus(Duration.ofMinutes(3 * 60 + 30))));
      engine.advance(Duration.ofHours(1));
      assertEquals(List.of("tick", "tick"), calls.subList(3, calls.size()));
    }
  }

  @Test
  void stepsSleepAndWaitByTheTimeOfTheNode() {
    try (TestEngine engine =
        TestEngine.start(Map.of("order", Map.<String, Object>of()), NEW_YEAR)) {
      engine.handle(
          "order",
          Steps.of(
              1,
              task -> {
                task.step("charge", () -> calls.add("charge"));
                task.sleep(Duration.ofHours(1));
                task.step("ask", () -> calls.add("ask"));
                Woken woken = task.waitFor(Duration.ofHours(2), "paid");
                return task.step("ship", String.class, () -> woken.by().name());
              }));
      engine.client().submit(Request.of("order"));
      engine.advance(Duration.ofMinutes(59));
      assertEquals(List.of("charge"), calls);
      engine.advance(Duration.ofMinutes(1));
      assertEquals(List.of("charge", "ask"), calls);
      engine.advance(Duration.ofMinutes(119));
      assertEquals("waiting", engine.only("order").state());
      engine.advance(Duration.ofMinutes(1));
      Task task = engine.only("order");
      assertEquals("done", task.state());
      assertEquals("TIMEOUT", new String(task.result()));
      assertEquals(List.of("charge", "ask"), calls);
    }
  }

  @Test
  void typesWithoutAHandlerKeepTheirTasks() {
    try (TestEngine engine =
        TestEngine.start(Map.of("mail", Map.<String, Object>of(), "page", Map.of()))) {
      for (String type : List.of("mail", "page", "mail")) {
        engine.client().submit(Request.of(type).payload(type));
      }
      assertEquals(2, engine.tasks("mail").size());
      assertEquals(
          List.of("submitted", "submitted", "submitted"),
          engine.tasks().stream().map(Task::state).toList());
      assertThrows(AssertionError.class, () -> engine.only("mail"));
    }
  }

  @Test
  void aConfigurationHasTypesAndSchedules(@TempDir Path folder) throws Exception {
    Path config = folder.resolve("taskengine.yaml");
    Files.writeString(
        config,
        """
        storage: {driver: postgres, url: 'postgres://nowhere/'}
        handlers: {h: {plugin: [no-such-program]}}
        types: {report: {handler: h}}
        schedules: {nightly: {cron: '0 3 * * *', type: report}}
        """);
    try (TestEngine engine = TestEngine.start(config, NEW_YEAR)) {
      engine.serve(new Handlers().on("report", task -> calls.add(task.id().toString())), "report");
      engine.advance(Duration.ofHours(72));
      assertEquals(3, calls.size());
    }
  }

  @Test
  void timeStandsStillWhileAHandlerRuns() throws Exception {
    Map<String, Object> slow = Map.of("timeout", Map.of("run", "1h"), "retry", Map.of("max", 1));
    try (TestEngine engine = TestEngine.start(Map.of("slow", slow), NEW_YEAR)) {
      CountDownLatch begun = new CountDownLatch(1);
      engine.handle(
          "slow",
          task -> {
            begun.countDown();
            Thread.sleep(Duration.ofMinutes(1).toMillis()); // it is interrupted
            return null;
          });
      engine.client().submit(Request.of("slow"));
      assertTrue(begun.await(1, TimeUnit.MINUTES));
      Exception refused =
          assertThrows(
              IllegalStateException.class,
              () -> engine.advance(Duration.ofMinutes(1), Duration.ofMillis(50), false));
      assertTrue(refused.getMessage().contains("1 tasks run"), refused.getMessage());
      engine.advanceWhileRunning(Duration.ofHours(1));
      assertEquals("error", engine.only("slow").state());
    }
  }

  @Test
  void whatCannotBeIsSaid() {
    assertThrows(
        IllegalStateException.class, () -> TestEngine.start(Map.of("mail", Map.of("retri", 1))));
    assertThrows(
        IllegalStateException.class, () -> TestEngine.start(Path.of("/no/such/file"), null));
    try (TestEngine engine = TestEngine.start(Map.of("mail", Map.of()))) {
      assertThrows(IllegalStateException.class, () -> engine.advance(Duration.ofSeconds(-1)));
    } catch (UncheckedIOException e) {
      throw new AssertionError(e);
    }
  }
}
