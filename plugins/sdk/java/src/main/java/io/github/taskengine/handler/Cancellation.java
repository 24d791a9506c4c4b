package io.github.taskengine.handler;

/**
 * Why a task is to stop.
 *
 * @param reason what kind of end it is
 * @param message for people; it may be empty
 */
public record Cancellation(Reason reason, String message) {
  /** The kinds of end. */
  public enum Reason {
    /** The attempt's deadline is over. */
    DEADLINE,
    /** The task was cancelled, or the node stops or is gone. */
    CANCELLED
  }

  String describe() {
    String kind = reason == Reason.DEADLINE ? "the deadline is over" : "cancelled";
    return message.isEmpty() ? kind : kind + ": " + message;
  }
}
