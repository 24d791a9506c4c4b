// How long a client awaits a node that takes requests and does not answer.

/** Milliseconds without an answer from a node with requests under way, until it is probed. */
export const MOST_QUIET = 1500;
const LEAST_QUIET = 250;
/** Milliseconds for the answer of a node that is probed, or connected to. */
export const MOST_PROBE = 2000;
const LEAST_PROBE = 500;
/** Bytes a second of the slowest network: the time that a request may take to reach its node. */
const SLOWEST = 64 << 10;

/**
 * How long a client awaits a node that says nothing. A node that is slow, because a request waits there, answers the probe,
 * and is awaited as long as the caller wants.
 */
export interface Patience {
  /** Milliseconds until the node is probed. */
  quiet: number;
  /** Milliseconds from then until the node is left. */
  probe: number;
}

/**
 * The patience of a call with so much time and a request of so many bytes: half of the time is for another node, if there
 * is one.
 */
export function patienceOf(left: number, size: number, hasOthers: boolean, quiet = MOST_QUIET): Patience {
  const part = hasOthers ? left / 4 : Number.POSITIVE_INFINITY;
  return {
    quiet: Math.max(LEAST_QUIET, Math.min(quiet, part)),
    probe: Math.max(LEAST_PROBE, Math.min(MOST_PROBE, part)) + (size / SLOWEST) * 1000,
  };
}

/** What is watched. */
export interface Watched {
  /** When the node has answered last, by performance.now. */
  readonly heard: number;
  /** A probe had no answer, and the node has not answered since. */
  readonly isSilent: boolean;
  isAlive(wait: number): Promise<boolean>;
}

/** Watches a node that owes answers. */
export class Watch {
  readonly #node: Watched;
  readonly #patience: () => Patience | undefined;
  readonly #silent: () => void;
  #timer: NodeJS.Timeout | undefined;
  #isProbing = false;
  #isOver = false;

  /**
   * @param patience with the node now; undefined if it owes no answer
   * @param silent is called once, if the node does not answer
   */
  constructor(node: Watched, patience: () => Patience | undefined, silent: () => void) {
    this.#node = node;
    this.#patience = patience;
    this.#silent = silent;
  }

  /** Begins to watch, if it does not. */
  arm(): void {
    if (this.#timer || this.#isProbing) return;
    const patience = this.#patience();
    if (patience) this.#wait(this.#node.isSilent ? 0 : patience.quiet);
  }

  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #wait(ms: number): void {
    if (!this.#isOver) this.#timer = setTimeout(() => void this.#check(), ms);
  }

  async #check(): Promise<void> {
    this.#timer = undefined;
    const patience = this.#patience();
    if (!patience) return;
    const rest = patience.quiet - (performance.now() - this.#node.heard);
    if (this.#node.isSilent) return this.#isOver ? undefined : this.#silent(); // another call has found that
    if (rest > 0) return this.#wait(rest);
    this.#isProbing = true;
    const isAlive = await this.#node.isAlive(patience.probe);
    this.#isProbing = false;
    if (isAlive) this.#wait(patience.quiet);
    else if (!this.#isOver) this.#silent();
  }
}
