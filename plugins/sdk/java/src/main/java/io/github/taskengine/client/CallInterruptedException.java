package io.github.taskengine.client;

/**
 * The thread was interrupted while it waited for a node, and its interrupt status is set again.
 * What was asked for may have been carried out. The cause is the {@link InterruptedException}.
 */
public final class CallInterruptedException extends ClientException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the exception.
   *
   * @param cause of it
   */
  public CallInterruptedException(InterruptedException cause) {
    super("the thread was interrupted: the request may have been carried out", "", "");
    initCause(cause);
  }
}
