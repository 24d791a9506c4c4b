package io.github.taskengine.client;

/**
 * How many tasks of a type are in a state.
 *
 * @param state of the tasks
 * @param type of the tasks
 * @param count how many there are
 */
public record StateCount(String state, String type, long count) {}
