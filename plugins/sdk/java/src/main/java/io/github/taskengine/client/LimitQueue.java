package io.github.taskengine.client;

/**
 * How many tasks of a type wait for a limit in the memory of a node.
 *
 * @param type of the tasks
 * @param tasks how many there are
 * @param node its name
 */
public record LimitQueue(String type, long tasks, String node) {}
