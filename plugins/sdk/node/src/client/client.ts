// The client.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import {
  AppliedScheduleSchema,
  ErrorKindSchema,
  LimitSchema,
  NewTaskSchema,
  PlatformSchema,
  RateSchema,
  ReasonSchema,
  ScheduleDefinitionSchema,
  ScheduleSchema,
  type SchedulesChangedSchema,
  ScheduleTimeSchema,
  SliceSourceSchema,
  SourceMoveSchema,
  SourceSchema,
  TaskSchema,
  TaskService,
} from "../gen/taskengine_pb.js";
import {
  anyPlatformOf,
  checkedFilter,
  decoded,
  encoded,
  limitOf,
  platformOf,
  scheduleOf,
  sliceSourceOf,
  sourceOf,
  taskOf,
} from "./calls.js";
import { nodesOf } from "./environment.js";
import {
  ClientError,
  Closed,
  DeadlineExceeded,
  Internal,
  Invalid,
  mayRepeat,
  NotDone,
  ResultRemoved,
  Unavailable,
} from "./errors.js";
import { Flow, type Submission } from "./flow.js";
import { Ids } from "./ids.js";
import type {
  AppliedSchedule,
  CancelledTree,
  ChildrenAdded,
  ErrorKinds,
  Limit,
  Platform,
  Reason,
  Schedule,
  ScheduleDefinition,
  SchedulesChanged,
  ScheduleTime,
  Signaled,
  SliceSource,
  Source,
  SourceMove,
  StateCount,
  Task,
  TreeTask,
  Workflow,
} from "./messages.js";
import { duration, fromNative, timestamp, toNative } from "./native.js";
import { Deadline, type Nodes } from "./nodes.js";
import type {
  CallOptions,
  ChangeOptions,
  ChildrenOptions,
  ClientOptions,
  ErrorFilter,
  LimitChange,
  ListFilter,
  NamedSchedule,
  NewWorkflow,
  ScheduleFilter,
  SchedulePreview,
  ScheduleSelection,
  SignalOptions,
  SliceOrder,
  SliceTarget,
  SourceSeek,
  TaskFilter,
  WorkflowRetry,
} from "./options.js";
import {
  type Encoded,
  encodeTask,
  MAX_TOGETHER,
  type NewTask,
  type Receipt,
  refusal,
  type TaskOptions,
} from "./request.js";
import { FIRST_PAUSE, jittered, MOST_PAUSE, Sender } from "./sender.js";
import { patienceOf } from "./silent.js";
import { moreChildren, newWorkflow, partOf, receiptOf, signalOf, WORKFLOW, withChildren, workflowOf } from "./trees.js";

const POLL = 20_000; // milliseconds that a node waits before it answers that tasks have not ended
const MAX_TIMER = 2 ** 31 - 1;

/** Adds tasks to nodes, waits for them and manages them. */
export class Client {
  readonly #nodes: Nodes;
  readonly #timeout: number;
  readonly #decorate: ClientOptions["decorate"];
  readonly #ids = new Ids();
  readonly #flow = new Flow();
  readonly #sender: Sender;
  readonly #closing = new AbortController();

  /**
   * A client of nodes that share their tasks, at host:port, unix:PATH, or a URL of http or https. It uses one of them,
   * and another one when that does not answer or stops. A text may have several addresses, separated by commas; undefined
   * is what TASKENGINE_ADDRESS has, and then TASKENGINE_CA, TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY name files
   * with certificates that are not in the options. A program ends only after `close`.
   */
  constructor(addresses?: string | readonly string[], options: ClientOptions = {}) {
    this.#nodes = nodesOf(addresses, options);
    this.#timeout = options.timeout ?? 30_000;
    this.#decorate = options.decorate;
    this.#sender = new Sender(this.#flow, this.#nodes, this.#timeout);
  }

  /** Ends the connections. Calls under way throw Closed, and may have been carried out. */
  async close(): Promise<void> {
    this.#closing.abort(new Closed("the client is closed: the request may have been carried out"));
    const ended = this.#sender.close();
    this.#nodes.close(); // ends the calls that the sender waits for
    await ended;
  }

  /**
   * Makes a call. If no node answers, it makes it again until its time is over: always if it is repeatable, and otherwise
   * while no node can have received it.
   */
  async #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: () => MessageInitShape<I>,
    options: CallOptions = {},
    isRepeatable = true,
  ): Promise<MessageShape<O>> {
    const bytes = encoded(method, request);
    const deadline = new Deadline(options.timeout ?? this.#timeout);
    const signal = AbortSignal.any(options.signal ? [options.signal, this.#closing.signal] : [this.#closing.signal]);
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, MOST_PAUSE)) {
      signal.throwIfAborted();
      const patience = patienceOf(deadline.left, bytes.length, this.#nodes.hasOthers);
      const node = await this.#nodes.pick(deadline, patience, !isRepeatable, signal);
      let error: ClientError = this.#nodes.absent();
      if (node) {
        try {
          return decoded(method, await node.attempt(method.name, bytes, deadline.left, patience, signal), node.address);
        } catch (thrown) {
          if (!(thrown instanceof ClientError)) throw thrown; // the reason of the signal
          if (thrown instanceof Unavailable) this.#nodes.leave(node);
          error = thrown;
        }
      }
      signal.throwIfAborted();
      if (!mayRepeat(error) || (node && !isRepeatable) || deadline.left <= pause) throw error;
      await sleep(jittered(pause), undefined, { signal }).catch(() => {});
    }
  }

  // --- adding tasks

  /**
   * Adds a task, and returns when it is durable. Calls at the same time share messages and commits. If no node answers,
   * it asks again, here or at another address, until its time is over. After Unavailable, DeadlineExceeded, Closed or an
   * abort the task may have been added: to find out, submit it again with the same id or key.
   */
  async submit(type: string, payload?: unknown, options: TaskOptions & CallOptions = {}): Promise<Receipt> {
    const { timeout, signal, ...task } = options;
    const [outcome] = await this.submitEach([{ type, payload, ...task }], options);
    if (outcome instanceof ClientError) throw outcome;
    return outcome as Receipt;
  }

  /**
   * Adds many tasks, of which each is added or refused by itself. Returns a receipt or an error for each, in their order.
   */
  async submitEach(tasks: readonly NewTask[], options: CallOptions = {}): Promise<(Receipt | ClientError)[]> {
    const { timeout = this.#timeout } = options;
    options.signal?.throwIfAborted();
    // A signal of its own: many listeners of one signal are taken for a leak.
    const signal = options.signal && AbortSignal.any([options.signal]);
    const outcomes: (Receipt | ClientError)[] = new Array(tasks.length);
    await new Promise<void>((resolve, reject) => {
      let left = 1;
      const submissions: Submission[] = [];
      const expire = () => this.#flow.abandon(submissions);
      const timer = setTimeout(expire, Math.min(timeout, MAX_TIMER));
      const abort = () => {
        reject(signal?.reason);
        this.#flow.abandon(submissions, new Closed("the call was aborted"));
      };
      const landed = () => {
        if (--left > 0) return;
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        resolve();
      };
      signal?.addEventListener("abort", abort);
      for (const [i, task] of tasks.entries()) {
        try {
          const land = (outcome: Receipt | ClientError) => {
            outcomes[i] = outcome;
            landed();
          };
          submissions.push({ ...encodeTask(task, this.#ids, this.#decorate), land, wait: timeout });
          left++;
        } catch (error) {
          outcomes[i] = error as ClientError;
        }
      }
      this.#flow.add(submissions);
      this.#sender.wake();
      landed();
    });
    return outcomes;
  }

  /**
   * Adds up to 1000 tasks together: if one of them is refused, none is added. But if a key is taken and its type rejects
   * that, or a task is too late for its type, the other tasks are added: then it throws AlreadyExists or Late, which has
   * all receipts.
   */
  async submitAll(tasks: readonly NewTask[], options?: CallOptions): Promise<Receipt[]> {
    if (tasks.length === 0) return [];
    if (tasks.length > MAX_TOGETHER) {
      throw new Invalid(
        `${tasks.length} tasks are to be added together, of ${MAX_TOGETHER} allowed`,
        "invalid_argument",
      );
    }
    const all = tasks.map((task) => encodeTask(task, this.#ids, this.#decorate));
    const request = () => ({ tasks: all.map(({ message }) => fromBinary(NewTaskSchema, message)) });
    const answer = await this.#call(TaskService.method.submit, request, options);
    if (answer.receipts.length !== all.length) {
      throw new Internal(`a node answered ${all.length} tasks with ${answer.receipts.length} receipts`);
    }
    const receipts = answer.receipts.map((receipt, i) => receiptOf(receipt, all[i] as Encoded));
    for (const receipt of receipts) {
      const refused = refusal(receipt);
      if (refused) throw Object.assign(refused, { receipts });
    }
    return receipts;
  }

  /**
   * Adds a task and children of it. The task runs when the children have ended, at once if there are none, and has no `at` and
   * no `delay`. The children have no `id` and no `key`; either all have an `orderingKey`, or none has. If the key or the id of
   * the task is taken, nothing is added.
   *
   * Up to 10 000 children, of 8 MiB, are added all or not at all. More are added in several requests, each with the
   * timeout. If one fails, the task waits for more children: the same call with the same `id` or `key` goes on, and
   * {@link cancelTree} gives it up.
   */
  async submitWithChildren(
    task: NewTask,
    children: readonly NewTask[],
    options: ChildrenOptions & CallOptions = {},
  ): Promise<Receipt> {
    const parent = encodeTask(task, this.#ids, this.#decorate);
    const encodings = children.map((child) => encodeTask(child, this.#ids, this.#decorate));
    const first = partOf(encodings, 0);
    const open = first.length < encodings.length;
    const request = () => withChildren(parent, first, options, open);
    const answer = await this.#call(TaskService.method.submitWithChildren, request, options);
    const receipt = receiptOf(answer.receipt, parent);
    if (answer.open) await this.#addChildren(receipt, first.length, encodings, options);
    return receipt;
  }

  /** Adds all children from one on. If the task was there before, those that are missing, if the task takes more. */
  async #addChildren(
    { id, created }: Receipt,
    from: number,
    all: readonly Encoded[],
    options: ChildrenOptions & CallOptions,
  ): Promise<void> {
    const add = (from: number, part: readonly Encoded[], close: boolean) =>
      this.#call(TaskService.method.addChildren, () => moreChildren(id, from, part, options, close), options);
    if (!created) {
      const { added, open } = await add(0, [], false);
      if (!open) return;
      from = Math.min(added, all.length);
    }
    for (let open = true; open; ) {
      const part = partOf(all, from);
      ({ open } = await add(from, part, from + part.length === all.length));
      from += part.length;
    }
  }

  /**
   * Adds a task whose children are added by later calls: `addChildren` adds more, in any number of calls, and `closeChildren`
   * says that there are no others. The children given here are the first. All run when they are added; the task runs when
   * they are closed and have ended, or at `until`. If its key or its id is taken, nothing is added, and the receipt is that
   * of the task that has it: a caller that was lost goes on with that. {@link cancelTree} gives it up.
   */
  async submitOpen(
    task: NewTask,
    children: readonly NewTask[] = [],
    options: Pick<ChildrenOptions, "name" | "until"> & CallOptions = {},
  ): Promise<Receipt> {
    const parent = encodeTask(task, this.#ids, this.#decorate);
    const encodings = children.map((child) => encodeTask(child, this.#ids, this.#decorate));
    const first = partOf(encodings, 0);
    const request = () => withChildren(parent, first, options, true);
    const answer = await this.#call(TaskService.method.submitWithChildren, request, options);
    const receipt = receiptOf(answer.receipt, parent);
    const rest = encodings.slice(first.length);
    if (answer.open && rest.length > 0) await this.#addParts(receipt.id, first.length, rest, options, false);
    return receipt;
  }

  /**
   * Adds children to a task of `submitOpen`. from is the number of the first of them, counted from 0, or how many were added
   * before. Those that the task has already, by their numbers, are not added again: the call may be repeated with the same
   * children. Without children it says how many there are.
   *
   * Throws ChildrenClosed if the children were closed or the task was woken, TaskEnded if the task has ended,
   * TooManyChildren, BacklogFull, and NotAllowed also if children before from are missing.
   */
  async addChildren(
    id: string,
    from: number,
    children: readonly NewTask[] = [],
    options: Pick<ChildrenOptions, "name"> & CallOptions = {},
  ): Promise<ChildrenAdded> {
    const encodings = children.map((child) => encodeTask(child, this.#ids, this.#decorate));
    return this.#addParts(id, from, encodings, options, false);
  }

  /**
   * Adds the last children of a task of `submitOpen`, if there are any, and says that there are no others: the task has from
   * and as many as these. It runs when they have ended, or as the options say. The call may be repeated, also when the task
   * is done, and throws what `addChildren` does.
   */
  async closeChildren(
    id: string,
    from: number,
    children: readonly NewTask[] = [],
    options: Omit<ChildrenOptions, "until"> & CallOptions = {},
  ): Promise<ChildrenAdded> {
    const encodings = children.map((child) => encodeTask(child, this.#ids, this.#decorate));
    return this.#addParts(id, from, encodings, options, true);
  }

  /** Adds children from a number on, in as many requests as they need, of which the last may close them. */
  async #addParts(
    id: string,
    from: number,
    children: readonly Encoded[],
    options: ChildrenOptions & CallOptions,
    closes: boolean,
  ): Promise<ChildrenAdded> {
    for (let sent = 0; ; ) {
      const part = partOf(children, sent);
      const start = from + sent;
      sent += part.length;
      const isLast = sent === children.length;
      const request = () => moreChildren(id, start, part, options, closes && isLast);
      const { added, open } = await this.#call(TaskService.method.addChildren, request, options);
      if (isLast) return { added, open };
    }
  }

  // --- reading tasks

  /** A task, with its payload and result. */
  async get(id: string, options?: CallOptions): Promise<Task> {
    return taskOf(await this.#call(TaskService.method.get, () => ({ id }), options));
  }

  /** The task that has a key. */
  async find(type: string, key: string, options: CallOptions & { orderingKey?: string } = {}): Promise<Task> {
    const { orderingKey = "" } = options;
    return taskOf(await this.#call(TaskService.method.get, () => ({ type, key, orderingKey }), options));
  }

  /** Tasks without payload and result, the newest first. Each page is a call of its own. */
  async *tasks(filter: ListFilter = {}, options?: CallOptions): AsyncGenerator<Task, void, undefined> {
    const { states = [], types = [], key = "" } = checkedFilter(filter);
    let { where = "" } = filter;
    let pageToken = "";
    do {
      const request = () => ({ states, types, key, where, pageToken });
      const page = await this.#call(TaskService.method.list, request, options);
      for (const task of page.tasks) yield toNative(TaskSchema, task);
      pageToken = page.nextPageToken;
      where = page.where; // durations in it count from the first page
    } while (pageToken);
  }

  /** The kinds of errors of tasks. `tasks({ where: "error.kind=..." })` lists the tasks of one. */
  async errorKinds(filter: ErrorFilter = {}, options?: CallOptions): Promise<ErrorKinds> {
    const { types = [], where = "", limit = 100 } = checkedFilter(filter);
    const answer = await this.#call(TaskService.method.listErrors, () => ({ types, where, limit }), options);
    const { tasks, others, read, complete } = answer;
    return {
      ...{ tasks: Number(tasks), others: Number(others), read: Number(read), complete },
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
      const page = await this.#call(TaskService.method.tree, () => ({ id, limit: 1000, pageToken }), options);
      for (const one of page.tasks) yield { task: taskOf(one), depth: one.depth };
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** How many tasks there are, by state and type; those of zero are left out. */
  async count(filter: TaskFilter = {}, options?: CallOptions): Promise<StateCount[]> {
    const { states = [], types = [] } = checkedFilter(filter);
    const { counts } = await this.#call(TaskService.method.count, () => ({ states, types }), options);
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
      const limit = { timeout: Math.min(POLL + this.#timeout, deadline.left), ...(signal && { signal }) };
      let error: ClientError = new DeadlineExceeded(
        `task ${id} has not ended, and the timeout is over`,
        "deadline_exceeded",
      );
      try {
        const answer = await this.#call(TaskService.method.wait, () => ({ ids: [id], timeout: duration(poll) }), limit);
        if (answer.settled) {
          const rest = Math.max(1, Math.min(deadline.left, this.#timeout));
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
    const { reasons } = await this.#call(TaskService.method.why, () => ({ id }), options);
    return reasons.map((reason) => toNative(ReasonSchema, reason));
  }

  // --- changing tasks: each returns the task after the change

  /** Ends a task as cancelled. If it is running, its handler is stopped. */
  async cancel(id: string, reason = "", { version = 0, ...options }: ChangeOptions = {}): Promise<Task> {
    return taskOf(
      await this.#call(TaskService.method.cancel, () => ({ id, reason, version: BigInt(version) }), options, false),
    );
  }

  /**
   * Cancels a task and all tasks below it that have not ended, whether the task has ended or not. After an error it may be
   * called again, and goes on with the rest.
   */
  async cancelTree(id: string, reason = "", options: CallOptions = {}): Promise<CancelledTree> {
    const deadline = new Deadline(options.timeout ?? this.#timeout);
    for (let cancelled = 0; ; ) {
      const part = { ...options, timeout: deadline.left };
      const answer = await this.#call(TaskService.method.cancel, () => ({ id, reason, tree: true }), part);
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
    const answer = await this.#call(TaskService.method.signal, () => signalOf(name, data, options, requestId), options);
    return { outcome: answer.outcome, task: taskOf(answer) };
  }

  /** Ends a task as failed. For a task in the state error it acknowledges the error. */
  async fail(id: string, reason = "", { version = 0, ...options }: ChangeOptions = {}): Promise<Task> {
    return taskOf(
      await this.#call(TaskService.method.fail, () => ({ id, reason, version: BigInt(version) }), options, false),
    );
  }

  /** Makes a task ready now that waits, or that ended without being done. */
  async resume(id: string, { version = 0, ...options }: ChangeOptions = {}): Promise<Task> {
    return taskOf(
      await this.#call(TaskService.method.resume, () => ({ id, version: BigInt(version) }), options, false),
    );
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
    return taskOf(await this.#call(TaskService.method.reschedule, request, options, false));
  }

  // --- workflows, which cancelTree cancels

  /** Adds a workflow. It is repeated as `submit` is. `decorate` of the client is not called for it. */
  async submitWorkflow(workflow: NewWorkflow, options?: CallOptions): Promise<Receipt> {
    const { key = "" } = workflow;
    const isOwn = workflow.id === undefined;
    const id = workflow.id ?? this.#ids.next(WORKFLOW, key, "");
    const { receipt } = await this.#call(TaskService.method.submitWorkflow, () => newWorkflow(workflow, id), options);
    return receiptOf(receipt, { id, isOwn });
  }

  /** A workflow with its steps. */
  async workflow(id: string, options?: CallOptions): Promise<Workflow> {
    return workflowOf(await this.#call(TaskService.method.getWorkflow, () => ({ id }), options));
  }

  /** The workflow that has a key. */
  async workflowOf(key: string, options?: CallOptions): Promise<Workflow> {
    return workflowOf(await this.#call(TaskService.method.getWorkflow, () => ({ key }), options));
  }

  /** Makes a workflow run again that has failed, was cancelled or is in error. */
  async retryWorkflow(
    id: string,
    { from = "", version = 0, ...options }: WorkflowRetry & ChangeOptions = {},
  ): Promise<Workflow> {
    const request = () => ({ id, from, version: BigInt(version) });
    return workflowOf(await this.#call(TaskService.method.retryWorkflow, request, options, false));
  }

  // --- limits

  /** All limits as they are in force. */
  async limits(options?: CallOptions): Promise<Limit[]> {
    const { limits } = await this.#call(TaskService.method.listLimits, () => ({}), options);
    return limits.map((limit) => toNative(LimitSchema, limit));
  }

  /** A limit, as a whole or for one of its values. */
  async limit(name: string, value = "", options?: CallOptions): Promise<Limit> {
    return limitOf(await this.#call(TaskService.method.getLimit, () => ({ name, value }), options));
  }

  /**
   * Changes a limit on all nodes until it is unset. What is left out stays as it is. With ifVersion it is changed only if
   * its setting is at that version, and throws Conflict otherwise.
   */
  async setLimit(name: string, change: LimitChange, options?: CallOptions): Promise<Limit> {
    const request = () => {
      const { value = "", max, rate, paused, ifVersion, by = "" } = change;
      return {
        ...{ name, value, by },
        ...(max !== undefined && { max }),
        ...(rate !== undefined && { rate: fromNative(RateSchema, rate) }),
        ...(paused !== undefined && { paused }),
        ...(ifVersion !== undefined && { ifVersion: BigInt(ifVersion) }),
      };
    };
    return limitOf(await this.#call(TaskService.method.setLimit, request, options, change.ifVersion === undefined));
  }

  /** Removes what setLimit has set. */
  async unsetLimit(
    name: string,
    { value = "", by = "", ifVersion, ...options }: CallOptions & Pick<LimitChange, "value" | "by" | "ifVersion"> = {},
  ): Promise<Limit> {
    const request = () => ({ name, value, by, ...(ifVersion !== undefined && { ifVersion: BigInt(ifVersion) }) });
    return limitOf(await this.#call(TaskService.method.unsetLimit, request, options, false));
  }

  // --- schedules

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
      const page = await this.#call(TaskService.method.listSchedules, request, options);
      for (const schedule of page.schedules) yield toNative(ScheduleSchema, schedule);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** A schedule. */
  async schedule(name: string, options?: CallOptions): Promise<Schedule> {
    return scheduleOf(await this.#call(TaskService.method.getSchedule, () => ({ name }), options));
  }

  /**
   * Makes a schedule be as a definition says. Returns created, updated or unchanged; a repetition of a call whose answer
   * was lost returns unchanged.
   */
  async applySchedule(name: string, definition: ScheduleDefinition, options?: CallOptions): Promise<string> {
    const request = () => ({ name, definition: fromNative(ScheduleDefinitionSchema, definition) });
    return (await this.#call(TaskService.method.applySchedule, request, options)).outcome;
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
      const page = await this.#call(TaskService.method.applySchedules, request, options);
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
      this.#call(TaskService.method.pauseSchedules, () => ({ select: part, reason }), options),
    );
  }

  /** Ends the pauses of the schedules that are selected, as pauseSchedules begins them. */
  async resumeSchedules(select: ScheduleSelection, options?: CallOptions): Promise<SchedulesChanged> {
    return this.#change(select, (part) =>
      this.#call(TaskService.method.resumeSchedules, () => ({ select: part }), options),
    );
  }

  /** Deletes the schedules that are selected, in parts as pauseSchedules. */
  async deleteSchedules(select: ScheduleSelection, options?: CallOptions): Promise<SchedulesChanged> {
    return this.#change(select, (part) =>
      this.#call(TaskService.method.deleteSchedules, () => ({ select: part }), options),
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
    const { times } = await this.#call(TaskService.method.previewSchedule, request, options);
    return times.map((time) => toNative(ScheduleTimeSchema, time));
  }

  /** Ends a schedule. Tasks that it has added are not affected. */
  async deleteSchedule(name: string, options?: CallOptions): Promise<void> {
    await this.#call(TaskService.method.deleteSchedule, () => ({ name }), options, false);
  }

  /** Stops a schedule from firing until resumeSchedule. */
  async pauseSchedule(name: string, reason = "", options?: CallOptions): Promise<Schedule> {
    return scheduleOf(await this.#call(TaskService.method.pauseSchedule, () => ({ name, reason }), options));
  }

  /** Ends a pause. */
  async resumeSchedule(name: string, options?: CallOptions): Promise<Schedule> {
    return scheduleOf(await this.#call(TaskService.method.resumeSchedule, () => ({ name }), options));
  }

  /** Has a schedule add a task now, and returns the id of the task. Each call adds another one. */
  async triggerSchedule(name: string, options?: CallOptions): Promise<string> {
    return (await this.#call(TaskService.method.triggerSchedule, () => ({ name }), options, false)).taskId;
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
    return Number((await this.#call(TaskService.method.backfillSchedule, request, options, dryRun)).tasks);
  }

  // --- sources

  /** The sources of tasks in the configuration of the node, by name, without their partitions. */
  async sources(options?: CallOptions): Promise<Source[]> {
    const { sources } = await this.#call(TaskService.method.listSources, () => ({}), options);
    return sources.map((source) => toNative(SourceSchema, source));
  }

  /** A source with its partitions. */
  async source(name: string, options?: CallOptions): Promise<Source> {
    return sourceOf(await this.#call(TaskService.method.getSource, () => ({ name }), options));
  }

  /** Stops a source from reading until resumeSource. It is carried out when orders of source() is 0. */
  async pauseSource(name: string, reason = "", options?: CallOptions): Promise<Source> {
    return sourceOf(await this.#call(TaskService.method.pauseSource, () => ({ name, reason }), options));
  }

  /** Ends a pause. It is carried out when orders of source() is 0. */
  async resumeSource(name: string, options?: CallOptions): Promise<Source> {
    return sourceOf(await this.#call(TaskService.method.resumeSource, () => ({ name }), options));
  }

  /**
   * Moves the positions of a source, and returns where each partition goes; none if the brokers do not say that now. With
   * dryRun it only returns that. Records that are read again become tasks once more.
   */
  async seekSource(
    name: string,
    { topic = "", partition, begin, end, time, offset, dryRun = false, ...options }: CallOptions & SourceSeek,
  ): Promise<SourceMove[]> {
    const request = () => {
      const targets = [begin, end, time, offset].filter((target) => target !== undefined && target !== false);
      if (targets.length !== 1) throw new TypeError("give one of begin, end, time and offset");
      const to = begin
        ? ({ case: "begin", value: true } as const)
        : end
          ? ({ case: "end", value: true } as const)
          : time !== undefined
            ? ({ case: "time", value: timestamp(time) } as const)
            : ({ case: "offset", value: BigInt(offset ?? 0) } as const);
      return { name, topic, dryRun, to, ...(partition !== undefined && { partition }) };
    };
    const { moves } = await this.#call(TaskService.method.seekSource, request, options, dryRun);
    return moves.map((move) => toNative(SourceMoveSchema, move));
  }

  // --- time slices. Orders are durable when the call returns, and carried out when orders of platform() is 0

  /** The sources of time slices in the configuration of the node, by name, without their values and history. */
  async sliceSources(options?: CallOptions): Promise<SliceSource[]> {
    const { sources } = await this.#call(TaskService.method.listSliceSources, () => ({}), options);
    return sources.map((source) => toNative(SliceSourceSchema, source));
  }

  /** A source of time slices with its values and its history. */
  async sliceSource(name: string, options?: CallOptions): Promise<SliceSource> {
    return sliceSourceOf(await this.#call(TaskService.method.getSliceSource, () => ({ name }), options));
  }

  /**
   * The platforms of a source with names that begin with prefix, by name, also removed ones. Each page is a call of its own.
   */
  async *platforms(source: string, prefix = "", options?: CallOptions): AsyncGenerator<Platform, void, undefined> {
    let pageToken = "";
    do {
      const request = () => ({ source, prefix, limit: 1000, pageToken });
      const page = await this.#call(TaskService.method.listPlatforms, request, options);
      for (const platform of page.platforms) yield toNative(PlatformSchema, platform);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** A platform with its settings, its open slices and its history. */
  async platform(source: string, platform: string, options?: CallOptions): Promise<Platform> {
    return platformOf(await this.#call(TaskService.method.getPlatform, () => ({ source, platform }), options));
  }

  /**
   * Sets values of a platform or, without one, of all platforms of the source that have none of their own: as texts of a
   * configuration, by their names. An empty text unsets a value. Returns the platform, and undefined for a source.
   */
  async setSlices(
    source: string,
    values: Record<string, string>,
    { platform = "", by = "", reason = "", ...options }: CallOptions & SliceTarget = {},
  ): Promise<Platform | undefined> {
    const request = () => ({ source, platform, values: { ...values }, by, reason });
    return anyPlatformOf(await this.#call(TaskService.method.setSlices, request, options));
  }

  /** Adds a platform to a source, or one again that was removed: it goes on at its cursor. */
  async addPlatform(
    source: string,
    platform: string,
    { by = "", reason = "", ...options }: CallOptions & SliceOrder = {},
  ): Promise<Platform> {
    const request = () => ({ source, platform, by, reason });
    return platformOf(await this.#call(TaskService.method.addPlatform, request, options));
  }

  /** Stops a platform from making slices until addPlatform. Its open slices go on. */
  async removePlatform(
    source: string,
    platform: string,
    { by = "", reason = "", ...options }: CallOptions & SliceOrder = {},
  ): Promise<Platform> {
    const request = () => ({ source, platform, by, reason });
    return platformOf(await this.#call(TaskService.method.removePlatform, request, options));
  }

  /** Stops a platform or, without one, all platforms of the source from making slices until resumeSlices. */
  async pauseSlices(
    source: string,
    { platform = "", by = "", reason = "", ...options }: CallOptions & SliceTarget = {},
  ): Promise<Platform | undefined> {
    const request = () => ({ source, platform, by, reason });
    return anyPlatformOf(await this.#call(TaskService.method.pauseSlices, request, options));
  }

  /** Ends pauses, as pauseSlices begins them. */
  async resumeSlices(
    source: string,
    { platform = "", by = "", reason = "", ...options }: CallOptions & SliceTarget = {},
  ): Promise<Platform | undefined> {
    const request = () => ({ source, platform, by, reason });
    return anyPlatformOf(await this.#call(TaskService.method.resumeSlices, request, options));
  }

  /**
   * Moves the cursor of a platform: slices are made from there on, also of times that had slices before. Throws Conflict, and
   * changes nothing, if `from` is given and the cursor is not there. The call is not repeated.
   */
  async resetPlatform(
    source: string,
    platform: string,
    to: Date | number,
    { from, by = "", reason = "", ...options }: CallOptions & SliceOrder & { from?: Date | number } = {},
  ): Promise<Platform> {
    const request = () => ({
      ...{ source, platform, to: timestamp(to), by, reason },
      ...(from !== undefined && { from: timestamp(from) }),
    });
    return platformOf(await this.#call(TaskService.method.resetPlatform, request, options, false));
  }

  /**
   * Has the failed slices of a platform or, without one, of all platforms of the source run again: those with a part between
   * `from` and `until`; left out, they are no bounds. The call is not repeated.
   */
  async retrySlices(
    source: string,
    {
      platform = "",
      from,
      until,
      by = "",
      reason = "",
      ...options
    }: CallOptions & SliceTarget & { from?: Date | number; until?: Date | number } = {},
  ): Promise<Platform | undefined> {
    const request = () => ({
      ...{ source, platform, by, reason },
      ...(from !== undefined && { from: timestamp(from) }),
      ...(until !== undefined && { until: timestamp(until) }),
    });
    return anyPlatformOf(await this.#call(TaskService.method.retrySlices, request, options, false));
  }
}
