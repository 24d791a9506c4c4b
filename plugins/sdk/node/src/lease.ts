// Until when a worker may begin what it has.

import { uptime } from "node:os";
import { performance } from "node:perf_hooks";
import type { ToHandler, Welcome } from "./gen/handler_pb.js";

/**
 * Milliseconds of a clock that goes on while the machine is suspended. Where none is known, it is the wall clock: setting
 * it ends a lease too early, or has no effect.
 */
function sinceBoot(): number {
  return process.platform === "linux" ? uptime() * 1000 : Date.now();
}

/** A moment, by a precise clock and by one that goes on while the machine is suspended. */
export interface Moment {
  precise: number;
  awake: number;
}

/** The clocks, which tests replace. */
export const clocks = { precise: () => performance.now(), awake: sinceBoot };

export function now(): Moment {
  return { precise: clocks.precise(), awake: clocks.awake() };
}

function since(then: Moment): number {
  return Math.max(clocks.precise() - then.precise, clocks.awake() - then.awake - 20); // the second is coarse
}

/**
 * A worker begins runs for some time after a moment at which the node has certainly heard it. Later the node may have given
 * them to others, and what lies in the connection may be of any age: the process or the machine may have stood still.
 */
export class Lease {
  #length = 0; // milliseconds; 0 is no bound
  #from = now(); // when the worker was heard, or before
  readonly #pings = new Map<bigint, Moment>(); // when pings came whose answers are not known to have arrived

  /** Begins with a connection, whose offer was sent at a moment. */
  renew(welcome: Welcome, offered: Moment): void {
    this.#length = Number(welcome.lease) / 1000;
    this.#from = offered;
    this.#pings.clear();
  }

  /** Takes what a frame says of pings. */
  hear({ heard, ping }: ToHandler): void {
    if (this.#length === 0) return;
    const at = this.#pings.get(heard);
    if (at) {
      this.#from = at;
      for (const number of this.#pings.keys()) if (number <= heard) this.#pings.delete(number);
    }
    if (ping !== 0n) this.#pings.set(ping, now()); // the answer is sent later
  }

  /** Why no run may begin, or undefined. */
  get over(): string | undefined {
    if (this.#length === 0) return undefined;
    const unheard = since(this.#from);
    if (unheard <= this.#length) return undefined;
    return `the node may not have heard this worker for ${Math.round(unheard)} ms, and may have given the task to another`;
  }
}
