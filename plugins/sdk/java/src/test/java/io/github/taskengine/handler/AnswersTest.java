package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.taskengine.handler.internal.Wire;
import io.github.taskengine.json.Json;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.json.JsonMapper;

/** What a handler returns or throws, and what the host is answered. */
class AnswersTest {
  private final Codec codec = new Codec(Json.standard());
  private Host host = new Host(Set.of("children", "rerun"), 100, 7);

  private Run task(Wire.Run.Builder run) {
    return new Run(run.build(), codec, host, null);
  }

  private Run task() {
    return task(FakeHost.run(1, "t", ""));
  }

  private Wire.Finish answer(Run task, Object outcome) {
    Wire.Finish finish = new Answers(codec, host).of(task, outcome);
    assertEquals(1, finish.getRunId());
    return finish;
  }

  private Wire.Error error(Object outcome) {
    return answer(task(), outcome).getError();
  }

  @Test
  void resultsAreResults() {
    assertEquals("text", answer(task(), "text").getResult().toStringUtf8());
    assertTrue(answer(task(), null).hasResult());
    assertEquals(7, answer(task(), new Snooze(Duration.ofNanos(6001))).getSnooze().getDelay());
    Wire.Again again = answer(task(), new Again(Instant.ofEpochSecond(2), "so far")).getAgain();
    assertEquals(2_000_000, again.getAt());
    assertEquals("so far", again.getResult().toStringUtf8());
    assertTrue(answer(task(), new Again(Instant.EPOCH)).getAgain().getResult().isEmpty());
  }

  @Test
  void anyExceptionIsAnErrorOfItsName() {
    Wire.Error error = error(new IOException("no money"));
    assertEquals("IOException", error.getClass_());
    assertTrue(error.getMessage().startsWith("java.io.IOException: no money\n\tat "));
    assertFalse(error.getPermanent() || error.hasRetryDelay());
    assertEquals("StackOverflowError", error(new StackOverflowError()).getClass_());
    assertEquals("IOException", error(new IOException() {}).getClass_());
  }

  @Test
  void errorsSayWhatHandlersKnow() {
    Wire.Error error = error(new HandlerException("no money", "funds"));
    assertEquals("funds: no money", error.getClass_() + ": " + error.getMessage());
    assertFalse(error.getPermanent() || error.hasRetryDelay());

    error = error(new PermanentException("no money"));
    assertEquals(": no money", error.getClass_() + ": " + error.getMessage());
    assertTrue(error.getPermanent());

    error = error(new RetryInException(Duration.ofSeconds(90), "no money", "funds"));
    assertEquals("funds: no money", error.getClass_() + ": " + error.getMessage());
    assertEquals(90_000_000, error.getRetryDelay());

    assertTrue(error(new RetryInException(Duration.ZERO, "now")).hasRetryDelay());
    String caused = error(new PermanentException("no", "", new IOException("why"))).getMessage();
    assertTrue(caused.startsWith("no\nCaused by: java.io.IOException: why"), caused);
  }

  @Test
  @Timeout(120)
  void anExceptionThatIsItsOwnCauseIsAnsweredAlsoWhenCancelled() {
    Exception first = new IOException("first");
    first.initCause(new IOException("second", first));
    Run task = task();
    task.cancel(new Cancellation(Cancellation.Reason.CANCELLED, "not needed"));
    assertEquals("IOException", answer(task, first).getError().getClass_());
  }

  @Test
  void aNastyExceptionIsAnswered() {
    class Nasty extends RuntimeException {
      private static final long serialVersionUID = 1L;

      @Override
      public String getMessage() {
        throw new IllegalStateException("no text either");
      }
    }

    class Endless extends PermanentException {
      private static final long serialVersionUID = 1L;

      Endless() {
        super("x");
      }

      @Override
      public String getMessage() {
        return getMessage() + "!";
      }
    }

    assertEquals("Nasty", error(new Nasty()).getClass_());
    assertEquals("Endless", error(new Endless()).getClass_());
    assertEquals("no ? money", error(new PermanentException("no \uDCFF money")).getMessage());
    assertEquals(8192, error(new PermanentException("x".repeat(10_000))).getMessage().length());
  }

  @Test
  void cancellationIsAnErrorOnlyOfATaskThatIsCancelled() {
    assertEquals("InterruptedException", error(new InterruptedException()).getClass_());
    for (Throwable thrown :
        new Throwable[] {
          new InterruptedException(),
          new CancellationException(),
          new InterruptedIOException(),
          new IllegalStateException(new InterruptedException())
        }) {
      Run task = task();
      task.cancel(new Cancellation(Cancellation.Reason.CANCELLED, "not needed"));
      Wire.Error error = answer(task, thrown).getError();
      assertEquals("cancelled", error.getClass_());
      assertEquals("cancelled: not needed", error.getMessage());
    }
    Run task = task();
    task.cancel(new Cancellation(Cancellation.Reason.CANCELLED, "not needed"));
    assertEquals("IOException", answer(task, new IOException()).getError().getClass_());
  }

  @Test
  void whatCannotBeEncodedIsAPermanentErrorForTheWorkIsDone() {
    Object nasty =
        new Object() {
          @SuppressWarnings("unused")
          public Object getSelf() {
            throw new IllegalStateException("not now");
          }
        };
    List<Object> cyclic = new ArrayList<>();
    cyclic.add(cyclic);
    for (Object value :
        List.of(
            nasty,
            cyclic,
            Double.NaN,
            Map.of("a", Float.POSITIVE_INFINITY),
            new double[] {1, Double.NaN},
            new float[] {Float.NaN},
            new JsonMapper().createObjectNode().put("a", Double.NaN),
            "\ud800")) {
      for (Object outcome :
          List.of(
              value,
              new Again(Instant.EPOCH, value),
              new Again(Instant.EPOCH).withPayload(value),
              new Again(Instant.EPOCH).withCheckpoint(value))) {
        Wire.Error error = error(outcome);
        assertEquals("bad_result", error.getClass_(), error.getMessage());
        assertTrue(error.getPermanent());
      }
      PermanentException thrown =
          assertThrows(PermanentException.class, () -> task().spawn(Child.of("a").payload(value)));
      assertEquals("bad_result", thrown.errorClass());
    }
    assertEquals("[1.5,2.0]", answer(task(), new double[] {1.5, 2}).getResult().toStringUtf8());
  }

  @Test
  void anExceptionThatIsNoneOfThePackageIsInDoubt() {
    for (Throwable thrown :
        List.of(
            new IOException("no answer"),
            new StackOverflowError(),
            new InDoubtException("no answer"))) {
      assertTrue(error(thrown).getInDoubt(), thrown.toString());
    }
    for (Throwable thrown :
        List.of(
            new HandlerException("no", "funds"),
            new PermanentException("no"),
            new RetryInException(Duration.ofSeconds(5), "no"))) {
      assertFalse(error(thrown).getInDoubt(), thrown.toString());
    }
    Wire.Error late =
        answer(task(FakeHost.run(1, "t", "").setTimeLeft(-1)), new PermanentException("no"))
            .getError();
    assertTrue(late.getInDoubt());
    assertEquals("timeout", error(new InDoubtException("no answer", "timeout")).getClass_());
  }

  @Test
  void resultsThatAreTooLargeArePermanentErrors() {
    assertTrue(answer(task(), new byte[100]).hasResult());
    for (Object outcome : new Object[] {new byte[101], new Again(Instant.EPOCH, new byte[101])}) {
      Wire.Error error = error(outcome);
      assertEquals("result_too_large", error.getClass_());
      assertEquals(
          "the result has 101 bytes, max_result of the type allows 100", error.getMessage());
      assertTrue(error.getPermanent());
    }
    Run task = task();
    task.spawn(Child.of("t").payload(new byte[101]));
    assertEquals("result_too_large", answer(task, null).getError().getClass_());
    host = new Host(Set.of(), 0, 0);
    assertTrue(answer(task(), new byte[1000]).hasResult(), "no limit");
  }

  @Test
  void childrenGoWithSuccess() {
    Run task = task();
    task.spawn(
        Child.of("mail")
            .key("k")
            .orderingKey("o")
            .payload(Map.of("a", 1))
            .headers(Map.of("h", "v"))
            .runAt(Instant.ofEpochSecond(1))
            .priority(0));
    task.spawn(Child.of("mail"));
    Wire.Finish finish = answer(task, "done");
    assertEquals(
        Wire.Finish.newBuilder()
            .setRunId(1)
            .setResult(ByteString.copyFromUtf8("done"))
            .addChildren(
                Wire.Child.newBuilder()
                    .setType("mail")
                    .setKey("k")
                    .setOrderingKey("o")
                    .setPayload(ByteString.copyFromUtf8("{\"a\":1}"))
                    .putHeaders("h", "v")
                    .setRunAt(1_000_000)
                    .setPriority(0))
            .addChildren(Wire.Child.newBuilder().setType("mail"))
            .build(),
        finish);
  }

  @Test
  void aTaskRunsAgainWithAPayloadAndACheckpoint() {
    Instant at = Instant.ofEpochSecond(1);
    Wire.Again.Builder wanted = Wire.Again.newBuilder().setAt(1_000_000);
    assertEquals(wanted.build(), answer(task(), new Again(at)).getAgain());
    assertEquals(
        wanted.clone().setPayload(ByteString.EMPTY).build(),
        answer(task(), new Again(at).withPayload("")).getAgain());
    byte[] checkpoint = new byte[1 << 20];
    assertEquals(
        wanted
            .setResult(ByteString.copyFromUtf8("r"))
            .setPayload(ByteString.copyFromUtf8("{\"a\":1}"))
            .setCheckpoint(ByteString.copyFrom(checkpoint))
            .build(),
        answer(task(), new Again(at, "r").withPayload(Map.of("a", 1)).withCheckpoint(checkpoint))
            .getAgain());
  }

  @Test
  void aTaskThatCannotRunAgainAsAskedFailsForGood() {
    Again again = new Again(Instant.EPOCH);
    assertFailed("payload_too_large", again.withPayload(new byte[8]));
    assertFailed("checkpoint_too_large", again.withCheckpoint(new byte[(1 << 20) + 1]));
    host = new Host(Set.of("checkpoint"), 0, 0);
    assertFailed("unsupported", again.withPayload(""));
    assertFailed("unsupported", again.withCheckpoint(""));
  }

  @Test
  void aHandlerThatHasEndedItsAttemptSaysSo() {
    host = new Host(Set.of("ended"), 0, 0);
    assertTrue(answer(task(), new Ended()).hasEnded());
    host = new Host(Set.of("rerun"), 0, 0);
    Wire.Error error = error(new Ended());
    assertEquals("unsupported", error.getClass_());
    assertFalse(error.getPermanent());
  }

  private void assertFailed(String errorClass, Object outcome) {
    Wire.Error error = answer(task(), outcome).getError();
    assertEquals(errorClass, error.getClass_());
    assertTrue(error.getPermanent());
  }

  @Test
  void childrenDoNotGoWithFailureOrASnooze() {
    for (Object outcome : new Object[] {new IOException(), new Snooze(Duration.ZERO)}) {
      Run task = task();
      task.spawn(Child.of("mail"));
      Wire.Finish finish = answer(task, outcome);
      assertEquals(0, finish.getChildrenCount());
    }
  }

  @Test
  void childrenAreNeverDropped() {
    host = new Host(Set.of(), 100, 7);
    Run parent = task();
    parent.spawn(Child.of("mail"));
    Wire.Finish finish = answer(parent, null);
    assertEquals("unsupported", finish.getError().getClass_());
    assertTrue(finish.getError().getPermanent());
    assertEquals(0, finish.getChildrenCount());
  }
}
