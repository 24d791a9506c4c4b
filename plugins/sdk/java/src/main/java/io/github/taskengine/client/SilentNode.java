package io.github.taskengine.client;

/**
 * A node that is alive and did not answer the node that was asked: what it alone knows is missing.
 *
 * @param node its name
 * @param id of the node
 * @param address of its API; empty if it announces none
 * @param problem why there is no answer
 */
public record SilentNode(String node, String id, String address, String problem) {}
