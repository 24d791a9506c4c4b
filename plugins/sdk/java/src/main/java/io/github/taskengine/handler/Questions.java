package io.github.taskengine.handler;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongFunction;

/**
 * The questions of one kind of a run that the host has not answered. Any thread may use it.
 *
 * @param <Q> the message of a question
 * @param <A> the message of an answer
 */
final class Questions<Q, A> {
  // Guarded by this.
  private final Map<Long, Question<Q, A>> open = new LinkedHashMap<>(); // by their numbers
  private long last; // number
  private boolean over; // no answers come

  private record Question<Q, A>(
      Q message, CompletableFuture<A> answer, Function<String, RuntimeException> unknown) {}

  /**
   * Sends a question, and waits for the answer, also if the thread is interrupted.
   *
   * @param made makes the message with its number
   * @param send sends it
   * @param unknown makes the exception if there is no answer, of the reason
   */
  A ask(LongFunction<Q> made, Consumer<Q> send, Function<String, RuntimeException> unknown) {
    CompletableFuture<A> answer = new CompletableFuture<>();
    synchronized (this) {
      if (over) {
        throw unknown.apply("the attempt is over");
      }
      last++;
      Q message = made.apply(last);
      open.put(last, new Question<>(message, answer, unknown));
      send.accept(message);
    }
    try {
      return answer.join();
    } catch (CompletionException e) {
      throw e.getCause() instanceof RuntimeException why ? why : e;
    }
  }

  /** Those that are to be sent again when a worker connects again. */
  synchronized List<Q> open() {
    return open.values().stream().map(Question::message).toList();
  }

  /**
   * Takes the answer of the host to the question with a number. The error says why it is none, or
   * is empty.
   */
  void answered(long number, String error, A answer) {
    Question<Q, A> question;
    synchronized (this) {
      question = open.remove(number);
    }
    if (question == null) {
      return;
    }
    if (error.isEmpty()) {
      question.answer().complete(answer);
    } else {
      question.answer().completeExceptionally(question.unknown().apply(error));
    }
  }

  /** Ends the wait for answers, and takes no more of them. */
  void giveUp(String why) {
    List<Question<Q, A>> lost;
    synchronized (this) {
      over = true;
      lost = new ArrayList<>(open.values());
      open.clear();
    }
    lost.forEach(
        question -> question.answer().completeExceptionally(question.unknown().apply(why)));
  }
}
