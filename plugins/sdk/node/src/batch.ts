// Handlers that take several tasks at once.

import type { Task } from "./task.js";

/** When a batch is handed over: whatever comes first. */
export interface BatchOptions {
  /** The most tasks of one call, 1 or more. */
  size: number;
  /** How long the first task of a call waits for others, in milliseconds. */
  wait: number;
}

/** Does the work of several tasks of a type, and answers each. */
export type BatchFunction = (tasks: Task[]) => readonly unknown[] | Promise<readonly unknown[]>;

/** A handler of batches, made by {@link batch}. */
export interface BatchHandler extends Readonly<BatchOptions> {
  readonly handle: BatchFunction;
}

/**
 * Makes a handler that is called with up to `size` tasks: once there are so many, `wait`
 * after the first of them arrived, or when all slots are taken, because then no other task can
 * arrive. It returns an array with an answer for each task, in their order: what a handler of
 * one task may return, or an Error if this task failed. An exception fails all of the tasks,
 * and each is tried again.
 *
 * Tasks that wait for a call have a slot already: a process with fewer slots than `size`
 * gets calls of as many tasks as it has slots.
 */
export function batch(options: BatchOptions, handle: BatchFunction): BatchHandler {
  const { size, wait } = options;
  if (!Number.isInteger(size) || size < 1) throw new RangeError(`a batch has a size of 1 or more, not ${size}`);
  if (!(wait >= 0 && wait < 2 ** 31)) throw new RangeError(`a batch waits 0 ms or more, not ${wait}`);
  if (typeof handle !== "function") throw new TypeError("a batch needs a function that handles it");
  return { size, wait, handle };
}

/** The items of a type that wait for their call. */
export class Gathering<T> {
  readonly #size: number;
  readonly #wait: number;
  readonly #call: (items: T[]) => void;
  #items: T[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(size: number, wait: number, call: (items: T[]) => void) {
    this.#size = size;
    this.#wait = wait;
    this.#call = call;
  }

  add(item: T): void {
    this.#items.push(item);
    if (this.#items.length >= this.#size) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), this.#wait);
  }

  /** Removes an item that waits. */
  remove(item: T): void {
    this.#items = this.#items.filter((other) => other !== item);
    if (this.#items.length === 0) this.#stop();
  }

  /** Calls with the items that wait, because no others are expected soon. */
  flush(): void {
    this.#stop();
    if (this.#items.length === 0) return;
    const items = this.#items;
    this.#items = [];
    this.#call(items);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
