package io.github.taskengine.handler;

import org.jspecify.annotations.Nullable;

/** Does the work of the tasks of a type. It is called in as many threads as there are slots. */
@FunctionalInterface
public interface Handler {
  /**
   * Runs one attempt of a task.
   *
   * <p>Whatever it throws fails the attempt, which the retry policy of the task's type may repeat;
   * the error's class is the simple name of the exception. {@link HandlerException} and what
   * extends it say more.
   *
   * <p>The thread is interrupted when the task is cancelled or its deadline is over. A handler that
   * goes on for longer than the configured grace is killed, with its process.
   *
   * @param task the attempt
   * @return the result: {@code byte[]} as it is, a {@link CharSequence} as UTF-8 text, {@code null}
   *     as an empty result, {@link Snooze}, {@link Again} or {@link Ended}, and anything else as
   *     JSON
   * @throws Exception if the attempt failed
   */
  @Nullable Object handle(Task task) throws Exception;
}
