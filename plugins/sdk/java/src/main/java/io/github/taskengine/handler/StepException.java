package io.github.taskengine.handler;

/**
 * The error of a step that has failed in an earlier attempt, in which the handler went on to
 * another step. The node treats it as the error of the step.
 */
public class StepException extends HandlerException {
  private static final long serialVersionUID = 1L;

  /** Whether a retry cannot succeed. */
  private final boolean permanent;

  /**
   * Is the error of a step.
   *
   * @param message of the error
   * @param errorClass of the error; empty for none
   * @param permanent whether a retry cannot succeed
   */
  public StepException(String message, String errorClass, boolean permanent) {
    super(message, errorClass);
    this.permanent = permanent;
  }

  /**
   * Whether a retry cannot succeed.
   *
   * @return true if so
   */
  public final boolean isPermanent() {
    return permanent;
  }
}
