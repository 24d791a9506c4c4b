package io.github.taskengine.client;

/**
 * A value of a source of time slices or of a platform, as text.
 *
 * @param name of the value
 * @param value the text
 * @param from own (set for the platform), file_own, live, file, default, or before: the newest
 *     values cannot be, and an earlier one is in force
 */
public record SliceSetting(String name, String value, String from) {}
