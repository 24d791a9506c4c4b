package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.taskengine.json.JsonException;
import io.github.taskengine.json.JsonType;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.function.Executable;

/** The client against a real node. */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class ClientTest {
  private static TestNode node;
  private static TaskengineClient client;

  record Mail(String to) {}

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

  private static String unique(String name) {
    return name + "-" + UUID.randomUUID();
  }

  private static Request inAnHour(String type) {
    return Request.of(type).delay(Duration.ofHours(1));
  }

  private static List<Request> many(int count, Function<Integer, Request> make) {
    return IntStream.range(0, count).boxed().map(make).toList();
  }

  @Test
  void aTaskIsSubmittedAndItsResultIsRead() {
    String key = UUID.randomUUID().toString();
    Instant expiresAt = Instant.now().plus(1, ChronoUnit.HOURS).truncatedTo(ChronoUnit.MICROS);
    Request request =
        Request.of("echo")
            .payload(new Mail("ä"))
            .key(key)
            .orderingKey(key)
            .headers(Map.of("h", "v"))
            .priority(3)
            .expiresAt(expiresAt);
    Receipt receipt = client.submit(request);
    assertEquals(new Receipt(receipt.id(), true, "created"), receipt);
    TaskengineClient patient = client.within(PATIENCE);
    assertEquals(new Mail("ä"), patient.result(receipt.id(), Mail.class));
    assertEquals("{\"to\":\"ä\"}", patient.result(receipt.id(), String.class));
    byte[] raw = "{\"to\":\"ä\"}".getBytes(StandardCharsets.UTF_8);
    assertArrayEquals(raw, client.result(receipt.id(), byte[].class));
    assertEquals(
        Map.of("to", "ä"), client.result(receipt.id(), new JsonType<Map<String, String>>() {}));
    assertThrows(JsonException.class, () -> client.result(receipt.id(), Integer.class));
    Receipt again = client.submit(Request.of("echo").payload("x").key(key).orderingKey(key));
    assertEquals(new Receipt(receipt.id(), false, "existing"), again);
    Task task = client.find("echo", key, key);
    assertEquals(receipt.id(), task.id());
    assertEquals("done", task.state());
    assertTrue(task.hasEnded());
    assertEquals(3, task.priority());
    assertEquals(Map.of("h", "v"), task.headers());
    assertEquals(expiresAt, task.expiresAt());
    assertArrayEquals(raw, task.payload());
  }

  @Test
  void aTaskWithoutPayloadHasNoResult() {
    String id = client.submit(Request.of("echo")).id();
    assertNull(client.within(PATIENCE).result(id, Mail.class));
    assertEquals("", client.result(id, String.class));
  }

  @Test
  void theResultOfATaskThatFailsIsAnError() {
    String id = client.submit(Request.of("fail")).id();
    NotDoneException e =
        assertThrows(
            NotDoneException.class, () -> client.within(PATIENCE).result(id, String.class));
    assertEquals(List.of(id, "error"), List.of(e.id(), e.state()));
    assertTrue(e.reason().contains("exit"), e.reason());
  }

  @Test
  void aRemovedResultIsNoEmptyOne() {
    String key = UUID.randomUUID().toString();
    Request request = Request.of("brief").payload(new Mail("a")).key(key);
    String id = client.submit(request).id();
    for (Class<?> type : List.of(Mail.class, byte[].class)) {
      ResultRemovedException e =
          assertThrows(
              ResultRemovedException.class, () -> client.within(PATIENCE).result(id, type));
      assertEquals(id, e.id());
    }
    assertEquals(new Receipt(id, false, "already_done"), client.submit(request));
    Task task = client.find("brief", key);
    assertEquals(List.of(id, "done"), List.of(task.id(), task.state()));
    assertEquals(0, task.result().length);
    assertTrue(task.tombstone());
    assertFalse(task.node().isEmpty());
    String empty = client.submit(Request.of("echo")).id();
    assertFalse(client.within(PATIENCE).await(empty).tombstone());
  }

  @Test
  void tasksAreManaged() {
    String id = client.submit(inAnHour("idle")).id();
    assertEquals("scheduled", client.why(id).get(0).code());
    Instant at = Instant.parse("2100-01-01T00:00:00Z");
    assertEquals(at, client.reschedule(id, at, 0).nextEventAt());
    assertTrue(client.reschedule(id, Duration.ofMinutes(1), 0).nextEventAt().isBefore(at));
    assertThrows(ConflictException.class, () -> client.cancel(id, "", 1));
    assertEquals("submitted", client.resume(id).state());
    assertEquals("no need", client.cancel(id, "no need").error());
    assertThrows(NotAllowedException.class, () -> client.cancel(id, ""));
    assertEquals("submitted", client.resume(id, client.get(id).version()).state());
    assertEquals("failed", client.fail(id, "no").state());
    assertEquals("failed", client.await(id).state());
  }

  @Test
  void tasksAreListedByPagesAndCounted() {
    String type = unique("list");
    List<Outcome> each =
        client.submitEach(many(1107, i -> Request.of(type).payload(i).key("k" + i % 7)));
    Set<String> ids = each.stream().map(o -> o.orThrow().id()).collect(Collectors.toSet());
    assertEquals(7, ids.size());
    for (Receipt receipt : client.submitAll(many(250, i -> Request.of(type)))) {
      assertTrue(receipt.created());
      ids.add(receipt.id());
    }
    TaskFilter all = TaskFilter.all().types(type);
    Set<String> found =
        client.tasks(all.states("submitted")).map(Task::id).collect(Collectors.toSet());
    assertEquals(ids, found);
    assertEquals(
        List.of(each.get(3).orThrow().id()), client.tasks(all.key("k3")).map(Task::id).toList());
    assertEquals(List.of(new StateCount("submitted", type, 257)), client.count(all));
    assertEquals(3, client.tasks(all).limit(3).count());
  }

  @Test
  void aTaskSaysAfterWhichTasksItRuns() {
    String type = "idle-" + UUID.randomUUID();
    String first = client.submit(Request.of(type)).id();
    String next = client.submit(Request.of(type).after(first)).id();
    assertEquals(new After(List.of(first), 0, 0, 0, false), client.get(next).after());
    assertEquals(List.of(next), client.get(first).followers());
    assertNull(client.get(first).after());
  }

  @Test
  void limitsAreChanged() {
    String value = UUID.randomUUID().toString();
    Limits limits = client.limits();
    LimitList all = limits.list();
    assertEquals(List.of(), all.silent());
    List<String> names =
        all.limits().stream().filter(l -> l.value().isEmpty()).map(Limit::name).toList();
    assertTrue(names.contains("partner"), names.toString());
    Rate rate = Rate.of(20, Duration.ofSeconds(1));
    LimitChange change = LimitChange.none().value(value).by("eve");
    LimitSetting set = limits.set("partner", change.max(0).rate(rate).paused(true)).setting();
    assertNotNull(set);
    assertEquals(List.of(0, rate, "unknown (says eve)"), List.of(set.max(), set.rate(), set.by()));
    LimitChange other = change.max(5).ifVersion(set.version() + 1);
    assertThrows(ConflictException.class, () -> limits.set("partner", other));
    assertTrue(limits.get("partner", value).paused());
    assertFalse(limits.get("partner").paused());
    assertThrows(
        ConflictException.class, () -> limits.unset("partner", value, set.version() + 1, ""));
    assertNull(limits.unset("partner", value, set.version(), "eve").setting());
    assertThrows(NotFoundException.class, () -> limits.unset("partner"));
    assertThrows(NotFoundException.class, () -> limits.get("nothing"));
  }

  @Test
  void theTasksThatWaitForALimitAreCounted() {
    String value = UUID.randomUUID().toString();
    Limits limits = client.limits();
    limits.set("partner", LimitChange.none().value(value).paused(true));
    String id = client.submit(Request.of("limited").key(value)).id();
    LimitReasons why = limits.why("partner", value);
    assertEquals(
        List.of("partner", value, true, 0L),
        List.of(why.limit().name(), why.limit().value(), why.limit().paused(), why.limit().used()));
    assertEquals(1, why.queued().size());
    assertEquals("limited", why.queued().get(0).type());
    assertEquals(1, why.queued().get(0).tasks());
    assertFalse(why.queued().get(0).node().isEmpty());
    assertEquals(List.of(), why.tasks());
    assertEquals(List.of(), why.nodes());
    assertEquals("", why.nodesProblem());
    assertEquals(List.of(), why.silent());
    assertNull(why.nextStart());
    limits.unset("partner", value, null, "");
    client.within(PATIENCE).await(id);
    assertEquals(List.of(), limits.why("partner", value).queued());
    assertThrows(NotFoundException.class, () -> limits.why("nothing"));
  }

  @Test
  void sourcesAreOrdered() throws Exception {
    Sources sources = client.sources();
    assertEquals(List.of("orders"), sources.list().stream().map(Source::name).toList());
    Source found = sources.get("orders");
    assertEquals(List.of("orders"), found.topics());
    assertNull(found.lag());
    assertEquals("orders", sources.pause("orders", "holiday").name());
    assertEquals("holiday", carriedOut(sources).paused().reason());
    sources.resume("orders");
    assertNull(carriedOut(sources).paused());
    SourceSeek day = SourceSeek.time(Instant.parse("2026-03-28T00:00:00Z"));
    assertEquals(List.of(), sources.seek("orders", day, true));
    sources.seek("orders", SourceSeek.begin(), false);
    assertThrows(NotFoundException.class, () -> sources.get("order"));
    assertThrows(NotFoundException.class, () -> sources.pause("order", ""));
    for (SourceSeek wrong :
        List.of(SourceSeek.end().in("other"), SourceSeek.offset("orders", 7, 1), day.in("", 1))) {
      assertThrows(InvalidException.class, () -> sources.seek("orders", wrong, true));
    }
  }

  /** The source of the node, when it has carried out its orders. */
  private static Source carriedOut(Sources sources) throws InterruptedException {
    for (Instant end = Instant.now().plus(PATIENCE); ; Thread.sleep(50)) {
      Source found = sources.get("orders");
      if (found.orders() == 0) {
        return found;
      }
      assertTrue(Instant.now().isBefore(end), found.toString());
    }
  }

  @Test
  void schedulesAreManaged() {
    String name = unique("nightly");
    ScheduleTask task =
        ScheduleTask.of("report")
            .payload("\"{{date}}\"")
            .headers(Map.of("a", "b"))
            .priority(0)
            .expires(Duration.ofMinutes(1));
    ScheduleDefinition definition =
        ScheduleDefinition.cron("30 2 * * *", task)
            .timezone("Europe/Berlin")
            .start(Instant.parse("2020-01-01T00:00:00Z"));
    Schedules schedules = client.schedules();
    assertEquals("created", schedules.apply(name, definition));
    assertEquals("unchanged", schedules.apply(name, definition));
    Schedule found = schedules.get(name);
    assertEquals(definition.cron(), found.definition().cron());
    assertEquals(definition.start(), found.definition().start());
    assertEquals(task, found.definition().task());
    List<ScheduleTime> times = schedules.preview(name, Instant.parse("2026-03-28T00:00:00Z"), 2);
    assertEquals(
        List.of("", "2026-03-29T02:30:00"), times.stream().map(ScheduleTime::movedFrom).toList());
    ScheduleDefinition hourly = ScheduleDefinition.every(Duration.ofHours(1), task);
    assertEquals(5, schedules.preview(name, hourly, null, 5).size());
    assertTrue(schedules.list().anyMatch(s -> s.name().equals(name)));
    assertEquals("holiday", schedules.pause(name, "holiday").paused().reason());
    assertNull(schedules.resume(name).paused());
    assertEquals(36, schedules.trigger(name).length());
    Instant from = Instant.parse("2026-01-01T00:00:00Z");
    assertEquals(10, schedules.backfill(name, from, from.plus(10, ChronoUnit.DAYS), true));
    schedules.delete(name);
    assertThrows(NotFoundException.class, () -> schedules.get(name));
  }

  @Test
  void manySchedulesAreManaged() {
    String prefix = unique("tenant") + "/";
    ScheduleDefinition definition =
        ScheduleDefinition.cron("30 2 29 2 *", ScheduleTask.of("report"));
    List<NamedSchedule> wanted = new ArrayList<>();
    for (int i = 0; i <= 100; i++) {
      wanted.add(NamedSchedule.of(prefix + String.format("%03d", i), definition).ifVersion(0));
    }
    Schedules schedules = client.schedules();
    List<AppliedSchedule> done = schedules.applyAll(wanted);
    assertEquals(new AppliedSchedule(prefix + "000", "created", 1, "", ""), done.get(0));
    assertEquals(101, done.size());
    ScheduleDefinition other = ScheduleDefinition.cron("30 3 29 2 *", ScheduleTask.of("report"));
    NamedSchedule changed = NamedSchedule.of(prefix + "000", other);
    assertEquals("aborted", schedules.applyAll(List.of(changed.ifVersion(7))).get(0).code());
    ScheduleFilter all = ScheduleFilter.prefix(prefix);
    assertEquals(
        wanted.stream().map(NamedSchedule::name).toList(),
        schedules.list(all).map(Schedule::name).toList());
    ScheduleSelection some = ScheduleSelection.prefix(prefix + "00");
    assertEquals(10, schedules.pauseAll(some.counted(), "late").changed());
    assertEquals(10, schedules.pauseAll(some, "late").changed());
    assertEquals(10, schedules.list(all.onlyPaused()).count());
    assertEquals(0, schedules.list(all.onlyFailing()).count());
    assertEquals(
        new SchedulesChanged(10, 91, List.of()),
        schedules.resumeAll(ScheduleSelection.prefix(prefix)));
    assertEquals(101, schedules.deleteAll(ScheduleSelection.prefix(prefix)).changed());
    assertEquals(0, schedules.list(all).count());
    ScheduleSelection none = ScheduleSelection.prefix("");
    assertThrows(InvalidException.class, () -> schedules.deleteAll(none));
  }

  @Test
  void errorsHaveClassesOfTheirOwn() {
    String missing = UUID.randomUUID().toString();
    Request large = Request.of("idle").payload(new byte[40 << 20]);
    String idle = client.submit(Request.of("idle")).id();
    Map<Executable, Class<? extends ClientException>> wanted =
        Map.of(
            () -> client.get(missing), NotFoundException.class,
            () -> client.await(missing), NotFoundException.class,
            () -> client.get("nonsense"), InvalidException.class,
            () -> client.submit(Request.of("idle").id("nonsense")), InvalidException.class,
            () -> client.submit(large), TooLargeException.class,
            () -> client.submitAll(List.of(large)), TooLargeException.class,
            () -> client.submitAll(many(1001, i -> Request.of("idle"))), InvalidException.class,
            () -> client.within(Duration.ofMillis(100)).await(idle),
                DeadlineExceededException.class);
    wanted.forEach((call, type) -> assertThrows(type, call));
    assertThrows(
        InvalidException.class,
        () -> client.submitAll(List.of(Request.of("idle"), Request.of("idle").id("nonsense"))));
  }

  private static List<String> kinds(List<Outcome> outcomes) {
    return outcomes.stream()
        .map(o -> o.error() == null ? o.orThrow().outcome() : o.error().getClass().getSimpleName())
        .toList();
  }

  @Test
  void ofManyTasksThoseAreAddedThatCanBe() {
    List<Request> requests =
        List.of(
            Request.of("idle"),
            Request.of("idle").id("nonsense"),
            Request.of("idle").key("\ud800"),
            Request.of("idle").payload(new byte[40 << 20]),
            Request.of("idle"));
    assertEquals(
        List.of("created", "InvalidException", "InvalidException", "TooLargeException", "created"),
        kinds(client.submitEach(requests)));
    assertEquals(List.of(), client.submitEach(List.of()));
    assertEquals(List.of(), client.submitAll(List.of()));
  }

  @Test
  void anErrorHasTheStackOfTheCallerOfSubmit() {
    Request wrong = Request.of("idle").id("nonsense");
    InvalidException e = assertThrows(InvalidException.class, () -> client.submit(wrong));
    String frames = List.of(e.getStackTrace()).toString();
    assertTrue(frames.contains("anErrorHasTheStackOfTheCallerOfSubmit"), frames);
  }

  @Test
  void aRequestIsRejectedWhoseKeyIsTaken() {
    Request strict = inAnHour("strict").key(UUID.randomUUID().toString());
    Receipt first = client.submit(strict);
    assertThrows(AlreadyExistsException.class, () -> client.submit(strict));
    List<Request> both = List.of(strict, inAnHour("strict"));
    AlreadyExistsException e =
        assertThrows(AlreadyExistsException.class, () -> client.submitAll(both));
    assertEquals(new Receipt(first.id(), false, "rejected"), e.receipts().get(0));
    assertTrue(e.receipts().get(1).created());
    assertEquals(List.of("AlreadyExistsException", "created"), kinds(client.submitEach(both)));
  }

  @Test
  void aRequestIsRefusedThatIsLate() {
    Request late = Request.of("prompt").at(Instant.now().minus(1, ChronoUnit.HOURS));
    assertThrows(LateException.class, () -> client.submit(late));
    List<Request> both = List.of(late, inAnHour("prompt"));
    LateException e = assertThrows(LateException.class, () -> client.submitAll(both));
    assertEquals("late", e.receipts().get(0).outcome());
    assertTrue(e.receipts().get(1).created());
    assertEquals(List.of("LateException", "created"), kinds(client.submitEach(both)));
  }

  @Test
  void aFullBacklogIsAnErrorOfItsOwnAndWhatWasRefusedIsNotSentAgain() {
    Request full = inAnHour("full");
    List<Outcome> got = client.submitEach(List.of(full, full, full));
    assertEquals(List.of("created", "BacklogFullException", "BacklogFullException"), kinds(got));
    assertThrows(BacklogFullException.class, () -> client.submitAll(List.of(full)));
    client.cancel(got.get(0).orThrow().id(), "");
    assertTrue(client.submit(full).created());
    assertEquals(
        List.of(new StateCount("waiting", "full", 1)),
        client.count(TaskFilter.all().types("full").states("waiting")));
  }

  @Test
  void anIdOfTheCallerIsUsedOnce() {
    String id = UUID.randomUUID().toString();
    Request request = Request.of("idle").id(id);
    Receipt first = client.submit(request);
    assertTrue(first.created());
    assertTrue(first.warning().contains("no live node has a handler for type idle"));
    assertEquals(new Receipt(id, false, "existing", first.warning()), client.submit(request));
  }

  @Test
  void threadsThatSubmitShareMessagesAndEachGetsItsOwnReceipt() throws Exception {
    String type = unique("threads");
    int threads = 16;
    int each = 50;
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    Map<String, String> keys = Collections.synchronizedMap(new HashMap<>());
    List<Future<?>> running = new ArrayList<>();
    for (int t = 0; t < threads; t++) {
      String prefix = t + "-";
      running.add(
          pool.submit(
              () -> {
                for (int i = 0; i < each; i++) {
                  Receipt receipt = client.submit(Request.of(type).key(prefix + i));
                  assertTrue(receipt.created());
                  keys.put(receipt.id(), prefix + i);
                }
              }));
    }
    for (Future<?> one : running) {
      one.get();
    }
    pool.shutdown();
    assertEquals(threads * each, keys.size());
    assertEquals(
        keys,
        client.tasks(TaskFilter.all().types(type)).collect(Collectors.toMap(Task::id, Task::key)));
  }

  @Test
  void tasksOfOneCallerAreAddedInTheirOrderAndEachGetsItsOwnReceipt() {
    String type = unique("order");
    List<Outcome> got =
        client.submitEach(
            many(3000, i -> Request.of(type).orderingKey("o").headers(Map.of("n", "" + i))));
    Map<String, Task> found =
        client
            .tasks(TaskFilter.all().types(type))
            .collect(Collectors.toMap(Task::id, Function.identity()));
    List<Task> tasks = got.stream().map(o -> found.get(o.orThrow().id())).toList();
    assertEquals(
        IntStream.range(0, 3000).mapToObj(String::valueOf).toList(),
        tasks.stream().map(t -> t.headers().get("n")).toList());
    List<Instant> times = tasks.stream().map(Task::readyAt).toList();
    assertEquals(times.stream().sorted().toList(), times);
  }

  @Test
  void futuresAreCompletedAndOneThatIsCancelledEndsNoOther() {
    String type = unique("futures");
    List<CompletableFuture<Receipt>> futures = new ArrayList<>();
    for (int i = 0; i < 2000; i++) {
      futures.add(client.submitAsync(Request.of(type).payload(i)));
    }
    futures.remove(7).cancel(true);
    Set<String> ids = new HashSet<>();
    futures.forEach(f -> ids.add(f.join().id()));
    assertEquals(1999, ids.size());
    CompletableFuture<Receipt> chain =
        client
            .submitAsync(Request.of(type))
            .thenCompose(r -> client.submitAsync(Request.of(type).id(r.id())));
    assertFalse(chain.join().created());
    CompletableFuture<Receipt> wrong = client.submitAsync(Request.of("idle").id("nonsense"));
    CompletionException e = assertThrows(CompletionException.class, wrong::join);
    assertInstanceOf(InvalidException.class, e.getCause());
    CompletableFuture<Receipt> unsendable = client.submitAsync(Request.of("\ud800"));
    assertTrue(unsendable.isCompletedExceptionally());
  }

  @Test
  void aCallThatWouldWaitForItselfSaysSo() {
    Thread own = Thread.currentThread();
    IllegalStateException why = null;
    while (why == null) { // a future that is done at once runs what depends on it in this thread
      why =
          client
              .submitAsync(Request.of("idle"))
              .thenApply(
                  r ->
                      Thread.currentThread() == own
                          ? null
                          : assertThrows(IllegalStateException.class, () -> client.get(r.id())))
              .join();
    }
    assertTrue(why.getMessage().contains("Async"), why.getMessage());
    Task task =
        client.submitAsync(Request.of("idle")).thenApplyAsync(r -> client.get(r.id())).join();
    assertEquals("submitted", task.state());
  }

  @Test
  void anInterruptEndsACallAndNoOther() throws Exception {
    String id = client.submit(Request.of("idle")).id();
    CompletableFuture<ClientException> thrown = new CompletableFuture<>();
    Thread waiting =
        new Thread(
            () -> {
              try {
                client.await(id);
              } catch (ClientException e) {
                assertTrue(Thread.currentThread().isInterrupted());
                thrown.complete(e);
              }
            });
    waiting.start();
    waiting.interrupt();
    ClientException e = thrown.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    assertInstanceOf(CallInterruptedException.class, e);
    assertInstanceOf(InterruptedException.class, e.getCause());
    Thread.currentThread().interrupt();
    assertThrows(CallInterruptedException.class, () -> client.submit(Request.of("idle")));
    assertTrue(Thread.interrupted());
    assertTrue(client.submit(Request.of("idle")).created());
  }

  @Test
  void whatDecorateReturnsIsAdded() {
    UnaryOperator<Request> decorate =
        r -> Request.of("idle").priority(2).headers(Map.of("by", "decorate", "of", r.type()));
    try (TaskengineClient decorating =
        TaskengineClient.to(node.address()).decorate(decorate).open()) {
      List<Request> request = List.of(Request.of("none"));
      List<Receipt> receipts = new ArrayList<>(decorating.submitAll(request));
      receipts.add(decorating.submitEach(request).get(0).orThrow());
      receipts.add(decorating.submit(request.get(0)));
      receipts.add(decorating.submitAsync(request.get(0)).join());
      for (Receipt receipt : receipts) {
        Task task = client.get(receipt.id());
        assertEquals(Map.of("by", "decorate", "of", "none"), task.headers());
        assertEquals("idle 2", task.type() + " " + task.priority());
      }
    }
  }

  @Test
  void aRequestWhoseDecorateThrowsIsInvalidAndNoOther() {
    IllegalStateException why = new IllegalStateException("no tenant");
    UnaryOperator<Request> decorate =
        request -> {
          if (request.key().equals("null")) {
            return null;
          }
          if (request.key().equals("bad")) {
            throw why;
          }
          return request;
        };
    try (TaskengineClient decorating =
        TaskengineClient.to(node.address()).decorate(decorate).open()) {
      Request bad = Request.of("idle").key("bad");
      List<Request> requests = List.of(Request.of("idle"), bad, Request.of("idle").key("null"));
      List<Outcome> outcomes = decorating.submitEach(requests);
      assertTrue(outcomes.get(0).orThrow().created());
      ClientException error = outcomes.get(1).error();
      assertInstanceOf(InvalidException.class, error);
      assertSame(why, error.getCause());
      assertTrue(error.getMessage().contains("no tenant"), error.getMessage());
      assertInstanceOf(InvalidException.class, outcomes.get(2).error());
      assertThrows(InvalidException.class, () -> decorating.submit(bad));
      assertThrows(InvalidException.class, () -> decorating.submitAll(requests));
      ExecutionException later =
          assertThrows(ExecutionException.class, () -> decorating.submitAsync(bad).get());
      assertInstanceOf(InvalidException.class, later.getCause());
      assertThrows(NotFoundException.class, () -> client.find("idle", "bad"));
    }
  }

  @Test
  void aClosedClientSaysSo() {
    TaskengineClient closed = TaskengineClient.to(node.address()).open();
    String id = closed.submit(Request.of("idle")).id();
    closed.close();
    for (Executable call :
        List.<Executable>of(
            () -> closed.get(id),
            () -> closed.submit(Request.of("idle")),
            () -> closed.cancel(id, ""),
            () -> closed.await(id))) {
      assertThrows(ClosedException.class, call);
    }
    assertTrue(closed.submitAsync(Request.of("idle")).isCompletedExceptionally());
    closed.close();
  }

  @Test
  void aSocketIsAnAddress() {
    try (TaskengineClient c = TaskengineClient.to("unix:" + node.socket()).open()) {
      String id = c.submit(Request.of("idle")).id();
      assertEquals("submitted", client.get(id).state());
    }
  }
}
