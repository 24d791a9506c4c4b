// What a handler may answer besides a plain result and a plain error.

/** More about a failure. */
export interface FailureOptions {
  /** What kind it is, for the rules of the type's retry policy. */
  class?: string;
  /** What led to it. */
  cause?: unknown;
}

/** The task failed, and no retry can mend it. Throw it. */
export class Permanent extends Error {
  override readonly name: string = "Permanent";
  readonly class: string;

  constructor(message: string, options: FailureOptions = {}) {
    super(message, options);
    this.class = options.class ?? "";
  }
}

/**
 * The attempt failed, and has certainly not done its work: it is tried again as the type's retry policy says, also with
 * `at_most_once`. Throw it.
 */
export class Retry extends Error {
  override readonly name: string = "Retry";
  readonly class: string;

  constructor(message: string, options: FailureOptions = {}) {
    super(message, options);
    this.class = options.class ?? "";
  }
}

/**
 * The attempt failed, and may have done its work all the same, such as one that got no answer from a payment service. With
 * `at_most_once` it is not tried again, and a person decides; otherwise the type's retry policy does. Throw it. An error
 * that is none of this package is in doubt, too.
 */
export class InDoubt extends Error {
  override readonly name: string = "InDoubt";
  readonly class: string;

  constructor(message: string, options: FailureOptions = {}) {
    super(message, options);
    this.class = options.class ?? "";
  }
}

/** The attempt failed and has certainly not done its work, and the next one shall come after a delay of its own choice. Throw it. */
export class RetryIn extends Error {
  override readonly name: string = "RetryIn";
  readonly class: string;
  /** Milliseconds until the next attempt, instead of the policy's delay. */
  readonly delay: number;

  /** @param delay milliseconds, 0 or more */
  constructor(delay: number, message: string, options: FailureOptions = {}) {
    super(message, options);
    this.delay = finite(delay, "a delay");
    this.class = options.class ?? "";
  }
}

/** Not yet: call me again later. The attempt is not counted. Return it. */
export class Snooze {
  /** Milliseconds until the next call. */
  readonly delay: number;

  /** @param delay milliseconds, 0 or more */
  constructor(delay: number) {
    this.delay = finite(delay, "a delay");
  }
}

/** What a task has when it runs again. Each is whatever a handler may return as its result. */
export interface AgainOptions {
  /** The new payload; without it the task keeps the one that it has. */
  payload?: unknown;
  /** A checkpoint of at most 1 MiB; without it the task has none. */
  checkpoint?: unknown;
}

/**
 * Done for now, with this result, and due again at a given time; for recurring tasks. Return it.
 * With a host that takes neither payload nor checkpoint, they make the answer a permanent error of
 * class "unsupported".
 */
export class Again {
  /** Unix time in milliseconds. */
  readonly at: number;
  /** Milliseconds, in place of `at`; undefined if there are none. */
  readonly delay: number | undefined;
  readonly result: unknown;
  readonly payload: unknown;
  readonly checkpoint: unknown;

  /**
   * @param at an instant, or Unix time in milliseconds
   * @param result whatever a handler may return as its result
   */
  constructor(at: Date | number, result?: unknown, { payload, checkpoint }: AgainOptions = {}) {
    this.at = finite(Number(at), "a time");
    this.result = result;
    this.payload = payload;
    this.checkpoint = checkpoint;
  }

  /** Due again after so many milliseconds, whatever the clock of this machine says. */
  static after(delay: number, options: AgainOptions = {}): Again {
    return Object.assign(new Again(0, undefined, options), { delay: finite(delay, "a delay") });
  }

  /** @internal */
  with(checkpoint: Uint8Array): Again {
    const { at, delay, result, payload } = this;
    return Object.assign(new Again(at, result, { payload, checkpoint }), { delay });
  }
}

/** How a task waits. */
export interface WaitOptions extends AgainOptions {
  /** How many milliseconds to wait at most. */
  timeout?: number | undefined;
  /** When the wait ends at last: an instant, or Unix time in milliseconds. */
  until?: Date | number | undefined;
  /** Whatever a handler may return as its result. */
  result?: unknown;
}

/**
 * Done for now, and the task goes on when it gets a signal of one of these names, or at the end of the wait. Without
 * `timeout` and `until` it waits for ever. A task that waits takes no slot. `task.woken` tells the attempt that follows
 * which it was. Return it. With a host that does not support waits, the answer becomes a permanent error of class
 * "unsupported".
 */
export class WaitFor {
  readonly names: readonly string[];
  readonly timeout: number | undefined;
  /** Unix time in milliseconds. */
  readonly until: number | undefined;
  readonly result: unknown;
  readonly payload: unknown;
  readonly checkpoint: unknown;

  constructor(names: string | readonly string[], options: WaitOptions = {}) {
    const { timeout, until, result, payload, checkpoint } = options;
    this.names = typeof names === "string" ? [names] : [...names];
    if (this.names.length === 0 || !this.names.every((name) => typeof name === "string")) {
      throw new TypeError('name the signals: new WaitFor("paid")');
    }
    if (timeout !== undefined && until !== undefined) throw new RangeError("give either a timeout or until");
    this.timeout = timeout === undefined ? undefined : finite(timeout, "a timeout");
    this.until = until === undefined ? undefined : finite(Number(until), "a time");
    this.result = result;
    this.payload = payload;
    this.checkpoint = checkpoint;
  }

  /** @internal */
  with(checkpoint: Uint8Array): WaitFor {
    return new WaitFor(this.names, { ...this, checkpoint });
  }
}

/** What a task waits for of its children of one name. */
export interface ChildrenWait {
  name: string;
  /** How many have ended; all that were added without it. */
  count?: number | undefined;
  /** The wait is also over when one of them has failed or was cancelled. */
  orFailed?: boolean | undefined;
}

/**
 * As {@link WaitFor}, but the task goes on when one of these waits for its children is over; a name stands for all children
 * of that name. `task.children` tells the attempt that follows how they have ended. `task.addChildren` adds children. With a
 * host that does not support that, the answer becomes a permanent error of class "unsupported".
 */
export class WaitForChildren extends WaitFor {
  readonly waits: readonly ChildrenWait[];

  constructor(waits: string | ChildrenWait | readonly (string | ChildrenWait)[], options: WaitOptions = {}) {
    super("children", options);
    const all = Array.isArray(waits) ? (waits as readonly (string | ChildrenWait)[]) : [waits as string | ChildrenWait];
    this.waits = all.map((wait) => (typeof wait === "string" ? { name: wait } : wait));
    if (this.waits.length === 0 || !this.waits.every((wait) => typeof wait?.name === "string")) {
      throw new TypeError('name the children: new WaitForChildren("page")');
    }
  }

  /** @internal */
  override with(checkpoint: Uint8Array): WaitForChildren {
    return new WaitForChildren(this.waits, { ...optionsOf(this), checkpoint });
  }
}

function optionsOf({ timeout, until, result, payload }: WaitFor): WaitOptions {
  return { timeout, until, result, payload };
}

/** It is not known which tasks would be refused. */
export class NotChecked extends Error {
  override readonly name: string = "NotChecked";
}

/** A document was not read. */
export class NotRead extends Error {
  override readonly name: string = "NotRead";
}

/** A checkpoint is not stored, or whether it is is unknown. */
export class NotStored extends Error {
  override readonly name: string = "NotStored";
}

/**
 * The error of a step that has failed in an earlier attempt, in which the handler went on to another step. The node treats
 * it as the error of the step.
 */
export class StepError extends Error {
  override readonly name: string = "StepError";
  readonly class: string;
  readonly permanent: boolean;

  constructor(message: string, errorClass = "", permanent = false) {
    super(message);
    this.class = errorClass;
    this.permanent = permanent;
  }
}

/**
 * The handler has ended the attempt itself, by a function of the database that has the tasks, in a
 * transaction that has committed. Return it. The node looks what the task is now. If the attempt has
 * not ended, it has failed.
 */
export class Ended {
  /** Tells it from other classes, which TypeScript compares by their members. */
  readonly ended = true;
}

/** Why a task was cancelled: its `signal` has this as its reason. */
export class Cancelled extends Error {
  override readonly name: string = "Cancelled";
  /**
   * "deadline": it ran too long. "cancelled": the task was cancelled, or the node stops.
   * "host gone": the host no longer takes an answer.
   */
  readonly reason: "deadline" | "cancelled" | "host gone";

  constructor(reason: Cancelled["reason"], message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Whether a value is an answer of its own, and no result. A thrown value may be anything, even an object whose properties throw. */
export function isAnswer(value: unknown): value is Snooze | Again | WaitFor | Ended {
  try {
    return value instanceof Again || value instanceof WaitFor || isEnd(value);
  } catch {
    return false;
  }
}

/** Whether a value is an answer after which the task has done nothing more. */
export function isEnd(value: unknown): value is Snooze | Ended {
  return value instanceof Snooze || value instanceof Ended;
}

function finite(n: number, what: string): number {
  if (!Number.isFinite(n)) throw new RangeError(`${what} is a number of milliseconds, not ${n}`);
  return n;
}
