package io.github.taskengine.client;

/**
 * The place of a task among the children of another.
 *
 * @param id of the other
 * @param name of the set of children
 * @param index in the set, from 0 on
 */
public record Parent(String id, String name, int index) {}
