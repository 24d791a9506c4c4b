// The calls about schedules.

import type { MessageShape } from "@bufbuild/protobuf";
import {
  AppliedScheduleSchema,
  ScheduleDefinitionSchema,
  ScheduleSchema,
  type SchedulesChangedSchema,
  ScheduleTimeSchema,
  TaskService,
} from "../gen/taskengine_pb.js";
import { scheduleOf } from "./calls.js";
import { LimitCalls } from "./limits.js";
import type { AppliedSchedule, Schedule, ScheduleDefinition, SchedulesChanged, ScheduleTime } from "./messages.js";
import { fromNative, timestamp, toNative } from "./native.js";
import type { CallOptions, NamedSchedule, ScheduleFilter, SchedulePreview, ScheduleSelection } from "./options.js";

export abstract class ScheduleCalls extends LimitCalls {
  /**
   * The schedules that a filter selects, in the order of their names, without payloads. Each page is a call of its own.
   */
  async *schedules({
    prefix = "",
    paused = false,
    failing = false,
    ...options
  }: CallOptions & ScheduleFilter = {}): AsyncGenerator<Schedule, void, undefined> {
    let pageToken = "";
    do {
      const request = () => ({ pageToken, prefix, paused, failing });
      const page = await this.call(TaskService.method.listSchedules, request, options);
      for (const schedule of page.schedules) yield toNative(ScheduleSchema, schedule);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** A schedule. */
  async schedule(name: string, options?: CallOptions): Promise<Schedule> {
    return scheduleOf(await this.call(TaskService.method.getSchedule, () => ({ name }), options));
  }

  /**
   * Makes a schedule be as a definition says. Returns created, updated or unchanged; a repetition of a call whose answer
   * was lost returns unchanged.
   */
  async applySchedule(name: string, definition: ScheduleDefinition, options?: CallOptions): Promise<string> {
    const request = () => ({ name, definition: fromNative(ScheduleDefinitionSchema, definition) });
    return (await this.call(TaskService.method.applySchedule, request, options)).outcome;
  }

  /**
   * Applies schedules as applySchedule does, 100 with each call, and returns the effect on each. After an error the same
   * call applies the rest.
   */
  async applySchedules(schedules: NamedSchedule[], options?: CallOptions): Promise<AppliedSchedule[]> {
    const done: AppliedSchedule[] = [];
    for (let i = 0; i < schedules.length; i += 100) {
      const request = () => ({
        schedules: schedules.slice(i, i + 100).map(({ name, definition, ifVersion }) => ({
          name,
          definition: fromNative(ScheduleDefinitionSchema, definition),
          ...(ifVersion !== undefined && { ifVersion: BigInt(ifVersion) }),
        })),
      });
      const page = await this.call(TaskService.method.applySchedules, request, options);
      done.push(...page.schedules.map((one) => toNative(AppliedScheduleSchema, one)));
    }
    return done;
  }

  /**
   * Pauses the schedules that are selected, or only counts them. Each call changes a part of them, each by itself. After an
   * error the same call pauses the rest.
   */
  async pauseSchedules(
    { reason = "", ...select }: ScheduleSelection & { reason?: string },
    options?: CallOptions,
  ): Promise<SchedulesChanged> {
    return this.#change(select, (part) =>
      this.call(TaskService.method.pauseSchedules, () => ({ select: part, reason }), options),
    );
  }

  /** Ends the pauses of the schedules that are selected, as pauseSchedules begins them. */
  async resumeSchedules(select: ScheduleSelection, options?: CallOptions): Promise<SchedulesChanged> {
    return this.#change(select, (part) =>
      this.call(TaskService.method.resumeSchedules, () => ({ select: part }), options),
    );
  }

  /** Deletes the schedules that are selected, in parts as pauseSchedules. */
  async deleteSchedules(select: ScheduleSelection, options?: CallOptions): Promise<SchedulesChanged> {
    return this.#change(select, (part) =>
      this.call(TaskService.method.deleteSchedules, () => ({ select: part }), options),
    );
  }

  async #change(
    { prefix = "", all = false, dryRun = false }: ScheduleSelection,
    change: (part: Required<ScheduleSelection> & { pageToken: string }) => Promise<{
      result?: MessageShape<typeof SchedulesChangedSchema> | undefined;
    }>,
  ): Promise<SchedulesChanged> {
    const sum: SchedulesChanged = { changed: 0, unchanged: 0, failed: [] };
    let pageToken = "";
    do {
      const { result } = await change({ prefix, all, dryRun, pageToken });
      sum.changed += result?.changed ?? 0;
      sum.unchanged += result?.unchanged ?? 0;
      sum.failed.push(...(result?.failed ?? []).map(({ name, error }) => ({ name, error })));
      pageToken = result?.nextPageToken ?? "";
    } while (pageToken);
    return sum;
  }

  /** The next times of a schedule, or of a definition that is not stored. */
  async previewSchedule(
    name: string,
    { definition, from, count = 10, ...options }: CallOptions & SchedulePreview = {},
  ): Promise<ScheduleTime[]> {
    const request = () => ({
      ...{ name, count },
      ...(definition && { definition: fromNative(ScheduleDefinitionSchema, definition) }),
      ...(from !== undefined && { from: timestamp(from) }),
    });
    const { times } = await this.call(TaskService.method.previewSchedule, request, options);
    return times.map((time) => toNative(ScheduleTimeSchema, time));
  }

  /** Ends a schedule. Tasks that it has added are not affected. */
  async deleteSchedule(name: string, options?: CallOptions): Promise<void> {
    await this.call(TaskService.method.deleteSchedule, () => ({ name }), options, false);
  }

  /** Stops a schedule from firing until resumeSchedule. */
  async pauseSchedule(name: string, reason = "", options?: CallOptions): Promise<Schedule> {
    return scheduleOf(await this.call(TaskService.method.pauseSchedule, () => ({ name, reason }), options));
  }

  /** Ends a pause. */
  async resumeSchedule(name: string, options?: CallOptions): Promise<Schedule> {
    return scheduleOf(await this.call(TaskService.method.resumeSchedule, () => ({ name }), options));
  }

  /** Has a schedule add a task now, and returns the id of the task. Each call adds another one. */
  async triggerSchedule(name: string, options?: CallOptions): Promise<string> {
    return (await this.call(TaskService.method.triggerSchedule, () => ({ name }), options, false)).taskId;
  }

  /**
   * Has a schedule add tasks for its times between two times, and returns how many; with dryRun it only counts them. Each
   * call adds other tasks.
   */
  async backfillSchedule(
    name: string,
    from: Date | number,
    to: Date | number,
    { dryRun = false, ...options }: CallOptions & { dryRun?: boolean } = {},
  ): Promise<number> {
    const request = () => ({ name, from: timestamp(from), to: timestamp(to), dryRun });
    return Number((await this.call(TaskService.method.backfillSchedule, request, options, dryRun)).tasks);
  }
}
