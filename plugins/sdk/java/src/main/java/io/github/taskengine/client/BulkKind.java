package io.github.taskengine.client;

/**
 * The tasks of a preview with an error of one kind.
 *
 * @param kind for a filter: error.kind=...
 * @param pattern the error without numbers, ids and addresses
 * @param tasks how many they are
 * @param sample the id of the newest of them
 * @param error of that
 */
public record BulkKind(String kind, String pattern, long tasks, String sample, String error) {}
