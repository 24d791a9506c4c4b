package io.github.taskengine.client;

/**
 * On which node an attempt ran, or runs.
 *
 * @param attempt that ran there
 * @param node its name
 * @param alive whether a node with this name is alive
 * @param here whether the node that was asked has this name
 */
public record RanElsewhere(int attempt, String node, boolean alive, boolean here) {}
