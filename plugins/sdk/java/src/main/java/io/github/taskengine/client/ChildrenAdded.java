package io.github.taskengine.client;

/**
 * The children of a task that was submitted with open children.
 *
 * @param added how many the task has
 * @param isOpen whether more can be added
 */
public record ChildrenAdded(int added, boolean isOpen) {}
