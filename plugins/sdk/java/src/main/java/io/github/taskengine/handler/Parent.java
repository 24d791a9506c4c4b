package io.github.taskengine.handler;

import java.util.UUID;

/**
 * The task that learns of the end of a child, and the place of that child.
 *
 * @param id of the task
 * @param name of its children
 * @param number of the child among them, from 0 on
 */
public record Parent(UUID id, String name, int number) {}
