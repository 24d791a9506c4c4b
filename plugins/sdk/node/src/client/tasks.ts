// The calls that read and change tasks.

import { randomUUID } from "node:crypto";
import {
  ErrorKindSchema,
  ReasonSchema,
  SilentNodeSchema,
  TaskSchema,
  TaskService,
  WaitSchema,
  WhyResponseSchema,
} from "../gen/taskengine_pb.js";
import { checkedFilter, taskOf } from "./calls.js";
import { type ClientError, DeadlineExceeded, Invalid, NotDone, ResultRemoved, Unavailable } from "./errors.js";
import { EventCalls } from "./events.js";
import type {
  CancelledTree,
  ErrorKinds,
  Reason,
  Signaled,
  StateCount,
  Task,
  TreeTask,
  WaitHistory,
} from "./messages.js";
import { duration, timestamp, toNative } from "./native.js";
import { Deadline } from "./nodes.js";
import type { CallOptions, ChangeOptions, CountFilter, ErrorFilter, ListFilter, SignalOptions } from "./options.js";
import { signalOf } from "./trees.js";

const POLL = 20_000; // milliseconds that a node waits before it answers that tasks have not ended

export abstract class TaskCalls extends EventCalls {
  /** A task, with its payload and result. */
  async get(id: string, options?: CallOptions): Promise<Task> {
    return taskOf(await this.call(TaskService.method.get, () => ({ id }), options));
  }

  /** The task that has a key. */
  async find(type: string, key: string, options: CallOptions & { orderingKey?: string } = {}): Promise<Task> {
    const { orderingKey = "" } = options;
    return taskOf(await this.call(TaskService.method.get, () => ({ type, key, orderingKey }), options));
  }

  /** Tasks without payload and result, the newest first. Each page is a call of its own. */
  async *tasks(filter: ListFilter = {}, options?: CallOptions): AsyncGenerator<Task, void, undefined> {
    const { states = [], types = [], key = "" } = checkedFilter(filter);
    let { where = "" } = filter;
    let pageToken = "";
    do {
      const request = () => ({ states, types, key, where, pageToken });
      const page = await this.call(TaskService.method.list, request, options);
      for (const task of page.tasks) yield toNative(TaskSchema, task);
      pageToken = page.nextPageToken;
      where = page.where; // durations in it count from the first page
    } while (pageToken);
  }

  /** The kinds of errors of tasks. `tasks({ where: "error.kind=..." })` lists the tasks of one. */
  async errorKinds(filter: ErrorFilter = {}, options?: CallOptions): Promise<ErrorKinds> {
    const { types = [], where = "", limit = 100 } = checkedFilter(filter);
    const answer = await this.call(TaskService.method.listErrors, () => ({ types, where, limit }), options);
    const { tasks, others, read, complete, index, total } = answer;
    return {
      ...{ tasks: Number(tasks), others: Number(others), read: Number(read), complete, index, total: Number(total) },
      kinds: answer.kinds.map((kind) => toNative(ErrorKindSchema, kind)),
    };
  }

  /**
   * A task and the tasks below it: its children, their children, and so on. A task comes before its children, which come by
   * their names and indexes. Each page is a call of its own.
   */
  async *tree(id: string, options?: CallOptions): AsyncGenerator<TreeTask, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.call(TaskService.method.tree, () => ({ id, limit: 1000, pageToken }), options);
      for (const one of page.tasks) yield { task: taskOf(one), depth: one.depth };
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * How many tasks there are, by state and type; those of zero are left out. Rejects with Invalid if `where` selects among more
   * tasks than a node reads to count them.
   */
  async count(filter: CountFilter = {}, options?: CallOptions): Promise<StateCount[]> {
    const { states = [], types = [], where = "" } = checkedFilter(filter);
    const { counts, partial } = await this.call(TaskService.method.count, () => ({ states, types, where }), options);
    if (partial) {
      const why = "more tasks than a node reads may be selected: name states, a type or a time in where";
      throw new Invalid(why, "invalid_argument");
    }
    return counts.map(({ state, type, count }) => ({ state, type, count: Number(count) }));
  }

  /**
   * A task when it has ended: it is done, error, failed or cancelled. Waits until its time is over, also while no node
   * answers; without `timeout` it has no end. Throws NotFound for a task that does not exist, or whose retention is over.
   */
  async wait(id: string, options: CallOptions = {}): Promise<Task> {
    const { timeout = Number.POSITIVE_INFINITY, signal } = options;
    const deadline = new Deadline(timeout);
    for (;;) {
      const poll = Math.max(1, Math.min(POLL, deadline.left));
      const limit = { timeout: Math.min(POLL + this.timeout, deadline.left), ...(signal && { signal }) };
      let error: ClientError = new DeadlineExceeded(
        `task ${id} has not ended, and the timeout is over`,
        "deadline_exceeded",
      );
      try {
        const answer = await this.call(TaskService.method.wait, () => ({ ids: [id], timeout: duration(poll) }), limit);
        if (answer.settled) {
          const rest = Math.max(1, Math.min(deadline.left, this.timeout));
          return await this.get(id, { timeout: rest, ...(signal && { signal }) });
        }
      } catch (thrown) {
        if (!(thrown instanceof Unavailable || thrown instanceof DeadlineExceeded)) throw thrown;
        if (thrown instanceof Unavailable) error = thrown;
      }
      if (deadline.isOver) throw error;
    }
  }

  /**
   * Waits for a task, and returns its result, which is JSON. check is given the parsed JSON, such as the parse of a
   * schema. Throws NotDone if the task ended without being done, and ResultRemoved if it is done and its result was
   * removed.
   */
  async result<T = unknown>(id: string, check?: (value: unknown) => T, options?: CallOptions): Promise<T> {
    const task = await this.wait(id, options);
    if (task.state !== "done") throw new NotDone(task.id, task.state, task.error);
    if (task.tombstone) throw new ResultRemoved(task.id);
    const text = Buffer.from(task.result).toString();
    const value: unknown = text === "" ? undefined : JSON.parse(text);
    return check ? check(value) : (value as T);
  }

  /** What keeps a task from running, the nearest reason first. */
  async why(id: string, options?: CallOptions): Promise<Reason[]> {
    const { reasons } = await this.call(TaskService.method.why, () => ({ id }), options);
    return reasons.map((reason) => toNative(ReasonSchema, reason));
  }

  /** How long a task has waited for what. */
  async waitHistory(id: string, options?: CallOptions): Promise<WaitHistory> {
    const answer = await this.call(TaskService.method.why, () => ({ id, history: true }), options);
    const { notedSince } = toNative(WhyResponseSchema, answer);
    return {
      waits: answer.waits.map((wait) => toNative(WaitSchema, wait)),
      ...(notedSince && { notedSince }),
      node: answer.node,
      silent: answer.silent.map((node) => toNative(SilentNodeSchema, node)),
    };
  }

  // --- changing tasks: each returns the task after the change

  /** Ends a task as cancelled. If it is running, its handler is stopped. */
  async cancel(id: string, reason = "", { version = 0, ...options }: ChangeOptions = {}): Promise<Task> {
    return taskOf(
      await this.call(TaskService.method.cancel, () => ({ id, reason, version: BigInt(version) }), options, false),
    );
  }

  /**
   * Cancels a task and all tasks below it that have not ended, whether the task has ended or not. After an error it may be
   * called again, and goes on with the rest.
   */
  async cancelTree(id: string, reason = "", options: CallOptions = {}): Promise<CancelledTree> {
    const deadline = new Deadline(options.timeout ?? this.timeout);
    for (let cancelled = 0; ; ) {
      const part = { ...options, timeout: deadline.left };
      const answer = await this.call(TaskService.method.cancel, () => ({ id, reason, tree: true }), part);
      cancelled += Number(answer.cancelled);
      if (!answer.more) return { task: taskOf(answer), cancelled, missing: Number(answer.missing) };
    }
  }

  /**
   * Sends a signal to a task, by its id, or by its type and key. Data is encoded as a payload is. It is sent again when a
   * node does not answer, and the task gets it once.
   */
  async signal(name: string, data?: unknown, options: SignalOptions & CallOptions = {}): Promise<Signaled> {
    const { requestId = randomUUID() } = options;
    const answer = await this.call(TaskService.method.signal, () => signalOf(name, data, options, requestId), options);
    return { outcome: answer.outcome, task: taskOf(answer) };
  }

  /** Ends a task as failed. For a task in the state error it acknowledges the error. */
  async fail(id: string, reason = "", { version = 0, ...options }: ChangeOptions = {}): Promise<Task> {
    return taskOf(
      await this.call(TaskService.method.fail, () => ({ id, reason, version: BigInt(version) }), options, false),
    );
  }

  /** Makes a task ready now that waits, or that ended without being done. */
  async resume(id: string, { version = 0, ...options }: ChangeOptions = {}): Promise<Task> {
    return taskOf(await this.call(TaskService.method.resume, () => ({ id, version: BigInt(version) }), options, false));
  }

  /** Sets the time at which a task is due that is not running: at a time, or after a delay in milliseconds. */
  async reschedule(
    id: string,
    when: { at: Date | number } | { delay: number },
    { version = 0, ...options }: ChangeOptions = {},
  ): Promise<Task> {
    const request = () => {
      const at = { case: "at" as const, value: timestamp("at" in when ? when.at : 0) };
      return {
        id,
        version: BigInt(version),
        time: "delay" in when ? { case: "in" as const, value: duration(when.delay) } : at,
      };
    };
    return taskOf(await this.call(TaskService.method.reschedule, request, options, false));
  }
}
