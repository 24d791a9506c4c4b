package io.github.taskengine.client;

/**
 * A change of the configuration of a node.
 *
 * @param key with its sections, such as limits.partner.max
 * @param before as YAML, without secrets; empty: the key was not there
 * @param after likewise
 * @param restart whether it takes a restart, and before is in force; otherwise it was applied
 */
public record ConfigChange(String key, String before, String after, boolean restart) {}
