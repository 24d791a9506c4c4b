package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Logs of tasks, types, ordering keys, alerts and configurations, with real nodes. */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class OperationsTest {
  private static TestNode node;
  private static TaskengineClient client;

  @BeforeAll
  static void start() throws Exception {
    node = new TestNode();
    client = TaskengineClient.to(node.address()).open();
  }

  @AfterAll
  static void stop() throws Exception {
    client.close();
    node.close();
  }

  private static List<LogLine> read(String id, LogFilter filter) {
    List<LogLine> lines = new ArrayList<>();
    try (Logs logs = client.logs(id, filter)) {
      for (LogEntry entry : logs) {
        lines.add(assertInstanceOf(LogLine.class, entry));
      }
      assertThrows(NoSuchElementException.class, logs::next);
    }
    return lines;
  }

  private static List<String> texts(List<LogLine> lines) {
    return lines.stream().map(LogLine::message).toList();
  }

  @Test
  void theLinesOfATaskAreRead() {
    String id = client.submit(Request.of("talk")).id();
    client.within(PATIENCE).await(id);
    List<LogLine> lines = read(id, LogFilter.all());
    assertEquals(List.of("one", "two"), texts(lines));
    LogLine line = lines.get(0);
    assertEquals(1, line.attempt());
    assertEquals(List.of("INFO", "{\"stream\":\"stderr\"}"), List.of(line.level(), line.attrs()));
    assertFalse(line.cut() || line.dropped() != 0, line.toString());
    Duration age = Duration.between(line.time(), Instant.now());
    assertTrue(age.abs().compareTo(Duration.ofHours(1)) < 0, line.toString());
    assertEquals(client.cluster().nodes().nodes().get(0).name(), line.node());
    assertEquals(List.of(), read(id, LogFilter.all().after(lines.get(1).cursor())));
    assertEquals(List.of(), read(id, LogFilter.all().attempt(2)));
    String none = UUID.randomUUID().toString();
    assertThrows(NotFoundException.class, () -> read(none, LogFilter.all()));
  }

  @Test
  void theLinesOfATaskAreFollowedUntilItHasEnded() {
    client.types().pause("talk");
    String id = client.submit(Request.of("talk")).id();
    assertEquals(List.of(), read(id, LogFilter.all()));
    client.types().resume("talk");
    for (int i = 0; i < 2; i++) {
      assertEquals(List.of("one", "two"), texts(read(id, LogFilter.all().followed())));
    }
    assertEquals("done", client.get(id).state());
    String idle = client.submit(Request.of("idle")).id();
    try (Logs logs = client.logs(idle, LogFilter.all().followed())) {
      new Thread(logs::close).start();
      assertThrows(NoSuchElementException.class, logs::next);
    }
    try (TaskengineClient other = TaskengineClient.to(node.address()).open();
        Logs logs = other.logs(idle, LogFilter.all().followed())) {
      new Thread(other::close).start();
      assertThrows(ClosedException.class, logs::next);
    }
  }

  @Test
  void logsGoOnWhenTheNodeComesBack() throws Exception {
    List<String> texts = new ArrayList<>();
    try (TestNode restarted = new TestNode();
        TaskengineClient other = TaskengineClient.to(restarted.address()).open()) {
      String id = other.submit(Request.of("twice")).id();
      try (Logs logs = other.logs(id, LogFilter.all().followed())) {
        for (LogEntry entry : logs) {
          texts.add(assertInstanceOf(LogLine.class, entry).message());
          if (texts.size() == 2) {
            restarted.stop();
            restarted.start();
          }
        }
      }
    }
    assertEquals(List.of("one", "two", "one", "two"), texts);
  }

  private static TaskType type(String name) {
    TypeList all = client.types().list();
    assertFalse(all.more());
    return all.types().stream().filter(t -> t.name().equals(name)).findAny().orElseThrow();
  }

  @Test
  void typesArePausedAndResumed() {
    TaskType echo = type("echo");
    assertTrue(echo.configured() && echo.handled() && !echo.paused(), echo.toString());
    client.types().pause("echo");
    client.types().pause("echo");
    assertTrue(type("echo").paused());
    String id = client.submit(Request.of("echo").payload("x")).id();
    client.types().resume("echo");
    assertFalse(type("echo").paused());
    assertEquals("done", client.within(PATIENCE).await(id).state());
    assertThrows(InvalidException.class, () -> client.types().pause(""));
  }

  @Test
  void orderingKeysAreListedResumedAndSkipped() {
    String key = "acme-" + UUID.randomUUID();
    List<String> ids = new ArrayList<>();
    for (String type : List.of("fail", "idle", "idle")) {
      ids.add(client.submit(Request.of(type).orderingKey(key)).id());
    }
    client.within(PATIENCE).await(ids.get(0));
    OrderingKeys keys = client.orderingKeys();
    OrderingKey found =
        keys.list(List.of("error"), true).filter(k -> k.key().equals(key)).findAny().orElseThrow();
    assertEquals(ids.get(0), found.head().id());
    assertEquals(2, found.behind());
    assertFalse(found.behindTruncated());
    assertNotNull(found.oldestReadyAt());
    assertFalse(keys.list(List.of("processing"), false).anyMatch(k -> k.key().equals(key)));
    assertEquals(ids, keys.tasks(key).map(Task::id).toList());
    assertEquals(ids.get(0), keys.resume(key).id());
    client.within(PATIENCE).await(ids.get(0));
    Task skipped = keys.skip(key, "no use");
    assertEquals(
        List.of(ids.get(0), "failed", "no use"),
        List.of(skipped.id(), skipped.state(), skipped.error()));
    assertThrows(NotAllowedException.class, () -> keys.skip(key, ""));
    assertThrows(NotFoundException.class, () -> keys.tasks("none-" + key).toList());
  }

  @Test
  void allPagesOfOrderingKeysAndTheirTasksAreListed() {
    String prefix = "page-" + UUID.randomUUID() + "-";
    List<String> keys =
        IntStream.range(0, 130).mapToObj(i -> prefix + "%03d".formatted(i)).toList();
    Request idle = Request.of("idle");
    client.submitAll(keys.stream().map(idle::orderingKey).toList());
    assertEquals(
        keys,
        client
            .orderingKeys()
            .list()
            .map(OrderingKey::key)
            .filter(k -> k.startsWith(prefix))
            .toList());
    List<Receipt> receipts = client.submitAll(Collections.nCopies(130, idle.orderingKey(prefix)));
    assertEquals(
        receipts.stream().map(Receipt::id).toList(),
        client.orderingKeys().tasks(prefix).map(Task::id).toList());
  }

  @Test
  void alertsAreListedSilencedAndTested() {
    Alerts alerts = client.alerts();
    AlertSilence silence =
        alerts.silence("late", Map.of("type", "n*"), Duration.ofHours(1), "known", "anna");
    assertEquals(
        List.of("late", Map.of("type", "n*"), "known"),
        List.of(silence.rule(), silence.labels(), silence.comment()));
    assertEquals(Duration.ofHours(1), Duration.between(silence.at(), silence.until()));
    assertEquals(new AlertList(List.of(), List.of(silence), List.of()), alerts.list());
    alerts.unsilence(silence.id());
    assertEquals(List.of(), alerts.list().silences());
    assertThrows(NotFoundException.class, () -> alerts.unsilence(silence.id()));
    assertThrows(
        InvalidException.class, () -> alerts.silence("", Map.of(), Duration.ofHours(1), "", ""));
    List<AlertTest> tests = alerts.test("hook");
    assertEquals(List.of("hook"), tests.stream().map(AlertTest::target).toList());
    assertTrue(tests.get(0).problem().contains("refused"), tests.toString());
    assertThrows(NotFoundException.class, () -> alerts.test("none"));
  }

  @Test
  void aNodeReadsItsConfigurationAgain() {
    ConfigList all = client.cluster().applyConfig(true);
    assertEquals(List.of(), all.silent());
    assertEquals(1, all.nodes().size());
    assertEquals(List.of(), all.nodes().get(0).changes());
    assertEquals("", all.nodes().get(0).problem());
  }
}
