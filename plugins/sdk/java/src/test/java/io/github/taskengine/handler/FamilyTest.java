package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.json.Json;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Children that a task learns the ends of, and signals that it sends. */
class FamilyTest {
  private static final Set<String> ALL = Set.of("children", "family", "signals", "wait");
  private static final UUID ORDER = UUID.fromString("01020304-0506-0708-090a-0b0c0d0e0f10");
  private static final ByteString ORDER_BYTES =
      ByteString.fromHex("0102030405060708090a0b0c0d0e0f10");

  private final Codec codec = new Codec(Json.standard());

  private Run task(Set<String> features) {
    Host host = new Host(features, 0, 0);
    return new Run(FakeHost.run(1, "t", "").build(), codec, host, null);
  }

  private Wire.Finish answer(Run task, Set<String> features, Object outcome) {
    return new Answers(codec, new Host(features, 0, 0)).of(task, outcome);
  }

  private Run busy() {
    Run task = task(ALL);
    Child child = Child.of("render").payload("1").orderingKey("o").headers(Map.of("a", "b"));
    task.addChildren("page", List.of(child.runAt(Instant.ofEpochSecond(1)).priority(0)));
    task.sendSignal(Signal.to(ORDER, "paid").type("order").id(ORDER).data("cash").keep());
    task.sendSignal(Signal.toKey("order", "k", "seen").orderingKey("o"));
    return task;
  }

  @Test
  void childrenAndSignalsGoWithASuccessAndWithNothingElse() {
    WaitForChildren wait =
        WaitForChildren.of(ChildrenWait.all("page"), ChildrenWait.all("proof").count(2).orFailed())
            .timeout(Duration.ofMillis(1))
            .withResult("so far");
    for (Object outcome : List.of("done", wait)) {
      Wire.Finish finish = answer(busy(), ALL, outcome);
      Wire.Child child =
          Wire.Child.newBuilder()
              .setSet("page")
              .setType("render")
              .setPayload(ByteString.copyFromUtf8("1"))
              .setOrderingKey("o")
              .putHeaders("a", "b")
              .setRunAt(1_000_000)
              .setPriority(0)
              .build();
      assertEquals(List.of(child), finish.getChildrenList());
      Wire.Signal paid =
          Wire.Signal.newBuilder()
              .setTaskId(ORDER_BYTES)
              .setType("order")
              .setId(ORDER_BYTES)
              .setName("paid")
              .setData(ByteString.copyFromUtf8("cash"))
              .setKeep(true)
              .build();
      Wire.Signal seen =
          Wire.Signal.newBuilder()
              .setType("order")
              .setKey("k")
              .setOrderingKey("o")
              .setName("seen")
              .build();
      assertEquals(List.of(paid, seen), finish.getSignalsList());
      if (outcome == wait) {
        Wire.Wait waits =
            Wire.Wait.newBuilder()
                .addChildren(Wire.ChildrenWait.newBuilder().setName("page"))
                .addChildren(
                    Wire.ChildrenWait.newBuilder().setName("proof").setCount(2).setOrFailed(true))
                .build();
        assertEquals(waits, finish.getAgain().getWait());
        assertEquals(1000, finish.getAgain().getDelay());
        assertEquals("so far", finish.getAgain().getResult().toStringUtf8());
      }
    }
    for (Object outcome : List.of(new Snooze(Duration.ZERO), new IllegalStateException())) {
      Wire.Finish finish = answer(busy(), ALL, outcome);
      assertEquals(0, finish.getChildrenCount() + finish.getSignalsCount());
    }
  }

  @Test
  void aTaskIsSpawnedToRunAfterOthers() {
    Set<String> features = Set.of("children", "after");
    Run task = task(features);
    UUID other = UUID.fromString("ffffffff-0506-0708-090a-0b0c0d0e0f10");
    ByteString otherBytes = ByteString.fromHex("ffffffff05060708090a0b0c0d0e0f10");
    task.spawn(Child.of("a").after(other, ORDER));
    task.spawn(Child.of("b").afterAny(ORDER));
    List<Wire.Child> want =
        List.of(
            Wire.Child.newBuilder().setType("a").addAfter(otherBytes).addAfter(ORDER_BYTES).build(),
            Wire.Child.newBuilder().setType("b").addAfter(ORDER_BYTES).setAfterAny(true).build());
    assertEquals(want, answer(task, features, "done").getChildrenList());
    UUID[] many = IntStream.range(1, 102).mapToObj(n -> new UUID(0, n)).toArray(UUID[]::new);
    Map<String, Runnable> wrong =
        Map.of(
            "after has 101 tasks", () -> Child.of("a").after(many),
            "a time, and after", () -> Child.of("a").runAt(Instant.EPOCH).after(ORDER),
            "after names no task", () -> Child.of("a").afterAny(),
            "an id that is zero", () -> Child.of("a").after(new UUID(0, 0)),
            "twice", () -> Child.of("a").after(ORDER, ORDER),
            "runs after no other",
                () -> task(ALL).addChildren("c", List.of(Child.of("a").after(ORDER))));
    wrong.forEach(
        (why, use) -> {
          String said = assertThrows(IllegalArgumentException.class, use::run).getMessage();
          assertTrue(said.contains(why), said);
        });
  }

  @Test
  void whatTheHostDoesNotSupportFailsTheTaskAlsoIfTheHandlerGoesOn() {
    Map<String, Consumer<Run>> uses =
        Map.of(
            "family", task -> task.addChildren("page", List.of(Child.of("a"))),
            "signals", task -> task.sendSignal(Signal.toKey("a", "k", "n")),
            "after", task -> task.spawn(Child.of("a").after(ORDER)));
    uses.forEach(
        (feature, use) -> {
          Set<String> features = Set.of("children", "wait", "rerun");
          Run task = task(features);
          assertThrows(PermanentException.class, () -> use.accept(task));
          Wire.Error error = answer(task, features, "done").getError();
          assertTrue(error.getPermanent() && error.getClass_().equals("unsupported"));
          Set<String> with = Set.of("children", feature);
          Run other = task(with);
          use.accept(other);
          assertFalse(answer(other, with, "done").hasError());
        });
    Set<String> waits = Set.of("wait");
    Wire.Error error = answer(task(waits), waits, WaitForChildren.of("page")).getError();
    assertTrue(error.getPermanent() && error.getClass_().equals("unsupported"));
  }

  @Test
  void whatCannotBeIsAnErrorAtOnce() {
    Run task = task(ALL);
    for (Runnable use :
        List.<Runnable>of(
            () -> task.addChildren("", List.of(Child.of("a"))),
            () -> task.addChildren("page", List.of(Child.of("a").key("k"))),
            () -> Signal.toKey("a", "", "n"),
            () -> Signal.to(ORDER, ""),
            () -> ChildrenWait.all("page").count(-1),
            () -> WaitForChildren.of(new String[0]))) {
      assertThrows(IllegalArgumentException.class, use::run);
    }
  }

  @Test
  void aTaskKnowsItsChildrenAndItsParent() {
    Wire.Run.Builder run =
        FakeHost.run(1, "t", "")
            .setTaskId(ByteString.fromHex("000102030405060708090a0b0c0d0e0f"))
            .addChildren(
                Wire.ChildSet.newBuilder()
                    .setName("pägé")
                    .setAdded(70001)
                    .setDone(1)
                    .setFailed(2)
                    .setCancelled(3)
                    .setEnded(ByteString.fromHex("0102")))
            .addChildren(
                Wire.ChildSet.newBuilder()
                    .setName("bound")
                    .setAdded(2)
                    .setShards(ByteString.fromHex("07c8")))
            .setParent(
                Wire.Parent.newBuilder().setTaskId(ORDER_BYTES).setName("örder").setIndex(7));
    Run task = new Run(run.build(), codec, new Host(ALL, 0, 0), null);
    ChildSet page = task.children().get("pägé");
    assertEquals(
        List.of(70001, 1, 2, 3, 6),
        List.of(page.added(), page.done(), page.failed(), page.cancelled(), page.ended()));
    assertTrue(page.hasEnded(0) && page.hasEnded(9));
    assertFalse(page.hasEnded(1) || page.hasEnded(8) || page.hasEnded(17));
    assertEquals("00010203-0405-8531-bd59-22ba100001e1", page.id(1).toString());
    assertEquals("00010203-0405-8531-bd59-22ba11117090", page.id(70000).toString());
    ChildSet bound = task.children().get("bound");
    assertEquals("00010203-0405-8657-a5ab-996d7000019c", bound.id(1).toString());
    assertEquals(new Parent(ORDER, "örder", 7), task.parent().orElseThrow());
    assertTrue(task(ALL).children().isEmpty() && task(ALL).parent().isEmpty());
  }
}
