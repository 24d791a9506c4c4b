// The task of a handler.

import type {
  Again,
  Cancelled,
  Ended,
  NotChecked,
  NotRead,
  NotStored,
  Permanent,
  RetryIn,
  Snooze,
  StepError,
  WaitFor,
  WaitForChildren,
} from "./answers.js";
import type { BatchHandler } from "./batch.js";
import type { Refusal } from "./check.js";
import type { Document, DocumentOptions } from "./document.js";
import type { ChildSet, EndedChildren, Parent } from "./family.js";
import type { steps } from "./steps.js";
import type { Woken } from "./woken.js";

/** One attempt of one task. It belongs to the handler that gets it. */
export interface Task {
  /** The task's id, a UUID in its textual form. */
  readonly id: string;
  /**
   * With `id` the fencing token: it names this attempt and no other, and a later attempt
   * always has a higher version.
   */
  readonly version: bigint;
  readonly type: string;
  /** 1 for the first. */
  readonly attempt: number;
  /** How many earlier attempts crashed their process. */
  readonly crashes: number;
  /** 0 (highest) to 9. */
  readonly priority: number;
  /** Unique per type; empty if there is none. */
  readonly key: string;
  /** Tasks that share it run one at a time, in the order in which they are ready; empty if there is none. */
  readonly orderingKey: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The trace context of the submitter, from the headers. */
  readonly traceparent: string | undefined;
  /** When the attempt will be cancelled: Unix time in milliseconds, by the clock of this machine. */
  readonly deadline: number | undefined;
  /** How many milliseconds are left until then, at least 0. Setting the clock does not change it. */
  readonly timeLeft: number | undefined;
  /** What an earlier attempt kept with `saveCheckpoint`; empty if nothing. */
  readonly checkpoint: Uint8Array;

  /** The input. The memory belongs to the handler. */
  readonly payload: Uint8Array;
  /** The payload as UTF-8. What is not UTF-8 is a permanent error of class "bad_payload". */
  text(): string;
  /**
   * The payload as JSON. What is not JSON, or what `parse` throws for, is a permanent
   * error of class "bad_payload".
   *
   * @param parse checks the value and gives it its type, such as a schema's `parse`;
   *   without it the type is taken on trust
   */
  json<T = unknown>(parse?: (value: unknown) => T): T;

  /**
   * Aborts when the task is cancelled or its deadline is over; its reason is a
   * {@link Cancelled}. Pass it on to whatever takes a signal. A handler that goes on for
   * longer than the host's grace is killed, with its process.
   */
  readonly signal: AbortSignal;

  /** Logs for this task, to the host's log. */
  readonly log: TaskLog;
  /**
   * Reports how far the task is, for people. Call it as often as you like: the newest report is
   * sent every 100 ms. It does nothing if the host does not show progress.
   */
  progress(done: number, total?: number, message?: string): void;
  /**
   * Keeps data for the next attempt of the task, if this one fails. The newest data counts. The promise
   * resolves when the node has stored it, and is rejected with a {@link NotStored} if it has not; it need
   * not be awaited. Nothing happens if the host keeps no checkpoints.
   *
   * @param data bytes, text or a JSON value, at most 1 MiB of it
   */
  saveCheckpoint(data: unknown): Promise<void>;
  /**
   * What ended the newest wait of the task, until an attempt has done its work; undefined if nothing
   * did. See {@link WaitFor}.
   */
  readonly woken: Woken | undefined;

  /**
   * Adds a task that exists if and only if this one succeeds. It is sent with the result, also
   * with that of an {@link Again}. If the host does not support children, the task fails
   * permanently, with class "unsupported".
   */
  spawn(child: Child): void;

  /** How the children of the task have ended, by the name that they were added with. */
  readonly children: ReadonlyMap<string, ChildSet>;
  /** The task that this one is a child of; undefined if it is none. */
  readonly parent: Parent | undefined;
  /**
   * Adds children if and only if this task succeeds, runs again or waits. Unlike a task that is spawned, it learns of their
   * ends: see {@link WaitForChildren} and `children`. The children of one name are numbered, across all attempts of the
   * task, and have no key. With a host that does not support that, it throws a permanent error of class "unsupported".
   */
  addChildren(name: string, children: readonly Child[]): void;
  /**
   * Which of these children would be refused if the task ended with them now; none if all would be added. A handler asks
   * before it does what it cannot undo. Nothing is reserved, so the answer is advice: a backlog may be full later.
   *
   * The promise is rejected with a {@link NotChecked} if the host cannot say it, and with a permanent error of class
   * "unsupported" if it never does.
   */
  checkChildren(name: string, children: readonly Child[]): Promise<Refusal[]>;
  /** The same for a task to spawn: why it would be refused, or undefined. */
  checkSpawn(child: Child): Promise<Refusal | undefined>;
  /**
   * Sends a signal to another task if and only if this one succeeds, runs again or waits. With a host that does not support
   * that, it throws a permanent error of class "unsupported".
   */
  sendSignal(signal: Signal): void;
  /**
   * Reads a document, a small state that tasks share. Its version is 0n if there is none of the key. The promise is rejected
   * with a {@link NotRead} if the host cannot read it, and with a permanent error of class "unsupported" if it never does.
   */
  readDocument(key: string): Promise<Document>;
  /**
   * Writes a document if and only if this task succeeds, runs again or waits: one that the task has read, or that of a key.
   * The write of a document that was read replaces its version, and keeps the time at which it expires. If the document has
   * another version, nothing of this answer is stored, the attempt does not count, and the task runs again soon. With a host
   * that does not support documents, it throws a permanent error of class "unsupported".
   *
   * @param data bytes, text, a JSON value or nothing, at most 256 KiB of it
   */
  writeDocument(document: Document | string, data: unknown, options?: DocumentOptions): void;
  /** Deletes a document in the same way, whether it exists or not. */
  deleteDocument(document: Document | string, options?: Pick<DocumentOptions, "ifVersion">): void;
}

/** The task of a handler in {@link steps}. */
export interface StepTask extends Task {
  /**
   * Runs a step, unless an attempt has done so before. Resolves to what JSON makes of what `work` returns.
   *
   * What `work` throws is thrown and not kept: the next attempt runs the step again. It is kept if the handler goes on
   * to another step: later attempts throw a {@link StepError} here then. If the task was cancelled, no step begins.
   */
  step<T>(name: string, work: () => T | PromiseLike<T>): Promise<T>;
  /**
   * Ends the attempt. The task waits, and takes no slot. The handler is called again when a signal of one of these names
   * has come, at the end of `timeout` (milliseconds), or when a user resumes the task, and the promise then resolves to
   * which it was.
   */
  waitFor(names: string | readonly string[], options?: { timeout?: number }): Promise<Woken>;
  /** Ends the attempt. The handler is called again after so many milliseconds. */
  sleep(delay: number): Promise<void>;
  /**
   * Ends the attempt, and adds children with that. They run beside each other. The handler is called again when all of them
   * have ended, and the promise then resolves to how. A child that has failed throws nothing. One that is in error has not
   * ended: a person decides about it.
   */
  runChildren(name: string, children: readonly Child[]): Promise<EndedChildren>;
  /**
   * The key of the step that runs, or that is next: the same in all attempts, and another one for each step of each
   * task. A receiver that remembers it does the work of the step once.
   */
  readonly stepKey: string;
  /** The version of the code with which the task began. */
  readonly stepVersion: number;
}

/** A signal to send with {@link Task.sendSignal}: to the task with the id `to`, or to that of a type with a key. */
export interface Signal {
  name: string;
  /** Bytes, text, a JSON value or nothing. */
  data?: unknown;
  /** The id of the task. */
  to?: string | undefined;
  /** The type of the task. With `to` it may be missing; a worker with a token for some types gives it. */
  type?: string | undefined;
  /** The key of the task, if there is no `to`. */
  key?: string | undefined;
  /** The ordering key of the task that has the key. */
  orderingKey?: string | undefined;
  /** A task gets signals of one id once: a UUID; a new one without it. */
  id?: string | undefined;
  /** A task that does not wait for the signal keeps it; otherwise it is dropped. */
  keep?: boolean | undefined;
}

/** A task to add with {@link Task.spawn} or {@link Task.addChildren}. */
export interface Child {
  type: string;
  /** Unique per type; not of {@link Task.addChildren}. */
  key?: string;
  /** Tasks that share it run one at a time, in the order in which they are ready. */
  orderingKey?: string;
  /** Bytes, text, a JSON value or nothing. */
  payload?: unknown;
  headers?: Record<string, string>;
  /** When it is due: an instant, or Unix time in milliseconds. At once without it. */
  runAt?: Date | number;
  /** 0 (highest) to 9; its type's without it. */
  priority?: number;
  /**
   * The ids of up to 100 tasks that exist: it runs when all of them are done, and is cancelled if one of them fails or is
   * cancelled. It goes without `runAt`, and not with {@link Task.addChildren}. If one of them is not in the store, the
   * attempt fails: a task that the same answer adds is not there yet. With a host that does not support that, `spawn`
   * throws a permanent error of class "unsupported".
   */
  after?: readonly string[];
  /** With `after`: it runs when all of them have ended, however. */
  afterAny?: boolean;
}

/** Log lines of a task. Fields that are no text are sent as JSON, errors with their stack. */
export interface TaskLog {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/**
 * Does the work of a task. What it returns, or its promise resolves to, is the result:
 * bytes, text, nothing, or else a JSON value; or it is a {@link Snooze}, an
 * {@link Again}, a {@link WaitFor} or an {@link Ended}. What it throws is an error that is tried again as the type's policy
 * says, with the error's name as its class, unless it is a {@link Permanent} or a
 * {@link RetryIn}.
 */
export type Handler = (task: Task) => unknown;

/** Handlers by the task types they serve. */
export type Handlers = Readonly<Record<string, Handler | BatchHandler>>;
