package io.github.taskengine.handler;

import io.github.taskengine.json.Json;
import java.util.Objects;

/**
 * Makes handlers of functions in steps. The results of the steps are kept with the task, so that an
 * attempt which follows a crash, a retry or a wait goes on where the last one was.
 *
 * <pre>{@code
 * new Handlers().on("order", Steps.of(1, task -> {
 *   Charge charge = task.step("charge", Charge.class, () -> bank.charge(task.text(), task.stepKey()));
 *   Woken paid = task.waitFor(Duration.ofDays(2), "paid");
 *   ...
 * }))
 * }</pre>
 *
 * <p>The function must come to the same steps in the same order whenever it gets the same results:
 * the time, random numbers and answers from elsewhere are results of steps. Where the order
 * differs, the task ends with a permanent error of class "steps_changed". The results are the
 * checkpoint of the task.
 */
public final class Steps {
  private Steps() {}

  /**
   * Makes a handler.
   *
   * @param version of the code, 1 or more. A task that began with an older one ends with a
   *     permanent error of class "steps_changed"
   * @param handler in steps
   * @return the handler
   */
  public static Handler of(int version, StepHandler handler) {
    return of(version, version, handler);
  }

  /**
   * Makes a handler of code that knows the steps of older versions, too.
   *
   * @param version of the code, 1 or more. Raise it with a change of the steps, and let the code
   *     look at {@link StepTask#stepVersion} to do the steps of before for tasks that began with
   *     them
   * @param oldest the oldest version whose steps the code still knows
   * @param handler in steps
   * @return the handler
   */
  public static Handler of(int version, int oldest, StepHandler handler) {
    Objects.requireNonNull(handler, "handler");
    if (oldest < 1 || version < oldest) {
      String text =
          "version %d of the code knows the steps since version %d: versions begin with 1"
              .formatted(version, oldest);
      throw new IllegalArgumentException(text);
    }
    return task -> {
      Json json = task instanceof Run run ? run.json() : Json.standard();
      return new Flow(task, json, version, oldest).run(handler);
    };
  }
}
