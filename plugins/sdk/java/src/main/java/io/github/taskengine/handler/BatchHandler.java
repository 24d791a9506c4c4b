package io.github.taskengine.handler;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** Does the work of several tasks of a type in one call. */
@FunctionalInterface
public interface BatchHandler {
  /**
   * Runs one attempt of each task.
   *
   * <p>Whatever it throws fails them all. The thread is interrupted when all of the tasks are
   * cancelled; of a few, {@link Task#isCancelled} tells.
   *
   * @param tasks the attempts, at least one, in the order in which they came
   * @return for every task, in the same order, what {@link Handler#handle} would return, or a
   *     {@link Throwable} for one that failed alone
   * @throws Exception if all of the attempts failed
   */
  List<? extends @Nullable Object> handle(List<Task> tasks) throws Exception;
}
