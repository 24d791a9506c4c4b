package io.github.taskengine.client;

/**
 * The effect of {@link Slices#apply} on one platform.
 *
 * @param name of the platform
 * @param outcome created, updated, removed or unchanged; empty if its row was not applied
 * @param version of the platform then; 0 if there is none, or its row was not applied
 * @param code of the error, such as aborted for another version; empty if the row was applied
 * @param error why the row was not applied; empty if it was
 */
public record AppliedPlatform(
    String name, String outcome, long version, String code, String error) {}
