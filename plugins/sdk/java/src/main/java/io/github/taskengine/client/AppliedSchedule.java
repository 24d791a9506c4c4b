package io.github.taskengine.client;

/**
 * The effect of {@link Schedules#applyAll} on one schedule.
 *
 * @param name of the schedule
 * @param outcome created, updated or unchanged; empty if it was not applied
 * @param version of the schedule then; 0 if it was not applied
 * @param code of the error, such as aborted for another version; empty if it was applied
 * @param error why it was not applied; empty if it was
 */
public record AppliedSchedule(
    String name, String outcome, long version, String code, String error) {}
