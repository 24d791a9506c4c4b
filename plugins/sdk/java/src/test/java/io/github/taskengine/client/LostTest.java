package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static io.github.taskengine.client.TestNode.freeAddress;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/**
 * Answers that are lost, nodes that are killed, and addresses at which no node answers any longer.
 */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class LostTest {
  /** Bytes of answers: the node has carried out the request, and its answer is larger. */
  private static final List<Integer> LIMITS = List.of(160, 180, 200, 220, 240, 260);

  private static TaskengineClient open(String... addresses) {
    return TaskengineClient.to(addresses).timeout(PATIENCE).open();
  }

  private static List<String> idsOf(TaskengineClient client, String type) {
    return client.tasks(TaskFilter.all().types(type)).map(Task::id).sorted().toList();
  }

  private static List<String> sorted(Collection<Receipt> receipts) {
    return receipts.stream().map(Receipt::id).sorted().toList();
  }

  @Test
  void aSubmitWhoseAnswerIsLostAddsOneTask() throws Exception {
    String type = "lost-" + UUID.randomUUID();
    long seed = new Random().nextLong();
    List<Integer> limits = new Random(seed).ints(20, 500, 4000).boxed().toList();
    try (TestNode node = new TestNode();
        Lossy wire = new Lossy(node.address(), limits);
        TaskengineClient client = open(wire.address());
        TaskengineClient direct = open(node.address())) {
      Queue<Receipt> receipts = new ConcurrentLinkedQueue<>();
      ExecutorService pool = Executors.newFixedThreadPool(8);
      List<Future<?>> running = new ArrayList<>();
      for (int i = 0; i < 400; i++) {
        Request request = Request.of(type).payload(i);
        running.add(pool.submit(() -> receipts.add(client.submit(request))));
      }
      for (Future<?> one : running) {
        one.get();
      }
      pool.shutdown();
      assertTrue(receipts.stream().allMatch(Receipt::created), () -> "seed " + seed);
      assertTrue(wire.lost.get() > 0, () -> "seed " + seed);
      assertEquals(sorted(receipts), idsOf(direct, type), () -> "seed " + seed);
    }
  }

  @Test
  void tasksThatAreAddedTogetherAreAddedOnceIfTheAnswerIsLost() throws Exception {
    try (TestNode node = new TestNode();
        Lossy wire = new Lossy(node.address(), List.of(300, 300)); // less than 100 receipts have
        TaskengineClient client = open(wire.address());
        TaskengineClient direct = open(node.address())) {
      List<Receipt> receipts =
          client.submitAll(IntStream.range(0, 100).mapToObj(i -> Request.of("idle")).toList());
      assertTrue(receipts.stream().allMatch(Receipt::created));
      assertEquals(2, wire.lost.get());
      assertEquals(sorted(receipts), idsOf(direct, "idle"));
    }
  }

  @Test
  void aTaskIsAddedWithItsChildrenOnceIfTheAnswerIsLost() throws Exception {
    try (TestNode node = new TestNode();
        Lossy wire = new Lossy(node.address(), LIMITS);
        TaskengineClient client = open(wire.address());
        TaskengineClient direct = open(node.address())) {
      for (int i = 0; i < 3; i++) {
        Request request = Request.of("children-" + UUID.randomUUID());
        Receipt receipt =
            client.submitWithChildren(request, Children.of(List.of(request, request)));
        assertEquals(List.of(true, "created"), List.of(receipt.created(), receipt.outcome()));
        assertEquals(3, idsOf(direct, request.type()).size());
      }
      assertTrue(wire.lost.get() > 0);
    }
  }

  @Test
  void aWorkflowIsAddedOnceIfTheAnswerIsLost() throws Exception {
    try (TestNode node = new TestNode();
        Lossy wire = new Lossy(node.address(), LIMITS);
        TaskengineClient client = open(wire.address());
        TaskengineClient direct = open(node.address())) {
      List<Receipt> receipts = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        Object definition = Map.of("steps", Map.of("say", Map.of("type", "echo")));
        WorkflowRequest later = WorkflowRequest.of(definition).delay(Duration.ofHours(1));
        receipts.add(client.workflows().submit(later));
      }
      assertTrue(receipts.stream().allMatch(Receipt::created));
      assertTrue(wire.lost.get() > 0);
      assertEquals(sorted(receipts), idsOf(direct, "taskengine.workflow"));
    }
  }

  @Test
  void aTaskGetsASignalOnceIfTheAnswerIsLost() throws Exception {
    try (TestNode node = new TestNode();
        Lossy wire = new Lossy(node.address(), List.of(2000, 2000)); // less than the answer has
        TaskengineClient client = open(wire.address());
        TaskengineClient direct = open(node.address())) {
      Request request = Request.of("idle").headers(Map.of("long", "x".repeat(4000)));
      String id = direct.submit(request).id();
      assertEquals("repeated", client.signal(Signal.to(id, "paid").keep()).outcome());
      assertEquals(2, wire.lost.get());
      assertEquals(1, direct.get(id).keptSignals().size());
    }
  }

  @Test
  void aCallThatIsNotRepeatedIsMadeWhereANodeAnswers() throws Exception {
    try (TestNode node = new TestNode();
        Lossy first = new Lossy(node.address(), List.of());
        Lossy second = new Lossy(node.address(), List.of());
        TaskengineClient client = open(first.address(), second.address())) {
      String id = client.submit(Request.of("idle")).id();
      first.stop();
      assertEquals("cancelled", client.cancel(id, "").state());
    }
  }

  @Test
  void anotherAddressIsUsedWhenOneNoLongerAnswers() throws Exception {
    try (TestNode node = new TestNode();
        Lossy first = new Lossy(node.address(), List.of());
        Lossy second = new Lossy(node.address(), List.of())) {
      String[] addresses = {freeAddress(), first.address(), second.address(), node.address()};
      try (TaskengineClient submits = open(addresses);
          TaskengineClient reads = open(addresses)) {
        for (Lossy wire : Arrays.asList(first, second, null)) {
          Receipt receipt = submits.submit(Request.of("idle"));
          assertTrue(receipt.created());
          assertEquals("submitted", reads.get(receipt.id()).state());
          if (wire != null) {
            wire.stop();
          }
        }
      }
    }
  }

  /** Submits until it is ended. */
  private static final class Load {
    private final Queue<Receipt> accepted = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean isOver = new AtomicBoolean();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final List<CompletableFuture<Void>> running = new ArrayList<>();
    private final TaskengineClient client;

    Load(TaskengineClient client, int inFlight) {
      this.client = client;
      for (int i = 0; i < inFlight; i++) {
        CompletableFuture<Void> over = new CompletableFuture<>();
        running.add(over);
        next(over);
      }
    }

    private void next(CompletableFuture<Void> over) {
      client
          .submitAsync(Request.of("idle"))
          .whenCompleteAsync(
              (receipt, e) -> {
                if (e != null || !receipt.created()) {
                  failure.set(e == null ? new AssertionError(receipt.toString()) : e);
                  over.complete(null);
                  return;
                }
                accepted.add(receipt);
                if (isOver.get()) {
                  over.complete(null);
                } else {
                  next(over);
                }
              });
    }

    /** Waits until so many more were accepted. */
    void more(int count) throws InterruptedException {
      for (int before = accepted.size(); accepted.size() < before + count; ) {
        if (failure.get() != null) {
          throw new AssertionError(failure.get());
        }
        TimeUnit.MILLISECONDS.sleep(2);
      }
    }

    /** Returns the ids of what was accepted. */
    List<String> end() {
      isOver.set(true);
      running.forEach(CompletableFuture::join);
      if (failure.get() != null) {
        throw new AssertionError(failure.get());
      }
      return sorted(accepted);
    }
  }

  @Test
  void aNodeThatIsKilledUnderLoadLosesAndDoublesNothing() throws Exception {
    try (TestNode node = new TestNode(freeAddress());
        TaskengineClient client = open(node.address())) {
      Load load = new Load(client, 64);
      for (int i = 0; i < 4; i++) {
        load.more(200);
        node.kill();
        node.start();
      }
      assertEquals(load.end(), idsOf(client, "idle"));
    }
  }

  @Test
  void aNodeThatStopsInOrderHandsItsSubmitsOver() throws Exception {
    String[] addresses = {freeAddress(), freeAddress()};
    try (TestNode node = new TestNode(addresses[0]);
        TaskengineClient client = open(addresses)) {
      Load load = new Load(client, 8);
      for (int next : new int[] {1, 0, 1}) {
        load.more(50);
        node.stop();
        node.startAt(addresses[next]);
      }
      load.more(50);
      assertEquals(load.end(), idsOf(client, "idle"));
    }
  }

  @Test
  void aWaitLastsOverTheDeathOfItsNode() throws Exception {
    try (TestNode node = new TestNode(freeAddress());
        TaskengineClient client = open(node.address())) {
      String id = client.submit(Request.of("idle")).id();
      CompletableFuture<Task> waiting =
          CompletableFuture.supplyAsync(() -> client.within(PATIENCE).await(id));
      node.kill();
      node.start();
      client.cancel(id, "");
      assertEquals("cancelled", waiting.join().state());
    }
  }
}
