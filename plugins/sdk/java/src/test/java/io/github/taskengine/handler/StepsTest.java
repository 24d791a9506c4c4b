package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.json.JsonType;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Handlers in steps, waits, and checkpoints that are stored. */
class StepsTest {
  private static final JsonMapper JSON = new JsonMapper();
  private static final List<String> FEATURES =
      List.of("progress", "checkpoint", "children", "rerun", "ended", "wait", "family", "signals");

  /** What became of an attempt, and the checkpoints that were stored meanwhile. */
  private record End(Wire.Finish finish, List<String> stored) {
    String result() {
      assertTrue(finish.hasResult(), finish::toString);
      return finish.getResult().toStringUtf8();
    }

    Wire.Error error() {
      assertTrue(finish.hasError(), finish::toString);
      return finish.getError();
    }

    Wire.Again again() {
      assertTrue(finish.hasAgain(), finish::toString);
      return finish.getAgain();
    }

    String checkpoint() {
      return again().getCheckpoint().toStringUtf8();
    }

    JsonNode last() {
      return JSON.readTree(stored.get(stored.size() - 1));
    }
  }

  private static End attempt(
      Handler handler, List<String> features, String fault, Consumer<Wire.Run.Builder> given)
      throws InterruptedException {
    Wire.Welcome.Builder welcome = Wire.Welcome.newBuilder().addAllFeatures(features);
    try (FakeHost host = new FakeHost(new Handlers().on("order", handler), welcome)) {
      host.fault(fault);
      Wire.Run.Builder run = FakeHost.run(1, "order", "");
      given.accept(run);
      host.say(frame -> frame.addRuns(run));
      Wire.FromHandler seen = host.until(frame -> frame.getFinishesCount() == 1);
      List<String> stored =
          seen.getCheckpointsList().stream().map(k -> k.getData().toStringUtf8()).toList();
      return new End(seen.getFinishes(0), stored);
    }
  }

  private static End attempt(StepHandler handler, String checkpoint) throws InterruptedException {
    return attempt(
        Steps.of(1, handler),
        FEATURES,
        "",
        run -> run.setCheckpoint(ByteString.copyFromUtf8(checkpoint)));
  }

  private static End attempt(StepHandler handler) throws InterruptedException {
    return attempt(handler, "");
  }

  private static Wire.Woken signal(String name, String data) {
    return Wire.Woken.newBuilder()
        .setBy(Wire.Woken.By.BY_SIGNAL)
        .setId(ByteString.copyFrom(new byte[16]))
        .setName(name)
        .setAt(1)
        .setData(ByteString.copyFromUtf8(data))
        .build();
  }

  // --- the vectors

  @TestFactory
  Stream<DynamicTest> recordsAreThoseOfOtherLanguages() throws Exception {
    byte[] file = Files.readAllBytes(Path.of(System.getProperty("taskengine.steps")));
    return StreamSupport.stream(JSON.readTree(file).spliterator(), false)
        .map(v -> DynamicTest.dynamicTest(v.get("name").stringValue(), () -> check(v)));
  }

  private static void check(JsonNode v) throws Exception {
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    StepHandler flow =
        task -> {
          try {
            for (JsonNode step : v.path("flow")) {
              go(task, step);
            }
            if (v.has("then")) {
              then(task, v);
            }
            return null;
          } catch (AssertionError e) {
            wrong.set(e);
            throw e;
          }
        };
    Handler handler = Steps.of(1, flow);
    End end =
        attempt(
            handler,
            FEATURES,
            "",
            run -> {
              String checkpoint = v.has("text") ? v.get("text").stringValue() : "";
              checkpoint = v.has("record") ? v.get("record").toString() : checkpoint;
              run.setCheckpoint(ByteString.copyFromUtf8(checkpoint));
              if (v.has("woken")) {
                run.setWoken(wire(v.get("woken")));
              }
              for (JsonNode set : v.path("family")) {
                run.addChildrenBuilder()
                    .setName(set.get("name").stringValue())
                    .setAdded(set.get("added").intValue())
                    .setDone(set.path("done").intValue(0))
                    .setFailed(set.path("failed").intValue(0))
                    .setCancelled(set.path("cancelled").intValue(0));
              }
            });
    if (wrong.get() != null) {
      throw new AssertionError(wrong.get());
    }
    if (v.has("class")) {
      String errorClass = v.get("class").stringValue();
      assertEquals(errorClass, end.error().getClass_());
      assertEquals(errorClass.equals("steps_changed"), end.error().getPermanent());
    } else {
      end.result();
      assertEquals(v.get("after"), end.last());
    }
  }

  private static Wire.Woken wire(JsonNode w) {
    Wire.Woken.Builder woken = Wire.Woken.newBuilder();
    if (!w.get("by").stringValue().equals("signal")) {
      String by = "BY_" + w.get("by").stringValue().toUpperCase();
      return woken.setBy(Wire.Woken.By.valueOf(by)).build();
    }
    return woken
        .setBy(Wire.Woken.By.BY_SIGNAL)
        .setId(ByteString.fromHex(w.get("id").stringValue().replace("-", "")))
        .setName(w.get("name").stringValue())
        .setAt(w.get("at_us").longValue())
        .setData(ByteString.copyFrom(Base64.getDecoder().decode(w.get("data").stringValue())))
        .build();
  }

  private static void go(StepTask task, JsonNode s) throws Exception {
    if (s.has("sleep")) {
      task.sleep(Duration.ofHours(1));
    } else if (s.has("run")) {
      List<Child> children = Collections.nCopies(s.get("count").intValue(), Child.of("a"));
      EndedChildren got = task.runChildren(s.get("run").stringValue(), children);
      assertEquals(s.get("ended").get("count").intValue(), got.count());
      assertEquals(s.get("ended").path("done").intValue(0), got.done());
      assertEquals(s.get("ended").path("failed").intValue(0), got.failed());
      assertEquals(s.get("ended").path("cancelled").intValue(0), got.cancelled());
      for (int number = 0; number < got.count(); number++) {
        assertEquals(s.get("ids").get(number).stringValue(), got.id(number).toString());
      }
      assertThrows(IndexOutOfBoundsException.class, () -> got.id(got.count()));
    } else if (s.has("wait")) {
      String[] names =
          StreamSupport.stream(s.get("wait").spliterator(), false)
              .map(JsonNode::stringValue)
              .toArray(String[]::new);
      Woken woken = task.waitFor(Duration.ofHours(1), names);
      JsonNode want = s.get("woken");
      assertEquals(want.get("by").stringValue().toUpperCase(), woken.by().name());
      if (woken.by() == Woken.By.SIGNAL) {
        assertEquals(UUID.fromString(want.get("id").stringValue()), woken.id());
        assertEquals(want.get("name").stringValue(), woken.name());
        assertEquals(want.get("at_us").longValue(), Codec.micros(woken.at()));
        assertArrayEquals(Base64.getDecoder().decode(want.get("data").stringValue()), woken.data());
      }
    } else if (s.has("fails")) {
      JsonNode f = s.get("fails");
      PermanentException fails =
          new PermanentException(f.get("message").stringValue(), f.get("class").stringValue());
      assertThrows(
          PermanentException.class,
          () ->
              task.step(
                  s.get("step").stringValue(),
                  () -> {
                    throw fails;
                  }));
    } else if (s.has("error")) {
      StepException e =
          assertThrows(
              StepException.class,
              () -> task.step(s.get("step").stringValue(), StepsTest::mustNotRun));
      assertEquals(s.get("error").get("message").stringValue(), e.getMessage());
      assertEquals(s.get("error").path("class").stringValue(""), e.errorClass());
      assertEquals(s.get("error").path("permanent").booleanValue(false), e.isPermanent());
    } else {
      JsonNode got =
          task.step(
              s.get("step").stringValue(),
              JsonNode.class,
              () -> {
                mustNotRun();
                return null;
              });
      assertEquals(s.get("result"), got);
    }
  }

  private static void then(StepTask task, JsonNode v) throws Exception {
    String key = v.has("key") ? v.get("key").stringValue() : task.stepKey();
    assertEquals(key, task.stepKey());
    JsonNode got =
        task.step(
            v.get("then").get("step").stringValue(),
            JsonNode.class,
            () -> {
              assertEquals(key, task.stepKey());
              return v.get("then").get("result");
            });
    assertEquals(v.get("then").get("result").toString(), String.valueOf(got));
  }

  private static void mustNotRun() {
    throw new AssertionError("it ran");
  }

  // --- flows

  @Test
  void aFlowAddsChildrenAndWaitsForThem() throws Exception {
    StepHandler render =
        task -> task.runChildren("page", List.of(Child.of("render"), Child.of("render"))).done();
    End end = attempt(render);
    Wire.Again again = end.finish().getAgain();
    assertEquals(
        List.of(Wire.ChildrenWait.newBuilder().setName("page").build()),
        again.getWait().getChildrenList());
    assertEquals(2, end.finish().getChildrenCount());
    assertEquals("page", end.finish().getChildren(1).getSet());
    String record = again.getCheckpoint().toStringUtf8();
    assertEquals(
        JSON.readTree("[{\"kind\":\"children\",\"name\":\"page\",\"children\":{\"count\":2}}]"),
        JSON.readTree(record).get("done"));
    Wire.ChildSet one = Wire.ChildSet.newBuilder().setName("page").setAdded(2).setDone(1).build();
    End resumed =
        attempt(
            Steps.of(1, render),
            FEATURES,
            "",
            run -> run.setCheckpoint(again.getCheckpoint()).addChildren(one));
    assertEquals("page", resumed.finish().getAgain().getWait().getChildren(0).getName());
    assertEquals(0, resumed.finish().getChildrenCount());
    End lost = attempt(render, record);
    assertTrue(
        lost.error().getPermanent() && lost.error().getMessage().contains("lost its children"));
    List<String> features = FEATURES.stream().filter(name -> !name.equals("family")).toList();
    End refused = attempt(Steps.of(1, render), features, "", run -> {});
    assertEquals("unsupported", refused.error().getClass_());
    assertEquals(0, refused.finish().getChildrenCount());
  }

  @Test
  void aFlowGoesOnBehindItsWait() throws Exception {
    List<String> ran = new ArrayList<>();
    StepHandler order =
        task -> {
          int amount =
              task.step(
                  "charge",
                  Integer.class,
                  () -> {
                    ran.add("charge");
                    return 7;
                  });
          task.sleep(Duration.ofMinutes(1));
          Woken woken = task.waitFor(Duration.ofHours(1), "paid", "void");
          task.step("ship", () -> ran.add("ship " + woken.text()));
          return amount + " " + woken.by();
        };
    End first = attempt(order);
    assertEquals(List.of("charge"), ran);
    assertEquals(60_000_000, first.again().getDelay());
    assertEquals(0, first.again().getAt());
    assertFalse(first.again().hasWait());
    End second = attempt(order, first.checkpoint());
    assertEquals(3_600_000_000L, second.again().getDelay());
    assertEquals(List.of("paid", "void"), second.again().getWait().getNamesList());
    End third = attempt(order, second.checkpoint()); // something else has made it ready
    JsonNode until = JSON.readTree(second.checkpoint()).get("done").get(2).get("until");
    assertEquals(Codec.micros(Instant.parse(until.stringValue())), third.again().getAt());
    assertEquals(0, third.again().getDelay());
    End fourth =
        attempt(
            Steps.of(1, order),
            FEATURES,
            "",
            run ->
                run.setCheckpoint(third.again().getCheckpoint()).setWoken(signal("paid", "cash")));
    assertEquals("7 SIGNAL", fourth.result());
    assertEquals(List.of("charge", "ship cash"), ran);
  }

  record Charge(String id, long cents) {}

  @Test
  void aResultIsWhatJsonMakesOfIt() throws Exception {
    End end =
        attempt(
            task -> {
              Charge charge = task.step("a", Charge.class, () -> new Charge("ö", 1L << 60));
              Object list =
                  task.step(
                      "b", new JsonType<List<Charge>>() {}.type(), () -> List.of(charge, charge));
              assertEquals(List.of(charge, charge), list);
              assertEquals(null, task.step("c", String.class, () -> null));
              return task.step("d", Map.class, () -> Map.of("n", 1));
            });
    assertEquals("{\"n\":1}", end.result());
    assertEquals(1L << 60, end.last().get("done").get(0).get("result").get("cents").longValue());
  }

  @Test
  void aFailureIsKeptWhenTheHandlerGoesOnAndBeforeTheNextStepBegins() throws Exception {
    List<String> ran = new ArrayList<>();
    List<Class<?>> thrown = new ArrayList<>();
    StepHandler order =
        task -> {
          try {
            task.step(
                "reserve",
                () -> {
                  ran.add("reserve");
                  throw new IOException("none is left");
                });
          } catch (Exception e) {
            assertEquals("none is left", e.getMessage());
            thrown.add(e.getClass());
            task.step(
                "refund",
                () -> {
                  ran.add("refund");
                  throw new HandlerException("no answer", "busy");
                });
          }
          return null;
        };
    End first = attempt(order);
    assertEquals("no answer", first.error().getMessage());
    assertEquals(1, first.stored().size());
    JsonNode error = first.last().get("done").get(0).get("error");
    assertEquals("{\"message\":\"none is left\",\"class\":\"IOException\"}", error.toString());
    attempt(order, first.stored().get(0));
    assertEquals(List.of("reserve", "refund", "refund"), ran);
    assertEquals(List.of(IOException.class, StepException.class), thrown);
  }

  @Test
  void aFailureThatIsPassedOnIsNotKept() throws Exception {
    End end =
        attempt(
            task -> {
              task.step("charge", Integer.class, () -> 1);
              task.step(
                  "reserve",
                  () -> {
                    throw new PermanentException("no", "x");
                  });
              return null;
            });
    assertEquals("no", end.error().getMessage());
    assertTrue(end.error().getPermanent());
    assertEquals(1, end.stored().size());
  }

  @Test
  void noStepBeginsWhenTheTaskIsCancelled() throws Exception {
    List<String> ran = new ArrayList<>();
    AtomicReference<FakeHost> host = new AtomicReference<>();
    StepHandler order =
        task -> {
          try {
            task.step(
                "reserve",
                () -> {
                  host.get().cancel(1, Wire.Cancel.Reason.REASON_CANCELLED, "the node stops");
                  while (!task.isCancelled()) {
                    Thread.onSpinWait();
                  }
                  throw new IOException("the connection was closed");
                });
          } catch (IOException e) {
            task.step("refund", () -> ran.add("refund"));
          }
          return "refunded";
        };
    Wire.Welcome.Builder welcome = Wire.Welcome.newBuilder().addAllFeatures(FEATURES);
    try (FakeHost created = new FakeHost(new Handlers().on("a", Steps.of(1, order)), welcome)) {
      host.set(created);
      created.run("a", "");
      String message = created.finish().getError().getMessage();
      assertTrue(message.contains("the connection was closed"), message);
    }
    End late = attempt(Steps.of(1, order), FEATURES, "", run -> run.setTimeLeft(-1));
    assertEquals("cancelled", late.error().getClass_());
    assertEquals(List.of(), ran);
  }

  @Test
  void aStepThatIsNotStoredEndsTheAttempt() throws Exception {
    List<String> ran = new ArrayList<>();
    StepHandler order =
        task -> {
          try {
            task.step("charge", Integer.class, () -> 1);
          } catch (NotStoredException e) {
            // it ends the attempt all the same
          }
          task.step("ship", () -> ran.add("ship"));
          return "fine";
        };
    End lost = attempt(Steps.of(1, order), FEATURES, "the disk is full", run -> {});
    assertEquals("NotStoredException", lost.error().getClass_());
    assertTrue(lost.error().getMessage().contains("the disk is full"));
    assertFalse(lost.error().getPermanent());
    End none = attempt(Steps.of(1, order), List.of("wait"), "", run -> {});
    assertEquals("unsupported", none.error().getClass_());
    assertEquals(List.of(), ran);
  }

  @Test
  void whatCannotBeKeptEndsTheTask() throws Exception {
    List<Object> circle = new ArrayList<>();
    circle.add(circle);
    for (Object value : Arrays.asList(Double.NaN, circle)) {
      End end = attempt(task -> task.step("a", Object.class, () -> value));
      assertEquals("bad_result", end.error().getClass_(), end.error()::toString);
      assertTrue(end.error().getPermanent());
    }
    End large = attempt(task -> task.step("a", String.class, () -> "x".repeat(1 << 20)));
    assertEquals("steps_too_large", large.error().getClass_());
    assertTrue(large.error().getPermanent());
  }

  @Test
  void aTaskKeepsTheVersionWithWhichItBegan() throws Exception {
    StepHandler order = task -> String.valueOf(task.stepVersion());
    Consumer<Wire.Run.Builder> began =
        run ->
            run.setCheckpoint(ByteString.copyFromUtf8("{\"steps\":1,\"version\":2,\"done\":[]}"));
    assertEquals("2", attempt(Steps.of(3, 1, order), FEATURES, "", began).result());
    assertEquals("3", attempt(Steps.of(3, order), FEATURES, "", run -> {}).result());
    End older = attempt(Steps.of(3, order), FEATURES, "", began);
    assertEquals("steps_changed", older.error().getClass_());
    End newer = attempt(Steps.of(1, order), FEATURES, "", began);
    assertEquals("steps_newer", newer.error().getClass_());
    assertFalse(newer.error().getPermanent());
    assertThrows(IllegalArgumentException.class, () -> Steps.of(0, order));
    assertThrows(IllegalArgumentException.class, () -> Steps.of(1, 2, order));
  }

  @Test
  void eachOccurrenceOfARecurringTaskHasItsOwnSteps() throws Exception {
    List<String> keys = new ArrayList<>();
    StepHandler bill =
        task -> {
          task.step("bill", () -> keys.add(task.stepKey()));
          return new Again(Instant.EPOCH, null).withPayload("next");
        };
    End first = attempt(bill);
    attempt(bill, first.checkpoint());
    assertEquals(
        JSON.readTree("{\"steps\":1,\"version\":0,\"done\":[],\"occurrence\":1}"),
        JSON.readTree(first.checkpoint()));
    assertEquals(2, new HashSet<>(keys).size());
    assertTrue(
        attempt(task -> WaitFor.signal("paid").withCheckpoint("mine")).error().getPermanent());
  }

  @Test
  void whatEndsAnAttemptCannotBeSwallowed() throws Exception {
    End end =
        attempt(
            task -> {
              try {
                task.waitFor("paid");
              } catch (Throwable t) {
                // it should have passed
              }
              try {
                task.step("ship", () -> {});
              } catch (Throwable t) {
                // nor this
              }
              return "fine";
            });
    assertEquals(List.of("paid"), end.again().getWait().getNamesList());
  }

  @Test
  void aStepInAStepEndsTheTask() throws Exception {
    End end =
        attempt(task -> task.step("a", Object.class, () -> task.step("b", Object.class, () -> 1)));
    assertTrue(end.error().getPermanent());
    assertTrue(end.error().getMessage().contains("one after the other"));
  }

  // --- waits and checkpoints

  private static Wire.Finish answer(WaitFor wait, String... features) {
    Answers answers =
        new Answers(
            new Codec(io.github.taskengine.json.Json.standard()),
            new Host(new HashSet<>(List.of(features)), 0, 100));
    return answers.of(new Run(FakeHost.run(1, "t", "").build(), null, null, null), wait);
  }

  @Test
  void aWaitHasItsNamesAndItsEnd() {
    WaitFor wait = WaitFor.signal("paid", "vöid");
    Wire.Again.Builder want =
        Wire.Again.newBuilder().setWait(Wire.Wait.newBuilder().addNames("paid").addNames("vöid"));
    assertEquals(want.build(), answer(wait, "wait").getAgain());
    assertEquals(
        want.setDelay(1500).build(),
        answer(wait.timeout(Duration.ofNanos(1_499_001)), "wait").getAgain());
    assertEquals(want.setDelay(1).build(), answer(wait.timeout(Duration.ZERO), "wait").getAgain());
    assertEquals(
        want.clearDelay().setAt(7).build(),
        answer(wait.until(Instant.EPOCH.plusNanos(7000)), "wait").getAgain());
    assertEquals(want.setAt(-1).build(), answer(wait.until(Instant.EPOCH), "wait").getAgain());
    want.setResult(ByteString.copyFromUtf8("r")).setPayload(ByteString.copyFromUtf8("p"));
    want.clearAt().setCheckpoint(ByteString.copyFromUtf8("c"));
    WaitFor full = wait.withResult("r").withPayload("p").withCheckpoint("c");
    assertEquals(want.build(), answer(full, "wait", "rerun").getAgain());
  }

  @Test
  void aWaitThatCannotBeIsAPermanentError() {
    WaitFor wait = WaitFor.signal("paid");
    for (Wire.Finish finish :
        List.of(answer(wait, "rerun"), answer(wait.withCheckpoint("c"), "wait"))) {
      assertEquals("unsupported", finish.getError().getClass_());
      assertTrue(finish.getError().getPermanent());
    }
    Wire.Finish large = answer(wait.withPayload("x".repeat(101)), "wait", "rerun");
    assertEquals("payload_too_large", large.getError().getClass_());
    assertThrows(IllegalArgumentException.class, WaitFor::signal);
    assertThrows(
        IllegalArgumentException.class,
        () -> new WaitFor(List.of("a"), Duration.ZERO, Instant.EPOCH, null, null, null));
  }

  @Test
  void aTaskKnowsWhatHasWokenIt() {
    Wire.Run.Builder run = FakeHost.run(1, "t", "");
    assertTrue(new Run(run.build(), null, null, null).woken().isEmpty());
    run.setWoken(Wire.Woken.newBuilder().setBy(Wire.Woken.By.BY_TIMEOUT));
    assertEquals(
        Woken.By.TIMEOUT, new Run(run.build(), null, null, null).woken().orElseThrow().by());
    run.setWoken(signal("paid", "cäsh"));
    Woken woken = new Run(run.build(), null, null, null).woken().orElseThrow();
    assertEquals("paid", woken.name());
    assertEquals("cäsh", woken.text());
    assertEquals(Instant.EPOCH.plusNanos(1000), woken.at());
    assertEquals(new UUID(0, 0), woken.id());
  }

  @Test
  void aCheckpointIsSavedWhenTheHostHasStoredIt() throws Exception {
    Handler handler =
        task -> {
          task.saveCheckpoint("a".getBytes(StandardCharsets.UTF_8));
          return "saved";
        };
    Wire.Welcome.Builder welcome = Wire.Welcome.newBuilder().addAllFeatures(FEATURES);
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler), welcome)) {
      host.fault(null);
      host.run("a", "");
      host.until(frame -> frame.getCheckpointsCount() == 1);
      host.cancel(1, Wire.Cancel.Reason.REASON_CANCELLED, "the node stops"); // it may be stored yet
      host.say(frame -> frame.setPing(1));
      assertEquals(0, host.until(frame -> frame.getPong() == 1).getFinishesCount());
      host.say(frame -> frame.addStored(Wire.Stored.newBuilder().setRunId(1).setNumber(1)));
      assertEquals("saved", host.finish().getResult().toStringUtf8());
    }
  }

  @Test
  void aCheckpointIsNotAwaitedForEver() throws Exception {
    AtomicReference<NotStoredException> heard = new AtomicReference<>();
    Handler handler =
        task -> {
          heard.set(assertThrows(NotStoredException.class, () -> task.saveCheckpoint(new byte[1])));
          return null;
        };
    Wire.Welcome.Builder welcome = Wire.Welcome.newBuilder().addAllFeatures(FEATURES);
    try (FakeHost host = new FakeHost(new Handlers().on("a", handler), welcome)) {
      host.fault(null);
      host.run("a", "");
      host.until(frame -> frame.getCheckpointsCount() == 1);
    } // the host is gone, and the handler returns
    assertTrue(heard.get().getMessage().contains("the host is gone"));
  }
}
