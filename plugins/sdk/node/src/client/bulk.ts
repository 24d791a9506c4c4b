// The calls about bulk jobs, and those that set and delete one task.

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  BulkJobSchema,
  BulkKindSchema,
  type BulkOrderSchema,
  TaskSchema,
  TaskService,
  type TaskValuesSchema,
} from "../gen/taskengine_pb.js";
import { encode } from "../text.js";
import { taskOf } from "./calls.js";
import type { BulkJob, BulkPreview, Task } from "./messages.js";
import { duration, timestamp, toNative } from "./native.js";
import type {
  BulkChange,
  BulkOrder,
  BulkStart,
  CallOptions,
  TaskSetting,
  TaskValues,
  VersionOptions,
} from "./options.js";
import { SliceCalls } from "./slices.js";

/** The filter that selects the tasks with these ids, at most about 200 of them. */
export function whereIds(...ids: string[]): string {
  return `id=${ids.join(",")}`;
}

export abstract class BulkCalls extends SliceCalls {
  /** Says which tasks a bulk job would change now. It changes nothing. */
  async previewBulkJob(order: BulkOrder, options?: CallOptions): Promise<BulkPreview> {
    const answer = await this.call(TaskService.method.previewBulkJob, () => ({ order: orderOf(order) }), options);
    const { where, tasks, complete, read, total, index, states, left } = answer;
    return {
      ...{ where, tasks: Number(tasks), complete, read: Number(read), total: Number(total), index },
      states: Object.fromEntries(Object.entries(states).map(([state, count]) => [state, Number(count)])),
      left: Object.fromEntries(Object.entries(left).map(([reason, count]) => [reason, Number(count)])),
      kinds: answer.kinds.map((kind) => toNative(BulkKindSchema, kind)),
      samples: answer.samples.map((task) => toNative(TaskSchema, task)),
    };
  }

  /**
   * Has the nodes change all tasks that a filter selects now, each once, and returns the job that does so. The job goes on
   * without the client; bulkJob() says how far it is. With a name the call is repeated when a node does not answer, and
   * may be made again.
   */
  async startBulkJob(order: BulkOrder, start: BulkStart & CallOptions = {}): Promise<BulkJob> {
    const { name = "", rate = 0, by = "", ...options } = start;
    const request = () => ({ order: orderOf(order), name, rate, by });
    return jobOf(await this.call(TaskService.method.startBulkJob, request, options, name !== ""));
  }

  /** A bulk job. Jobs are kept for 30 days after their end. */
  async bulkJob(name: string, options?: CallOptions): Promise<BulkJob> {
    return jobOf(await this.call(TaskService.method.getBulkJob, () => ({ name }), options));
  }

  /** The bulk jobs without refusals and history, the newest first. Each page is a call of its own. */
  async *bulkJobs(options?: CallOptions): AsyncGenerator<BulkJob, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.call(TaskService.method.listBulkJobs, () => ({ pageToken }), options);
      for (const job of page.jobs) yield toNative(BulkJobSchema, job);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** Has a bulk job change no more tasks until continueBulkJob. Of the tasks that it is at, some may still be changed. */
  async pauseBulkJob(
    name: string,
    { by = "", reason = "", ...options }: BulkChange & CallOptions = {},
  ): Promise<BulkJob> {
    return jobOf(await this.call(TaskService.method.pauseBulkJob, () => ({ name, by, reason }), options));
  }

  /** Ends a pause. */
  async continueBulkJob(
    name: string,
    { by = "", reason = "", ...options }: BulkChange & CallOptions = {},
  ): Promise<BulkJob> {
    return jobOf(await this.call(TaskService.method.continueBulkJob, () => ({ name, by, reason }), options));
  }

  /** Changes how many tasks a bulk job changes in a second; 0 is as many as possible. */
  async setBulkJobRate(
    name: string,
    rate: number,
    { by = "", ...options }: Pick<BulkChange, "by"> & CallOptions = {},
  ): Promise<BulkJob> {
    return jobOf(await this.call(TaskService.method.setBulkJobRate, () => ({ name, rate, by }), options));
  }

  /** Ends a bulk job. Tasks that it has changed stay so. */
  async stopBulkJob(
    name: string,
    { by = "", reason = "", ...options }: BulkChange & CallOptions = {},
  ): Promise<BulkJob> {
    return jobOf(await this.call(TaskService.method.stopBulkJob, () => ({ name, by, reason }), options));
  }

  /**
   * Gives a task other values, or another time. The task is waiting, submitted or in error, and stays so; its history has
   * the old values. Returns the task after the change.
   */
  async setTask(
    id: string,
    values: TaskValues,
    { at, delay, by = "", version = 0, ...options }: TaskSetting & VersionOptions & CallOptions = {},
  ): Promise<Task> {
    const request = () => ({
      ...{ id, values: valuesOf(values), by, version: BigInt(version) },
      ...(at !== undefined && { at: timestamp(at) }),
      ...(delay !== undefined && { in: duration(delay) }),
    });
    return taskOf(await this.call(TaskService.method.setTask, request, options, false));
  }

  /** Removes a task that is done, has failed or was cancelled, and returns it as it was, without payload and result. */
  async deleteTask(id: string, { version = 0, ...options }: VersionOptions & CallOptions = {}): Promise<Task> {
    return taskOf(
      await this.call(TaskService.method.deleteTask, () => ({ id, version: BigInt(version) }), options, false),
    );
  }
}

function orderOf(order: BulkOrder): MessageInitShape<typeof BulkOrderSchema> {
  const { verb, where = "", types = [], reason = "", at, delay, values, job = "" } = order;
  return {
    ...{ verb, where, types: [...types], reason, job },
    ...(at !== undefined && { at: timestamp(at) }),
    ...(delay !== undefined && { in: duration(delay) }),
    ...(values && { values: valuesOf(values) }),
  };
}

function valuesOf(values: TaskValues): MessageInitShape<typeof TaskValuesSchema> {
  const { priority, payload, headers = {}, removeHeaders = [] } = values;
  return {
    ...{ headers: { ...headers }, removeHeaders: [...removeHeaders] },
    ...(priority !== undefined && { priority }),
    ...(payload !== undefined && { payload: encode(payload) }),
  };
}

function jobOf({ job }: { job?: Parameters<typeof toNative<typeof BulkJobSchema>>[1] | undefined }): BulkJob {
  return toNative(BulkJobSchema, job ?? create(BulkJobSchema));
}
