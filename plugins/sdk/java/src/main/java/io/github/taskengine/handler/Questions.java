package io.github.taskengine.handler;

import io.github.taskengine.handler.internal.Wire;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;

/** The checks of a run that the host has not answered. Any thread may use it. */
final class Questions {
  private final long runId;

  // Guarded by this.
  private final Map<Long, Question> open = new LinkedHashMap<>(); // by their numbers
  private long last; // number
  private boolean over; // no answers come

  private record Question(Wire.Check check, CompletableFuture<List<Refusal>> answer) {}

  Questions(long runId) {
    this.runId = runId;
  }

  /** Sends a check of some tasks, and waits for the answer, also if the thread is interrupted. */
  List<Refusal> ask(String set, List<Wire.Child> children, Consumer<Wire.Check> send) {
    CompletableFuture<List<Refusal>> answer = new CompletableFuture<>();
    synchronized (this) {
      if (over) {
        throw unknown("the attempt is over");
      }
      last++;
      Wire.Check check =
          Wire.Check.newBuilder()
              .setRunId(runId)
              .setNumber(last)
              .setSet(set)
              .addAllChildren(children)
              .build();
      open.put(last, new Question(check, answer));
      send.accept(check);
    }
    try {
      return answer.join();
    } catch (CompletionException e) {
      throw e.getCause() instanceof NotCheckedException why ? why : e;
    }
  }

  /** Those that are to be sent again when a worker connects again. */
  synchronized List<Wire.Check> open() {
    return open.values().stream().map(Question::check).toList();
  }

  /** Takes the answer of the host to a check. */
  void answered(Wire.Checked checked) {
    Question question;
    synchronized (this) {
      question = open.remove(checked.getNumber());
    }
    if (question == null) {
      return;
    }
    if (checked.getError().isEmpty()) {
      question
          .answer()
          .complete(checked.getRefusalsList().stream().map(Questions::refusal).toList());
    } else {
      question.answer().completeExceptionally(unknown(checked.getError()));
    }
  }

  /** Ends the wait for answers, and takes no more of them. */
  void giveUp(String why) {
    List<Question> lost;
    synchronized (this) {
      over = true;
      lost = new ArrayList<>(open.values());
      open.clear();
    }
    lost.forEach(question -> question.answer().completeExceptionally(unknown(why)));
  }

  private static NotCheckedException unknown(String why) {
    return new NotCheckedException("it is not known which tasks would be refused: " + why);
  }

  private static Refusal refusal(Wire.Refusal refusal) {
    Refusal.Reason reason =
        switch (refusal.getReason()) {
          case REASON_TOO_LARGE -> Refusal.Reason.TOO_LARGE;
          case REASON_TOO_MANY -> Refusal.Reason.TOO_MANY;
          case REASON_FORBIDDEN -> Refusal.Reason.FORBIDDEN;
          case REASON_BACKLOG -> Refusal.Reason.BACKLOG;
          case REASON_KEY_TAKEN -> Refusal.Reason.KEY_TAKEN;
          case REASON_UNKNOWN_TYPE -> Refusal.Reason.UNKNOWN_TYPE;
          default -> Refusal.Reason.INVALID;
        };
    return new Refusal(
        refusal.getIndex(),
        reason,
        refusal.getMessage(),
        refusal.getTaskId().isEmpty() ? null : Run.uuid(refusal.getTaskId()));
  }
}
