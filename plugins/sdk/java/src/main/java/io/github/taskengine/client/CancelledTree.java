package io.github.taskengine.client;

/**
 * A task that was cancelled with all tasks below it.
 *
 * @param task after the change, without payload and result
 * @param cancelled how many tasks were cancelled
 * @param missing how many children were not found although they have not ended: they are on their
 *     way to another database, and to cancel the tree again cancels them
 */
public record CancelledTree(Task task, long cancelled, long missing) {}
