package io.github.taskengine.client;

/**
 * How much of a limit a node uses.
 *
 * @param node its name
 * @param used how many slots of the limit the tasks of the node take
 * @param held with the scope cluster: how many permits the node has
 */
public record LimitUse(String node, long used, long held) {}
