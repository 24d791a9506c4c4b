package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
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
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Bulk jobs, events, histories, tokens and nodes, with real nodes. */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class BulkTest {
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

  /** A bulk job, when something holds of it. */
  private static BulkJob when(String name, Predicate<BulkJob> holds) throws Exception {
    for (Instant end = Instant.now().plus(PATIENCE); ; Thread.sleep(20)) {
      BulkJob job = client.bulkJobs().get(name);
      if (holds.test(job)) {
        return job;
      }
      assertTrue(Instant.now().isBefore(end), job.toString());
    }
  }

  @Test
  void aBulkJobChangesTheTasksOfAFilter() throws Exception {
    String type = "bulk-" + UUID.randomUUID();
    Request request = Request.of(type).headers(Map.of("old", "1", "kept", "2"));
    List<Receipt> receipts = client.submitAll(Collections.nCopies(7, request));
    TaskValues values =
        TaskValues.none()
            .priority(2)
            .payload(Map.of("a", 1))
            .headers(Map.of("who", "anna"))
            .removeHeaders("old");
    BulkOrder order = BulkOrder.of("set").where("type=" + type).values(values);
    BulkPreview preview = client.bulkJobs().preview(order);
    assertEquals(7, preview.tasks());
    assertTrue(preview.complete());
    assertEquals(Map.of("submitted", 7L), preview.states());
    assertEquals(7, preview.samples().size());
    assertEquals("state", preview.index());
    assertEquals(0, preview.total());
    String name = "n-" + UUID.randomUUID();
    BulkJob started = client.bulkJobs().start(order, name, 0, "anna");
    assertEquals(
        List.of(name, "set", 7L), List.of(started.name(), started.verb(), started.total()));
    BulkJob job = when(name, BulkJob::hasEnded);
    assertEquals(
        List.of("done", 7L, 0L, 0L),
        List.of(job.phase(), job.changed(), job.refused(), job.skipped()));
    assertTrue(job.by().contains("anna"), job.by());
    Task task = client.get(receipts.get(0).id());
    assertEquals(2, task.priority());
    assertEquals(Map.of("kept", "2", "who", "anna"), task.headers());
    assertEquals("{\"a\":1}", new String(task.payload()));
    assertEquals("edited", task.history().get(0).outcome());
    assertEquals(name, task.history().get(0).job());
    assertTrue(client.bulkJobs().list().anyMatch(j -> j.name().equals(name)));
    assertThrows(NotFoundException.class, () -> client.bulkJobs().get("none"));
    BulkOrder wrong = BulkOrder.of("cancel").where("(");
    assertThrows(InvalidException.class, () -> client.bulkJobs().preview(wrong));
  }

  @Test
  void aBulkJobIsPausedContinuedAndStopped() throws Exception {
    String type = "slow-" + UUID.randomUUID();
    client.submitAll(Collections.nCopies(50, Request.of(type)));
    String name = "p-" + UUID.randomUUID();
    BulkJobs jobs = client.bulkJobs();
    jobs.start(BulkOrder.of("cancel").types(type).reason("no use"), name, 0.5, "");
    assertEquals("paused", jobs.pause(name, "anna", "wait").phase());
    assertEquals(0.25, jobs.setRate(name, 0.25, "anna").rate());
    assertEquals("running", jobs.goOn(name, "anna", "").phase());
    jobs.stop(name, "anna", "enough");
    BulkJob stopped = when(name, BulkJob::hasEnded);
    assertEquals("stopped", stopped.phase());
    assertTrue(stopped.changed() < 50, stopped.toString());
    assertTrue(stopped.history().stream().anyMatch(h -> h.reason().equals("enough")));
  }

  @Test
  void oneTaskIsSetAndDeleted() {
    Request request = Request.of("one-" + UUID.randomUUID()).delay(Duration.ofHours(1));
    String id = client.submit(request).id();
    TaskValues values = TaskValues.none().priority(1);
    Task set = client.set(id, values, "anna", 0);
    assertEquals(1, set.priority());
    assertEquals("edited", set.history().get(0).outcome());
    assertThrows(ConflictException.class, () -> client.set(id, values, "", 99));
    assertThrows(NotAllowedException.class, () -> client.delete(id, 0));
    client.cancel(id, "");
    assertEquals(id, client.delete(id, 0).id());
    assertThrows(NotFoundException.class, () -> client.get(id));
    List<Receipt> some = client.submitAll(Collections.nCopies(2, Request.of("idle")));
    String where = BulkJobs.ids(some.get(0).id(), some.get(1).id());
    assertEquals(2, client.tasks(TaskFilter.all().where(where)).count());
  }

  @Test
  void eventsComeUntilTheyAreClosedAndGoOnAtACursor() {
    String type = "seen-" + UUID.randomUUID();
    Request delayed = Request.of(type).delay(Duration.ofHours(1));
    client.submit(delayed.key("before"));
    List<String> seen = new ArrayList<>();
    EventFilter filter = EventFilter.all().where("type=" + type);
    String cursor = "";
    try (Events events = client.events(filter.after("1h").caughtUp())) {
      for (TaskEvent event : events) {
        cursor = event.cursor();
        if (event instanceof EventGap gap) {
          assertTrue(gap.from().isBefore(gap.until()) && !gap.text().isEmpty());
          seen.add("gap");
          continue;
        }
        TaskChange change = assertInstanceOf(TaskChange.class, event);
        assertNotNull(change.at());
        seen.add(change.task().key() + (change.fromStore() ? " of the store" : ""));
        if (change.task().key().equals("live")) {
          break;
        }
        client.submit(delayed.key("live"));
      }
    }
    assertEquals(List.of("gap", "before of the store", "live"), seen);
    Task live = client.find(type, "live");
    client.cancel(live.id(), "");
    try (Events events = client.events(filter.after(cursor))) {
      TaskChange change = assertInstanceOf(TaskChange.class, events.next());
      assertEquals(
          List.of(live.id(), "cancelled"), List.of(change.task().id(), change.task().state()));
      assertTrue(events.hasNext());
      Thread closing = new Thread(events::close);
      closing.start();
      assertThrows(NoSuchElementException.class, events::next);
      assertFalse(events.hasNext());
    }
    try (Events events = client.events(filter.where("stat=x"))) {
      assertThrows(InvalidException.class, events::next);
    }
    try (TaskengineClient other = TaskengineClient.to(node.address()).open();
        Events events = other.events(filter)) {
      new Thread(other::close).start();
      assertThrows(ClosedException.class, events::next);
    }
  }

  @Test
  void eventsGoOnWhenTheNodeComesBack() throws Exception {
    String type = "back-" + UUID.randomUUID();
    List<String> seen = new ArrayList<>();
    try (TestNode restarted = new TestNode();
        TaskengineClient other = TaskengineClient.to(restarted.address()).open();
        Events events = other.events(EventFilter.all().types(type).after("1h").caughtUp())) {
      other.submit(Request.of(type).key("1"));
      for (TaskEvent event : events) {
        if (!(event instanceof TaskChange change) || seen.contains(change.task().key())) {
          continue;
        }
        seen.add(change.task().key());
        if (seen.size() == 2) {
          break;
        }
        restarted.kill();
        restarted.start();
        other.submit(Request.of(type).key("2"));
      }
    }
    assertEquals(List.of("1", "2"), seen);
  }

  @Test
  void theHistoryOfWaitingIsRead() {
    String id = client.submit(Request.of("none-" + UUID.randomUUID())).id();
    WaitHistory history = client.waitHistory(id);
    assertFalse(history.node().isEmpty() || history.waits().isEmpty(), history.toString());
    assertNotNull(history.notedSince());
    assertEquals(List.of(), history.silent());
    String none = UUID.randomUUID().toString();
    assertThrows(NotFoundException.class, () -> client.waitHistory(none));
  }

  @Test
  void nodesAndWorkersAreListed() throws Exception {
    NodeList all = client.cluster().nodes();
    assertEquals(List.of(1, 0), List.of(all.nodes().size(), all.silent().size()));
    ClusterNode own = all.nodes().get(0);
    assertTrue(own.here() && own.types().contains("echo"), own.toString());
    assertTrue(own.status().uptime().toNanos() > 0, own.toString());
    assertEquals(own.name(), client.cluster().nodes(own.id()).nodes().get(0).name());
    assertEquals(new WorkerList(List.of(), List.of()), client.cluster().workers());
    assertThrows(NotFoundException.class, () -> client.cluster().drainWorker("none"));
    assertThrows(NotFoundException.class, () -> client.cluster().drainNode("none", ""));
    assertThrows(NotFoundException.class, () -> client.cluster().nodes("none"));
    assertThrows(NotAllowedException.class, () -> client.tokens().list()); // the node wants none
    try (TestNode drained = new TestNode();
        TaskengineClient other = TaskengineClient.to(drained.address()).open()) {
      String id = other.cluster().nodes().nodes().get(0).id();
      assertEquals(id, other.cluster().drainNode(id, "anna").id());
      drained.await();
      assertFalse(drained.isRunning());
    }
  }

  @Test
  void tokensAreMadeListedRotatedAndRevoked() throws Exception {
    try (TestNode guarded = TestNode.guarded();
        TaskengineClient boss =
            TaskengineClient.to(guarded.address()).token(guarded.token()).open()) {
      Tokens tokens = boss.tokens();
      NewSecret made =
          tokens.add("shop", List.of("submit"), List.of("echo"), Duration.ofHours(1), "anna");
      Token token = made.token();
      assertEquals(List.of("valid", "boss (says anna)"), List.of(token.state(), token.by()));
      assertEquals(Duration.ofHours(1), Duration.between(token.createdAt(), token.expiresAt()));
      try (TaskengineClient shop =
          TaskengineClient.to(guarded.address()).token(made.secret()).open()) {
        shop.submit(Request.of("echo"));
        assertThrows(NotAllowedException.class, () -> shop.tokens().list());
      }
      List<String> roles = List.of("submit");
      assertThrows(
          AlreadyExistsException.class, () -> tokens.add("shop", roles, List.of(), null, ""));
      NewSecret rotated = tokens.rotate("shop", Duration.ofMinutes(1), "anna");
      assertNotEquals(made.secret(), rotated.secret());
      assertNotNull(rotated.token().earlierUntil());
      assertEquals("revoked", tokens.revoke("shop", false, "anna").state());
      assertEquals(List.of("boss"), tokens.list().stream().map(Token::name).toList());
      assertEquals(
          List.of("shop", "boss"), tokens.listRevoked().stream().map(Token::name).toList());
      assertThrows(NotFoundException.class, () -> tokens.revoke("none", false, ""));
      Instant before = tokens.revokeSessions("ann@example.com", "anna");
      assertTrue(Duration.between(before, Instant.now()).abs().toHours() < 1);
      assertThrows(InvalidException.class, () -> tokens.revokeSessions("a b", ""));
    }
  }
}
