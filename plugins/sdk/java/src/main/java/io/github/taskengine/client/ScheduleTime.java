package io.github.taskengine.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * A time at which a schedule fires.
 *
 * @param time the time
 * @param local by the clock in the zone of the schedule, such as 2026-03-29T03:00:00+02:00
 * @param movedFrom the time of the day that the expression names, if the clock jumps over it
 * @param repeated whether the clock was put back, and shows the time of the day for the second time
 */
public record ScheduleTime(
    @Nullable Instant time, String local, String movedFrom, boolean repeated) {}
