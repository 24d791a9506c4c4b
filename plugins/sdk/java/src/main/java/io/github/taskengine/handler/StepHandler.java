package io.github.taskengine.handler;

import org.jspecify.annotations.Nullable;

/** A handler in steps, see {@link Steps}. */
@FunctionalInterface
public interface StepHandler {
  /**
   * Does the work of a task, step by step.
   *
   * @param task this attempt of the task
   * @return as of {@link Handler#handle}
   * @throws Exception as of {@link Handler#handle}
   */
  @Nullable Object handle(StepTask task) throws Exception;
}
