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

function finite(n: number, what: string): number {
  if (!Number.isFinite(n)) throw new RangeError(`${what} is a number of milliseconds, not ${n}`);
  return n;
}
