package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Time slices, filters and kinds of errors, with a real node. */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class SlicesTest {
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

  /** A platform, when something holds of it. */
  private static Platform when(String name, Predicate<Platform> holds) throws Exception {
    for (Instant end = Instant.now().plus(PATIENCE); ; Thread.sleep(20)) {
      Platform found = null;
      try {
        found = client.slices().platform("shops", name);
      } catch (NotFoundException e) {
        // it is not there yet
      }
      if (found != null && holds.test(found)) {
        return found;
      }
      assertTrue(Instant.now().isBefore(end), String.valueOf(found));
    }
  }

  @Test
  void kindsOfErrorsAreReadAndTasksSelectedByAFilter() {
    String key = UUID.randomUUID().toString();
    List<String> failed = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      String id = client.submit(Request.of("fail").key(key + "-" + i)).id();
      client.within(PATIENCE).await(id);
      failed.add(id);
    }
    ErrorFilter filter = ErrorFilter.all().types("fail").where("since=1h key=" + key + "-*");
    ErrorKinds found = client.errorKinds(filter.limit(7));
    assertEquals(List.of(3L, 0L), List.of(found.tasks(), found.others()));
    assertTrue(found.complete() && found.read() >= 3, found.toString());
    ErrorKind kind = found.kinds().get(0);
    assertEquals(List.of(1, 3L), List.of(found.kinds().size(), kind.tasks()));
    assertEquals(List.of("fail"), kind.types());
    assertEquals(failed.get(2), kind.sample());
    assertTrue(kind.error().contains("exit") && !kind.first().isAfter(kind.last()), kind.error());
    String where = "error.kind=%s error~\"exit\" since=1h key=%s-*".formatted(kind.kind(), key);
    Collections.reverse(failed);
    assertEquals(failed, client.tasks(TaskFilter.all().where(where)).map(Task::id).toList());
    String type = "where-" + UUID.randomUUID();
    client.submitAll(Collections.nCopies(250, Request.of(type)));
    TaskFilter recent = TaskFilter.all().where("type=" + type + " since=1h");
    assertEquals(250, client.tasks(recent).count());
    InvalidException refused =
        assertThrows(InvalidException.class, () -> client.errorKinds(filter.where("error.knd=5")));
    assertTrue(refused.getMessage().contains("column 1"), refused.getMessage());
    assertThrows(InvalidException.class, () -> client.tasks(TaskFilter.all().where("(")).toList());
    assertThrows(IllegalArgumentException.class, () -> filter.limit(0));
  }

  @Test
  void timeSlicesAreReadAndOrdered() throws Exception {
    Instant start = Instant.parse("2020-01-01T00:00:00Z");
    Slices slices = client.slices();
    Platform found =
        when("north", p -> p.slices().stream().limit(1).anyMatch(s -> s.failedAt() != null));
    assertEquals(List.of("shops", "north"), List.of(found.source(), found.name()));
    assertEquals(start, found.lowWater());
    OpenSlice first = found.slices().get(0);
    assertEquals(start, first.start());
    assertNotNull(first.failedAt());
    assertFalse(first.taskId().isEmpty() || found.taskId().isEmpty());
    assertTrue(found.cursorLag().compareTo(Duration.ofDays(365)) > 0, found.toString());
    assertTrue(found.settings().contains(new SliceSetting("retries", "0", "file")));
    SliceOrder why = new SliceOrder("anna", UUID.randomUUID().toString());
    Map<String, Supplier<Platform>> orders = new LinkedHashMap<>();
    orders.put("set lag=5m", () -> slices.set("shops", "north", Map.of("lag", "5m"), why));
    orders.put("set lag=", () -> slices.set("shops", "north", Map.of("lag", ""), why));
    orders.put("pause", () -> slices.pause("shops", "north", why));
    orders.put("resume", () -> slices.resume("shops", "north", why));
    orders.put("remove", () -> slices.remove("shops", "north", why));
    orders.put("add", () -> slices.add("shops", "north", why));
    orders.put(
        "retry failed slices", () -> slices.retry("shops", "north", start, Instant.now(), why));
    orders.put(
        "reset the cursor to 2020-01-01T00:00:00Z",
        () -> slices.reset("shops", "north", null, start, why));
    for (Map.Entry<String, Supplier<Platform>> order : orders.entrySet()) {
      assertEquals("north", order.getValue().get().name());
      String said = order.getKey() + ": " + why.reason();
      when(
          "north",
          p ->
              p.orders() == 0
                  && p.history().stream()
                      .anyMatch(
                          h -> h.by().equals("unknown (says anna)") && h.what().equals(said)));
    }
    assertNull(slices.set("shops", "", Map.of("lag", "10m"), why));
    assertNull(slices.pause("shops", "", why));
    assertEquals(why.reason(), when("south", p -> p.paused() != null).paused().reason());
    assertNull(slices.resume("shops", "", why));
    assertNull(slices.retry("shops", "", null, null, why));
    when("south", p -> p.paused() == null && p.orders() == 0);
    assertEquals(
        List.of("north", "south"),
        slices.platforms("shops", "").filter(p -> p.configured()).map(Platform::name).toList());
    assertEquals(List.of("south"), slices.platforms("shops", "s").map(Platform::name).toList());
    SliceSource source = slices.source("shops");
    assertEquals("fetch", source.type());
    assertTrue(source.values().contains(new SliceSetting("lag", "10m0s", "live")));
    assertEquals(List.of("shops"), slices.sources().stream().map(SliceSource::name).toList());
    assertThrows(NotFoundException.class, () -> slices.source("none"));
    assertThrows(NotFoundException.class, () -> slices.platform("shops", "none"));
    assertThrows(NotFoundException.class, () -> slices.pause("none", "", why));
    Instant elsewhere = start.plusSeconds(7);
    assertThrows(
        ConflictException.class, () -> slices.reset("shops", "north", elsewhere, start, why));
    assertThrows(
        InvalidException.class,
        () -> slices.set("shops", "north", Map.of("interval", "often"), why));
  }

  @Test
  void platformsAreChangedByListsAndPrefixes() throws Exception {
    Slices slices = client.slices();
    SliceOrder why = new SliceOrder("anna", UUID.randomUUID().toString());
    String name = "west-" + UUID.randomUUID();
    assertEquals(name, slices.add("shops", name, Map.of("interval", "3h"), why).name());
    Platform west = when(name, p -> p.orders() == 0);
    assertEquals(Map.of("interval", "3h0m0s"), west.own());
    assertFalse(west.configured());
    List<PlatformRow> rows =
        List.of(
            PlatformRow.of(name).values(Map.of("interval", "2h")).replaced(),
            PlatformRow.of(name + "-2").ifVersion(0));
    List<String> effects = List.of("updated", "created");
    assertEquals(effects, outcomes(slices.preview("shops", rows)));
    assertEquals(effects, outcomes(slices.apply("shops", rows, why)));
    when(name, p -> p.orders() == 0 && p.own().equals(Map.of("interval", "2h0m0s")));
    when(name + "-2", p -> p.orders() == 0);
    slices.pauseAll("shops", "west-", why);
    when(name, p -> p.paused() != null && p.orders() == 0);
    SourcePause north = slices.platform("shops", "north").paused(); // another test may pause it
    assertTrue(north == null || !north.reason().equals(why.reason()));
    slices.resumeAll("shops", "west-", why);
    slices.retryAll("shops", "west-", null, null, why);
    when(name, p -> p.paused() == null && p.orders() == 0);
    List<AppliedPlatform> gone =
        slices.apply(
            "shops",
            List.of(
                PlatformRow.of(name).removed(),
                PlatformRow.of(name + "-2").removed().ifVersion(99)),
            why);
    assertEquals(List.of("removed", ""), outcomes(gone));
    assertEquals("aborted", gone.get(1).code());
    assertEquals(name + "-2", slices.remove("shops", name + "-2", why).name());
    List<PlatformRow> wrong = List.of(PlatformRow.of("a/b"));
    assertThrows(InvalidException.class, () -> slices.apply("shops", wrong, why));
  }

  private static List<String> outcomes(List<AppliedPlatform> applied) {
    return applied.stream().map(AppliedPlatform::outcome).toList();
  }
}
