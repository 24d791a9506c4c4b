package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Children, trees, signals and workflows of the client against a real node. */
@EnabledIfEnvironmentVariable(named = TestNode.PROGRAM, matches = ".+")
class TreesTest {
  private static final String DEFINITION =
      """
      {"steps": {
        "say": {"type": "echo", "payload": {"$input": ""}, "compensate": {"type": "echo"}},
        "wait": {"after": ["say"], "wait": {"signal": "go", "timeout": "1h"}}
      }, "output": {"$result": "say"}}
      """;

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

  private static Children children(String type, int count) {
    return Children.of(
        IntStream.range(0, count).mapToObj(i -> Request.of(type).payload(i)).toList());
  }

  @Test
  void aTaskIsSubmittedWithItsChildren() {
    Request request = Request.of("echo").payload("all").key(UUID.randomUUID().toString());
    Receipt receipt = client.submitWithChildren(request, children("echo", 2).name("page"));
    assertTrue(receipt.created());
    Receipt again = client.submitWithChildren(request, children("echo", 1).name("page"));
    assertEquals(List.of(receipt.id(), false), List.of(again.id(), again.created()));
    assertEquals("all", client.within(PATIENCE).result(receipt.id(), String.class));
    assertTrue(client.submitWithChildren(Request.of("echo"), children("echo", 0)).created());
    for (Request wrong :
        List.of(Request.of("echo").key("k"), Request.of("echo").id(UUID.randomUUID()))) {
      Children one = Children.of(List.of(wrong));
      assertThrows(
          InvalidException.class, () -> client.submitWithChildren(Request.of("echo"), one));
    }
    Children few = children("echo", 1).count(2);
    assertThrows(InvalidException.class, () -> client.submitWithChildren(Request.of("echo"), few));
  }

  @Test
  void aListThatFitsIntoOneRequestClosesOpenChildren() {
    Request request = Request.of("echo").key(UUID.randomUUID().toString());
    Request wrong = Request.of("idle").key("k");
    List<Request> all = children("idle", 10000).requests();
    Children more = Children.of(Stream.concat(all.stream(), Stream.of(wrong)).toList());
    assertThrows(InvalidException.class, () -> client.submitWithChildren(request, more));
    Receipt receipt = client.submitWithChildren(request, Children.of(all).count(7));
    assertFalse(receipt.created());
    assertEquals(
        List.of(new ChildSet("child", 10000, 0, 0, 0, 7, false, false)),
        client.get(receipt.id()).children());
    assertEquals(10001, client.cancelTree(receipt.id(), "").cancelled());
  }

  @Test
  void moreChildrenThanARequestMayHaveAreAddedInSeveral() {
    Request request = Request.of("echo").key(UUID.randomUUID().toString());
    Request echo = Request.of("echo");
    Children many =
        Children.of(
                Stream.concat(Stream.of(echo), children("idle", 10001).requests().stream())
                    .toList())
            .name("page")
            .count(1);
    Receipt receipt = client.submitWithChildren(request, many);
    Receipt again = client.submitWithChildren(request, many);
    assertEquals(
        List.of(true, false, receipt.id()),
        List.of(receipt.created(), again.created(), again.id()));
    Task ended = client.within(PATIENCE).await(receipt.id());
    ChildSet set = ended.children().get(0);
    assertEquals(List.of("done", 10002, false), List.of(ended.state(), set.added(), set.isOpen()));
    assertEquals(10001, client.cancelTree(receipt.id(), "").cancelled());
  }

  @Test
  void aTreeIsReadAndCancelled() {
    Instant until = Instant.now().plus(1, ChronoUnit.HOURS).truncatedTo(ChronoUnit.MICROS);
    Children many = children("idle", 1001).count(7).orFailed().until(until);
    String root = client.submitWithChildren(Request.of("echo"), many).id();
    List<TreeTask> tree = client.tree(root).toList();
    assertEquals(0, tree.get(0).depth());
    assertEquals(Collections.nCopies(1001, 1), tree.stream().skip(1).map(TreeTask::depth).toList());
    assertEquals(
        IntStream.range(0, 1001).mapToObj(i -> new Parent(root, "child", i)).toList(),
        tree.stream().skip(1).map(t -> t.task().parent()).toList());
    Task above = tree.get(0).task();
    assertEquals(List.of(new ChildSet("child", 1001, 0, 0, 0, 7, true, false)), above.children());
    assertEquals(List.of("taskengine.children"), above.awaits());
    assertEquals(until, above.nextEventAt());
    assertNull(above.parent());
    CancelledTree cancelled = client.cancelTree(root, "no need");
    assertEquals(
        List.of("cancelled", "no need"),
        List.of(cancelled.task().state(), cancelled.task().error()));
    assertEquals(List.of(1002L, 0L), List.of(cancelled.cancelled(), cancelled.missing()));
    assertEquals(0, client.cancelTree(root, "").cancelled());
    String missing = UUID.randomUUID().toString();
    assertThrows(NotFoundException.class, () -> client.tree(missing).count());
    assertThrows(NotFoundException.class, () -> client.cancelTree(missing, ""));
  }

  @Test
  void aSignalIsSentOnce() {
    String key = UUID.randomUUID().toString();
    String id = client.submit(Request.of("idle").key(key).orderingKey(key)).id();
    assertEquals("dropped", client.signal(Signal.to(id, "paid")).outcome());
    Signal paid = Signal.toKey("idle", key, "paid").orderingKey(key).data(Map.of("cents", 5));
    Signal kept = paid.keep().id(UUID.randomUUID());
    for (String outcome : List.of("kept", "repeated")) {
      Signaled got = client.signal(kept);
      assertEquals(List.of(outcome, id), List.of(got.outcome(), got.task().id()));
    }
    List<ReceivedSignal> signals = client.get(id).keptSignals();
    assertEquals(List.of("paid"), signals.stream().map(ReceivedSignal::name).toList());
    assertEquals("{\"cents\":5}", new String(signals.get(0).data(), StandardCharsets.UTF_8));
    assertNotNull(signals.get(0).at());
    Signal nobody = Signal.to(UUID.randomUUID().toString(), "paid");
    assertThrows(NotFoundException.class, () -> client.signal(nobody));
    assertThrows(InvalidException.class, () -> client.signal(Signal.to(id, "x".repeat(101))));
    assertThrows(InvalidException.class, () -> client.signal(Signal.to(id, "\ud800")));
    assertThrows(IllegalArgumentException.class, () -> Signal.to("", "paid"));
  }

  /** The workflow with a key, when it is as wanted. */
  private static Workflow when(String key, Predicate<Workflow> is) throws InterruptedException {
    for (Instant end = Instant.now().plus(PATIENCE); ; Thread.sleep(5)) {
      Workflow found = client.workflows().find(key);
      if (is.test(found)) {
        return found;
      }
      assertTrue(Instant.now().isBefore(end), found.toString());
    }
  }

  @Test
  void aWorkflowIsSubmittedReadAndRetried() throws Exception {
    Workflows workflows = client.workflows();
    String key = UUID.randomUUID().toString();
    WorkflowRequest request =
        WorkflowRequest.of(DEFINITION).input(List.of(7)).key(key).headers(Map.of("h", "v"));
    Receipt receipt = workflows.submit(request);
    assertTrue(receipt.created());
    Receipt again = workflows.submit(request);
    assertEquals(List.of(receipt.id(), false), List.of(again.id(), again.created()));
    Workflow waits = when(key, w -> w.steps().get(1).state().equals("running"));
    assertEquals(receipt.id(), waits.task().id());
    assertEquals(Map.of("h", "v"), waits.task().headers());
    WorkflowStep say = waits.steps().get(0);
    assertEquals(
        List.of("say", "echo", "done", 1, 1),
        List.of(say.name(), say.type(), say.state(), say.count(), say.done()));
    assertEquals(1, say.taskIds().size());
    assertNotNull(say.ended());
    WorkflowStep last = waits.steps().get(1);
    assertEquals(List.of("go", List.of("say")), List.of(last.signal(), last.after()));
    assertNotNull(last.until());
    assertNull(last.ended());
    assertThrows(NotAllowedException.class, () -> workflows.retry(receipt.id()));
    assertEquals(1, client.cancelTree(receipt.id(), "no need").cancelled());
    assertThrows(ConflictException.class, () -> workflows.retry(receipt.id(), "", 1));
    assertEquals(1, workflows.retry(receipt.id(), "say", 0).retries());
    client.signal(Signal.to(receipt.id(), "go").keep());
    Workflow done = when(key, w -> w.task().state().equals("done"));
    assertEquals("[7]", done.output());
    assertEquals(done.output(), workflows.get(receipt.id()).output());
  }

  @Test
  void aWorkflowIsThatOfTheConfiguration() throws Exception {
    Workflows workflows = client.workflows();
    String key = UUID.randomUUID().toString();
    String id = workflows.submit(WorkflowRequest.named("say").input("[8]").key(key)).id();
    Workflow done = when(key, w -> w.task().state().equals("done"));
    assertEquals(List.of("say", "[8]", id), List.of(done.name(), done.output(), done.task().id()));
    Instant at = Instant.parse("2100-01-01T00:00:00Z");
    WorkflowRequest later = WorkflowRequest.named("say").priority(2).at(at).id(UUID.randomUUID());
    Task task = workflows.get(workflows.submit(later).id()).task();
    assertEquals(List.of(later.id(), 2, at), List.of(task.id(), task.priority(), task.readyAt()));
    String missing = UUID.randomUUID().toString();
    assertThrows(NotFoundException.class, () -> workflows.get(missing));
    WorkflowRequest unknown = WorkflowRequest.named("none");
    assertThrows(NotFoundException.class, () -> workflows.submit(unknown));
    for (WorkflowRequest wrong :
        List.of(
            WorkflowRequest.of("{"),
            WorkflowRequest.named("say").input(new byte[] {(byte) 0xff}))) {
      assertThrows(InvalidException.class, () -> workflows.submit(wrong), wrong::toString);
    }
    assertThrows(IllegalArgumentException.class, () -> WorkflowRequest.named(""));
  }

  @Test
  void childrenAreLeftOpenAddedAndClosed() {
    Request task = Request.of("echo").payload("1").key(UUID.randomUUID().toString());
    Receipt opened = client.submitOpen(task, echoes(2));
    Receipt again = client.submitOpen(task, echoes(2));
    assertEquals(List.of(true, false), List.of(opened.created(), again.created()));
    assertEquals(opened.id(), again.id());
    int[][] steps = {{2, 0, 2}, {0, 0, 2}, {2, 3, 5}, {2, 3, 5}, {4, 2, 6}, {6, 10_001, 10_007}};
    for (int[] step : steps) { // from, how many, and how many there are then
      Children some = step[0] < 6 ? echoes(step[1]) : idle(step[1]);
      ChildrenAdded added = client.addChildren(opened.id(), step[0], some);
      assertEquals(new ChildrenAdded(step[2], true), added);
    }
    assertTrue(client.get(opened.id()).children().get(0).isOpen());
    for (int i = 0; i < 2; i++) {
      ChildrenAdded closed = client.closeChildren(opened.id(), 10_006, idle(2).count(6));
      assertEquals(new ChildrenAdded(10_008, false), closed);
      assertEquals(
          "done", client.within(PATIENCE).await(opened.id()).state()); // for the repetition
    }
    client.cancelTree(opened.id(), "");
    Instant later = Instant.now().plusSeconds(3600);
    Receipt many = client.submitOpen(Request.of("idle"), idle(10_001).until(later));
    assertEquals(10_001, client.addChildren(many.id(), 0, echoes(0)).added());
    assertFalse(client.closeChildren(many.id(), 10_001, echoes(0).orFailed()).isOpen());
    client.cancelTree(many.id(), "");
  }

  private static Children idle(int count) {
    return Children.of(Collections.nCopies(count, Request.of("idle"))).name("page");
  }

  private static Children echoes(int count) {
    return Children.of(Collections.nCopies(count, Request.of("echo"))).name("page");
  }

  @Test
  void whyChildrenAreRefusedIsAnExceptionOfItsOwn() {
    Children none = Children.of(List.of());
    Children one = Children.of(List.of(Request.of("idle")));
    String closed = client.submitOpen(Request.of("echo"), none).id();
    String ended = client.submitOpen(Request.of("echo"), none).id();
    String other = client.submitOpen(Request.of("echo"), none).id();
    client.closeChildren(closed, 0, one);
    client.cancelTree(ended, "");
    assertThrows(ChildrenClosedException.class, () -> client.addChildren(closed, 1, one));
    assertThrows(TaskEndedException.class, () -> client.addChildren(ended, 0, one));
    assertThrows(TooManyChildrenException.class, () -> client.addChildren(other, 1 << 20, one));
    NotAllowedException early =
        assertThrows(NotAllowedException.class, () -> client.addChildren(other, 1, one));
    assertEquals(NotAllowedException.class, early.getClass());
    String nothing = UUID.randomUUID().toString();
    assertThrows(NotFoundException.class, () -> client.addChildren(nothing, 0, one));
    assertThrows(InvalidException.class, () -> client.addChildren(other, -1, none));
    assertThrows(InvalidException.class, () -> client.addChildren(other, 0, one.count(1)));
    assertThrows(InvalidException.class, () -> client.submitOpen(Request.of("echo"), one.count(1)));
    Children late = one.until(Instant.now());
    assertThrows(InvalidException.class, () -> client.closeChildren(other, 0, late));
    client.cancelTree(other, "");
  }
}
