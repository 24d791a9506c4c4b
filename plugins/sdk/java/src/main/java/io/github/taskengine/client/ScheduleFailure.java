package io.github.taskengine.client;

/**
 * Why a schedule was not changed.
 *
 * @param name of the schedule
 * @param error why
 */
public record ScheduleFailure(String name, String error) {}
