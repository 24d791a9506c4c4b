package io.github.taskengine.client;

/**
 * The effect of a signal.
 *
 * @param outcome woke (the task waited for it, and is ready), kept, repeated (the task got it
 *     before), dropped (the task does not wait for it), no_room (likewise, and it cannot keep
 *     another one) or ended (the task has ended)
 * @param task after that, without payload and result
 */
public record Signaled(String outcome, Task task) {}
