package io.github.taskengine.client;

/**
 * A task of a tree.
 *
 * @param task without payload and result, but with its children
 * @param depth how many tasks of the tree are above it
 */
public record TreeTask(Task task, int depth) {}
