// The client.

import { fromBinary } from "@bufbuild/protobuf";
import { NewTaskSchema, TaskService } from "../gen/taskengine_pb.js";
import { nodesOf } from "./environment.js";
import { ClientError, Closed, Internal, Invalid } from "./errors.js";
import { Flow, type Submission } from "./flow.js";
import { Ids } from "./ids.js";
import type { ChildrenAdded, Workflow } from "./messages.js";
import { OperationCalls } from "./operations.js";
import type {
  CallOptions,
  ChangeOptions,
  ChildrenOptions,
  ClientOptions,
  NewWorkflow,
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
import { Sender } from "./sender.js";
import { moreChildren, newWorkflow, partOf, receiptOf, WORKFLOW, withChildren, workflowOf } from "./trees.js";

const MAX_TIMER = 2 ** 31 - 1;

/** Adds tasks to nodes, waits for them and manages them. */
export class Client extends OperationCalls {
  readonly #decorate: ClientOptions["decorate"];
  readonly #ids = new Ids();
  readonly #flow = new Flow();
  readonly #sender: Sender;

  /**
   * A client of nodes that share their tasks, at host:port, unix:PATH, or a URL of http or https. It uses one of them,
   * and another one when that does not answer or stops. A text may have several addresses, separated by commas; undefined
   * is what TASKENGINE_ADDRESS has, and then TASKENGINE_CA, TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY name files
   * with certificates that are not in the options. A program ends only after `close`.
   */
  constructor(addresses?: string | readonly string[], options: ClientOptions = {}) {
    super(nodesOf(addresses, options), options.timeout ?? 30_000);
    this.#decorate = options.decorate;
    this.#sender = new Sender(this.#flow, this.dialed, this.timeout);
  }

  /** Ends the connections. Calls under way throw Closed, and may have been carried out. */
  async close(): Promise<void> {
    this.closing.abort(new Closed("the client is closed: the request may have been carried out"));
    const ended = this.#sender.close();
    this.dialed.close(); // ends the calls that the sender waits for
    await ended;
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
    const { timeout = this.timeout } = options;
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
    const answer = await this.call(TaskService.method.submit, request, options);
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
    const answer = await this.call(TaskService.method.submitWithChildren, request, options);
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
      this.call(TaskService.method.addChildren, () => moreChildren(id, from, part, options, close), options);
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
    const answer = await this.call(TaskService.method.submitWithChildren, request, options);
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
      const { added, open } = await this.call(TaskService.method.addChildren, request, options);
      if (isLast) return { added, open };
    }
  }

  // --- workflows, which cancelTree cancels

  /** Adds a workflow. It is repeated as `submit` is. `decorate` of the client is not called for it. */
  async submitWorkflow(workflow: NewWorkflow, options?: CallOptions): Promise<Receipt> {
    const { key = "" } = workflow;
    const isOwn = workflow.id === undefined;
    const id = workflow.id ?? this.#ids.next(WORKFLOW, key, "");
    const { receipt } = await this.call(TaskService.method.submitWorkflow, () => newWorkflow(workflow, id), options);
    return receiptOf(receipt, { id, isOwn });
  }

  /** A workflow with its steps. */
  async workflow(id: string, options?: CallOptions): Promise<Workflow> {
    return workflowOf(await this.call(TaskService.method.getWorkflow, () => ({ id }), options));
  }

  /** The workflow that has a key. */
  async workflowOf(key: string, options?: CallOptions): Promise<Workflow> {
    return workflowOf(await this.call(TaskService.method.getWorkflow, () => ({ key }), options));
  }

  /** Makes a workflow run again that has failed, was cancelled or is in error. */
  async retryWorkflow(
    id: string,
    { from = "", version = 0, ...options }: WorkflowRetry & ChangeOptions = {},
  ): Promise<Workflow> {
    const request = () => ({ id, from, version: BigInt(version) });
    return workflowOf(await this.call(TaskService.method.retryWorkflow, request, options, false));
  }
}
