package io.github.taskengine.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.taskengine.client.internal.Api;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What is sent when, and which outcome is of what: without a node. */
class FlowTest {
  private final Flow flow = new Flow();
  private final List<String> landed = new ArrayList<>();

  private Submission add(String id, int size, boolean isOwn, long end) {
    byte[] message =
        Api.NewTask.newBuilder()
            .setId(id)
            .setPayload(ByteString.copyFrom(new byte[size]))
            .build()
            .toByteArray();
    Submission s = new Submission(message, id, isOwn, end);
    s.whenComplete((r, e) -> landed.add(id + " " + (e == null ? r.created() : kind(e))));
    flow.add(s);
    return s;
  }

  private static String kind(Throwable e) {
    return e.getClass().getSimpleName();
  }

  private Submission add(String id) {
    return add(id, 1, true, System.nanoTime() + Deadline.NEVER);
  }

  private void addAll(String... ids) {
    Arrays.stream(ids).forEach(this::add);
  }

  private void addMany(int count) {
    IntStream.range(0, count).forEach(i -> add("" + i));
  }

  /** The ids of the next message. */
  private List<String> sent() throws Exception {
    byte[] message = flow.nextMessage();
    return message == null
        ? List.of()
        : Api.SubmitStreamRequest.parseFrom(message).getTasksList().stream()
            .map(t -> t.getTask().getId())
            .toList();
  }

  private static Api.SubmitOutcome receipt(long sequence, String id, boolean created) {
    Api.Receipt receipt =
        Api.Receipt.newBuilder()
            .setId(id)
            .setCreated(created)
            .setOutcome(created ? "created" : "existing")
            .build();
    return Api.SubmitOutcome.newBuilder().setSequence(sequence).setReceipt(receipt).build();
  }

  private static Api.SubmitOutcome error(long sequence, String code, String full) {
    Api.SubmitError error =
        Api.SubmitError.newBuilder().setCode(code).setMessage("no").setFull(full).build();
    return Api.SubmitOutcome.newBuilder().setSequence(sequence).setError(error).build();
  }

  private boolean resolve(Api.SubmitOutcome... outcomes) {
    return flow.resolve(
        "n", Api.SubmitStreamResponse.newBuilder().addAllOutcomes(Arrays.asList(outcomes)).build());
  }

  @Test
  void aMessageHasAtMost1000TasksAndAMebibyte() throws Exception {
    addMany(1500);
    assertEquals(List.of(1000, 500), List.of(sent().size(), sent().size()));
    long never = System.nanoTime() + Deadline.NEVER;
    List.of("a", "b", "c").forEach(id -> add(id, Flow.MESSAGE_BYTES / 2 - 100, true, never));
    add("d", 2 * Flow.MESSAGE_BYTES, true, never);
    assertEquals(
        List.of(List.of("a", "b"), List.of("c"), List.of("d")), List.of(sent(), sent(), sent()));
  }

  @Test
  void itSendsNoMoreWhile4000HaveNoOutcome() throws Exception {
    addMany(Flow.MOST_SENT + 1);
    for (int i = 0; i < Flow.MOST_SENT / Flow.MESSAGE_TASKS; i++) {
      sent();
    }
    assertFalse(flow.canSend());
    assertEquals(List.of(), sent());
    resolve(receipt(17, "16", true));
    assertTrue(flow.canSend());
    assertEquals(List.of("" + Flow.MOST_SENT), sent());
    assertEquals(List.of("16 true"), landed);
  }

  @Test
  void whatHasNoOutcomeIsSentAgainFirstAndInItsOrder() throws Exception {
    addAll("a", "b", "c");
    sent();
    add("d");
    resolve(receipt(2, "b", true));
    flow.endStream();
    assertEquals(List.of("a", "c", "d"), sent());
  }

  @Test
  void whatWasAbandonedIsNotSent() throws Exception {
    Submission a = add("a");
    Submission b = add("b");
    a.cancel(false);
    assertEquals(List.of("b"), sent());
    b.land(flow.lateness());
    flow.endStream();
    assertEquals(List.of(), sent());
    assertEquals(List.of("a CancellationException", "b DeadlineExceededException"), landed);
  }

  @Test
  void whatIsLateEndsWhetherItWasSentOrNot() throws Exception {
    long now = System.nanoTime();
    add("a", 1, true, now + 10);
    add("b", 1, true, now + 20);
    sent();
    add("c", 1, true, now + 10);
    add("d", 1, true, now + 30);
    assertEquals(20, flow.expire(now + 10) - now);
    assertEquals(List.of("c DeadlineExceededException", "a DeadlineExceededException"), landed);
    flow.failed(Failure.unavailable("gone", "n"));
    assertTrue(flow.expire(now + 30) - now >= Deadline.NEVER);
    assertEquals("d UnavailableException", landed.get(2));
    assertEquals("b UnavailableException", landed.get(3));
  }

  @Test
  void anOutcomeThatIsNotFinalIsAskedForAgain() throws Exception {
    addAll("a", "b", "c");
    sent();
    assertFalse(
        resolve(
            error(1, "resource_exhausted", "waited"), error(2, "resource_exhausted", "backlog")));
    assertTrue(resolve(error(3, "unavailable", "")));
    assertEquals(List.of("b BacklogFullException"), landed);
    assertEquals(List.of("a", "c"), sent());
  }

  @Test
  void aTaskThatAnEarlierTryHasAddedCountsAsCreated() throws Exception {
    addAll("a", "b");
    add("c", 1, false, System.nanoTime() + Deadline.NEVER);
    sent();
    resolve(receipt(1, "a", false), receipt(2, "other", false), receipt(3, "c", false));
    assertEquals(List.of("a true", "b false", "c false"), landed);
  }

  @Test
  void aNodeThatStopsIsLeftAndOutcomesThatNothingWaitsForAreIgnored() {
    assertTrue(flow.resolve("n", Api.SubmitStreamResponse.newBuilder().setStopping(true).build()));
    assertFalse(resolve(receipt(99, "x", true), error(98, "unavailable", "")));
    assertEquals(List.of(), landed);
  }

  @Test
  void whatIsRefusedHasItsOwnException() throws Exception {
    Submission a = add("a");
    sent();
    Submission b = add("b");
    flow.refuse(Failure.closed("the client is closed"));
    assertTrue(flow.isEmpty());
    Throwable[] why =
        List.of(a, b).stream()
            .map(s -> assertThrows(CompletionException.class, s::join).getCause())
            .toArray(Throwable[]::new);
    assertEquals("ClosedException", kind(why[0]));
    assertEquals("ClosedException", kind(why[1]));
    assertTrue(why[0] != why[1]); // each has the stack of its own caller
  }

  @Test
  void anErrorSaysWhichNodeHasAnswered() {
    ClientException e = Failure.ofCode("aborted", "no", "10.0.0.1:7420", "").exception();
    assertEquals("ConflictException", kind(e));
    assertEquals("the node at 10.0.0.1:7420: no", e.getMessage());
    assertEquals("aborted", e.code());
    assertEquals("10.0.0.1:7420", e.address());
    assertEquals("InternalException", kind(Failure.ofCode("odd", "", "", "").exception()));
    assertNull(Failure.ofRefusal(new Receipt("a", false, "existing")));
  }

  @Test
  void pausesGrowAndAreThoseOfNoOtherClient() {
    List<Long> one = pauses();
    long most = Pause.FIRST;
    for (long pause : one) {
      assertTrue(most / 2 <= pause && pause <= most, one::toString);
      most = Math.min(2 * most, Pause.MOST);
    }
    assertFalse(one.equals(pauses()));
  }

  private static List<Long> pauses() {
    Pause pause = new Pause();
    return IntStream.range(0, 12).mapToObj(i -> pause.next()).toList();
  }

  @Test
  void aTimeoutWithoutEndIsOne() {
    long never = Deadline.nanos(java.time.Duration.ofSeconds(Long.MAX_VALUE));
    assertEquals(Deadline.NEVER, never);
    assertTrue(Deadline.after(never).left() > TimeUnit.DAYS.toNanos(10_000));
    assertTrue(Deadline.after(Deadline.nanos(java.time.Duration.ofSeconds(-1))).isOver());
  }
}
