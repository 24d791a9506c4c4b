// Limits how often progress is sent.

import type { Progress } from "./gen/handler_pb.js";

const INTERVAL = 100; // milliseconds between two reports of a run

/** The progress of one run. It belongs to its {@link Pace}. */
export class Paced {
  /** The newest report, if it is not sent. */
  newest: Progress | undefined;
  /** When the next report may be sent; 0 if at once. */
  next = 0;
}

/**
 * Sends the first report of a run at once, and then the newest every 100 ms. All runs share
 * one timer, because all of them wait equally long.
 */
export class Pace {
  readonly #send: (progress: Progress) => void;
  readonly #now: () => number;
  #queue: Paced[] = []; // those that have sent within the interval, oldest first
  #timer: NodeJS.Timeout | undefined;

  /** @param now a clock in milliseconds that only goes forward */
  constructor(send: (progress: Progress) => void, now: () => number) {
    this.#send = send;
    this.#now = now;
  }

  report(paced: Paced, progress: Progress): void {
    paced.newest = progress;
    if (paced.next === 0) this.#let(paced);
    this.#wait();
  }

  /** Sends the newest report of a run that is about to be answered. */
  finish(paced: Paced): void {
    if (paced.newest) this.#send(paced.newest);
    paced.newest = undefined;
  }

  #let(paced: Paced): void {
    this.finish(paced);
    paced.next = this.#now() + INTERVAL;
    this.#queue.push(paced);
  }

  #wait(): void {
    const first = this.#queue[0];
    if (!first || this.#timer) return;
    this.#timer = setTimeout(this.#wake, Math.max(1, first.next - this.#now()));
    this.#timer.unref();
  }

  readonly #wake = (): void => {
    this.#timer = undefined;
    const now = this.#now();
    const waiting = this.#queue.findIndex((paced) => paced.next > now);
    for (const paced of this.#queue.splice(0, waiting < 0 ? this.#queue.length : waiting)) {
      paced.next = 0;
      if (paced.newest) this.#let(paced);
    }
    this.#wait();
  };
}
