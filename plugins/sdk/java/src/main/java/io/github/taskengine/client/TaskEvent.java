package io.github.taskengine.client;

/** A change of a task, a gap, or nodes that do not answer. */
public sealed interface TaskEvent permits TaskChange, EventGap, NodesSilent {
  /**
   * Where to go on after the event.
   *
   * @return the cursor for {@link EventFilter#after}; that of a gap is from before it
   */
  String cursor();
}
