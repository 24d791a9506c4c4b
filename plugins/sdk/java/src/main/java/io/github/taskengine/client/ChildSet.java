package io.github.taskengine.client;

/**
 * The children of a task that have one name, and how many of them have ended. One in the state
 * error has not ended.
 *
 * @param name of the children
 * @param added how many there are
 * @param done how many are done
 * @param failed how many have failed
 * @param cancelled how many were cancelled
 * @param awaits the task waits until so many have ended; 0 if it does not wait for them
 * @param orFailed likewise, or until one has failed or was cancelled
 * @param isOpen whether the task waits until the last children are added
 */
public record ChildSet(
    String name,
    int added,
    int done,
    int failed,
    int cancelled,
    int awaits,
    boolean orFailed,
    boolean isOpen) {}
