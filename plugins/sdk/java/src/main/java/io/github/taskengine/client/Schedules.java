package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Reads and changes schedules: {@link TaskengineClient#schedules}. */
public final class Schedules {
  private static final int APPLIED_AT_ONCE = 100;

  private final Calls calls;
  private final long timeout;

  Schedules(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /**
   * All schedules, without payloads. Each page of them is a call of its own, which is made when it
   * is needed.
   *
   * @return the schedules, in the order of their names
   */
  public Stream<Schedule> list() {
    return list(ScheduleFilter.prefix(""));
  }

  /**
   * The schedules that a filter selects, as {@link #list()} returns all.
   *
   * @param filter which schedules
   * @return the schedules, in the order of their names
   */
  public Stream<Schedule> list(ScheduleFilter filter) {
    return Page.all(
        token -> {
          Api.ListSchedulesRequest request =
              Api.ListSchedulesRequest.newBuilder()
                  .setPageToken(token)
                  .setPrefix(filter.prefix())
                  .setPaused(filter.paused())
                  .setFailing(filter.failing())
                  .build();
          Api.ListSchedulesResponse page =
              calls.make(Methods.LIST_SCHEDULES, request, true, timeout);
          return Page.of(
              Messages.all(page.getSchedulesList(), Messages::schedule), page.getNextPageToken());
        });
  }

  /**
   * A schedule.
   *
   * @param name of the schedule
   * @return the schedule
   */
  public Schedule get(String name) {
    Api.GetScheduleRequest request = Api.GetScheduleRequest.newBuilder().setName(name).build();
    return Messages.schedule(
        calls.make(Methods.GET_SCHEDULE, request, true, timeout).getSchedule());
  }

  /**
   * Makes a schedule be as a definition says. A repetition of a call whose answer was lost returns
   * unchanged.
   *
   * @param name of the schedule
   * @param definition of it
   * @return created, updated or unchanged
   */
  public String apply(String name, ScheduleDefinition definition) {
    Api.ApplyScheduleRequest request =
        Api.ApplyScheduleRequest.newBuilder()
            .setName(name)
            .setDefinition(Messages.definition(definition))
            .build();
    return calls.make(Methods.APPLY_SCHEDULE, request, true, timeout).getOutcome();
  }

  /**
   * Applies schedules as {@link #apply} does, 100 with each call. After an error the same call
   * applies the rest.
   *
   * @param schedules to be applied, each name once
   * @return the effect on each, in their order
   */
  public List<AppliedSchedule> applyAll(List<NamedSchedule> schedules) {
    List<AppliedSchedule> done = new ArrayList<>();
    for (int i = 0; i < schedules.size(); i += APPLIED_AT_ONCE) {
      Api.ApplySchedulesRequest.Builder request = Api.ApplySchedulesRequest.newBuilder();
      for (NamedSchedule s :
          schedules.subList(i, Math.min(schedules.size(), i + APPLIED_AT_ONCE))) {
        Api.ApplyScheduleRequest.Builder one =
            request
                .addSchedulesBuilder()
                .setName(s.name())
                .setDefinition(Messages.definition(s.definition()));
        if (s.ifVersion() != null) {
          one.setIfVersion(s.ifVersion());
        }
      }
      done.addAll(
          Messages.all(
              calls
                  .make(Methods.APPLY_SCHEDULES, request.build(), true, timeout)
                  .getSchedulesList(),
              Messages::applied));
    }
    return done;
  }

  /**
   * Pauses the schedules that are selected. Each call changes a part of them, each by itself. After
   * an error the same call pauses the rest.
   *
   * @param select which schedules
   * @param reason for it; may be empty
   * @return how many were changed
   */
  public SchedulesChanged pauseAll(ScheduleSelection select, String reason) {
    return change(
        select,
        part ->
            calls
                .make(
                    Methods.PAUSE_SCHEDULES,
                    Api.PauseSchedulesRequest.newBuilder()
                        .setSelect(part)
                        .setReason(reason)
                        .build(),
                    true,
                    timeout)
                .getResult());
  }

  /**
   * Ends the pauses of the schedules that are selected, as {@link #pauseAll} begins them.
   *
   * @param select which schedules
   * @return how many were changed
   */
  public SchedulesChanged resumeAll(ScheduleSelection select) {
    return change(
        select,
        part ->
            calls
                .make(
                    Methods.RESUME_SCHEDULES,
                    Api.ResumeSchedulesRequest.newBuilder().setSelect(part).build(),
                    true,
                    timeout)
                .getResult());
  }

  /**
   * Deletes the schedules that are selected, in parts as {@link #pauseAll}.
   *
   * @param select which schedules
   * @return how many were deleted
   */
  public SchedulesChanged deleteAll(ScheduleSelection select) {
    return change(
        select,
        part ->
            calls
                .make(
                    Methods.DELETE_SCHEDULES,
                    Api.DeleteSchedulesRequest.newBuilder().setSelect(part).build(),
                    true,
                    timeout)
                .getResult());
  }

  private static SchedulesChanged change(
      ScheduleSelection select, Function<Api.ScheduleSelection, Api.SchedulesChanged> change) {
    long changed = 0;
    long unchanged = 0;
    List<ScheduleFailure> failed = new ArrayList<>();
    String token = "";
    do {
      Api.SchedulesChanged part =
          change.apply(
              Api.ScheduleSelection.newBuilder()
                  .setPrefix(select.prefix())
                  .setAll(select.isAll())
                  .setDryRun(select.dryRun())
                  .setPageToken(token)
                  .build());
      changed += part.getChanged();
      unchanged += part.getUnchanged();
      failed.addAll(Messages.all(part.getFailedList(), Messages::failure));
      token = part.getNextPageToken();
    } while (!token.isEmpty());
    return new SchedulesChanged(changed, unchanged, failed);
  }

  /**
   * The next times of a schedule.
   *
   * @param name of the schedule
   * @param from the first time that may be among them; null: now
   * @param count how many times, at most 1000
   * @return the times, fewer if there are no more
   */
  public List<ScheduleTime> preview(String name, @Nullable Instant from, int count) {
    return preview(Api.PreviewScheduleRequest.newBuilder().setName(name), from, count);
  }

  /**
   * The next times of a definition, which need not be stored.
   *
   * @param name of the schedule, on which H in an expression depends
   * @param definition of it
   * @param from the first time that may be among them; null: now
   * @param count how many times, at most 1000
   * @return the times, fewer if there are no more
   */
  public List<ScheduleTime> preview(
      String name, ScheduleDefinition definition, @Nullable Instant from, int count) {
    return preview(
        Api.PreviewScheduleRequest.newBuilder()
            .setName(name)
            .setDefinition(Messages.definition(definition)),
        from,
        count);
  }

  private List<ScheduleTime> preview(
      Api.PreviewScheduleRequest.Builder request, @Nullable Instant from, int count) {
    request.setCount(count);
    if (from != null) {
      request.setFrom(Times.timestamp(from));
    }
    return Messages.all(
        calls.make(Methods.PREVIEW_SCHEDULE, request.build(), true, timeout).getTimesList(),
        Messages::time);
  }

  /**
   * Ends a schedule. Tasks that it has added are not affected.
   *
   * @param name of the schedule
   */
  public void delete(String name) {
    Api.DeleteScheduleRequest request =
        Api.DeleteScheduleRequest.newBuilder().setName(name).build();
    calls.make(Methods.DELETE_SCHEDULE, request, false, timeout);
  }

  /**
   * Stops a schedule from firing until {@link #resume}.
   *
   * @param name of the schedule
   * @param reason for it; may be empty
   * @return the schedule after the change
   */
  public Schedule pause(String name, String reason) {
    Api.PauseScheduleRequest request =
        Api.PauseScheduleRequest.newBuilder().setName(name).setReason(reason).build();
    return Messages.schedule(
        calls.make(Methods.PAUSE_SCHEDULE, request, true, timeout).getSchedule());
  }

  /**
   * Ends a pause.
   *
   * @param name of the schedule
   * @return the schedule after the change
   */
  public Schedule resume(String name) {
    Api.ResumeScheduleRequest request =
        Api.ResumeScheduleRequest.newBuilder().setName(name).build();
    return Messages.schedule(
        calls.make(Methods.RESUME_SCHEDULE, request, true, timeout).getSchedule());
  }

  /**
   * Has a schedule add a task now. Each call adds another one.
   *
   * @param name of the schedule
   * @return the id of the task
   */
  public String trigger(String name) {
    Api.TriggerScheduleRequest request =
        Api.TriggerScheduleRequest.newBuilder().setName(name).build();
    return calls.make(Methods.TRIGGER_SCHEDULE, request, false, timeout).getTaskId();
  }

  /**
   * Has a schedule add tasks for its times between two times. Each call adds other tasks.
   *
   * @param name of the schedule
   * @param from the first time that may be among them
   * @param to the last one
   * @param dryRun only counts the times
   * @return how many tasks will be added
   */
  public long backfill(String name, Instant from, Instant to, boolean dryRun) {
    Api.BackfillScheduleRequest request =
        Api.BackfillScheduleRequest.newBuilder()
            .setName(name)
            .setFrom(Times.timestamp(from))
            .setTo(Times.timestamp(to))
            .setDryRun(dryRun)
            .build();
    return calls.make(Methods.BACKFILL_SCHEDULE, request, dryRun, timeout).getTasks();
  }
}
