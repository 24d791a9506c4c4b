package io.github.taskengine.handler;

import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;

/**
 * One attempt of the task of a handler in steps, see {@link Steps}. The steps run one after the
 * other.
 */
public interface StepTask extends Task {
  /** The work of a step that has no result. */
  @FunctionalInterface
  interface Action {
    /**
     * Does the work.
     *
     * @throws Exception if it fails
     */
    void run() throws Exception;
  }

  /**
   * Runs a step, unless an attempt has done so before.
   *
   * <p>What the work throws is thrown and not kept: the next attempt runs the step again. It is
   * kept if the handler goes on to another step: later attempts throw a {@link StepException} here
   * then. If the task was cancelled, no step begins.
   *
   * @param <T> the type of the result
   * @param name of the step
   * @param type the class of the result
   * @param work of the step
   * @return what JSON makes of the result of the work
   * @throws Exception what the work throws
   */
  @SuppressWarnings("unchecked") // by the contract of Json
  default <T> @Nullable T step(String name, Class<T> type, Callable<? extends T> work)
      throws Exception {
    return (T) step(name, (Type) type, work);
  }

  /**
   * Runs a step whose result is of a type that is no class, such as a list of records.
   *
   * @param name of the step
   * @param type of the result
   * @param work of the step
   * @return what JSON makes of the result of the work
   * @throws Exception what the work throws
   */
  @Nullable Object step(String name, Type type, Callable<?> work) throws Exception;

  /**
   * Runs a step without a result.
   *
   * @param name of the step
   * @param work of the step
   * @throws Exception what the work throws
   */
  default void step(String name, Action work) throws Exception {
    step(
        name,
        (Type) Object.class,
        () -> {
          work.run();
          return null;
        });
  }

  /**
   * Ends the attempt. The task waits, and takes no slot. The handler is called again when a signal
   * of one of these names has come, or when a user resumes the task.
   *
   * @param names of the signals
   * @return what ended the wait
   */
  Woken waitFor(String... names);

  /**
   * Ends the attempt. The task waits, and takes no slot. The handler is called again when a signal
   * of one of these names has come, at the end of the timeout, or when a user resumes the task.
   *
   * @param timeout for how long it waits
   * @param names of the signals
   * @return what ended the wait
   */
  Woken waitFor(Duration timeout, String... names);

  /**
   * Ends the attempt. The handler is called again after a while.
   *
   * @param delay how long that is
   */
  void sleep(Duration delay);

  /**
   * Ends the attempt, and adds children with that. They run beside each other. The handler is
   * called again when all of them have ended. One that is in error has not ended: a person decides
   * about it.
   *
   * @param name of the children
   * @param children to add
   * @return how they have ended: a child that has failed throws nothing
   */
  EndedChildren runChildren(String name, List<Child> children);

  /**
   * The key of the step that runs, or that is next: the same in all attempts, and another one for
   * each step of each task. A receiver that remembers it does the work of the step once.
   *
   * @return the key
   */
  String stepKey();

  /**
   * The version of the code with which the task began.
   *
   * @return the version
   */
  int stepVersion();
}
