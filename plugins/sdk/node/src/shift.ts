// The stream of a program: runs arrive, and answers are sent.

import { performance } from "node:perf_hooks";
import { Cancelled } from "./answers.js";
import { type BatchHandler, Gathering } from "./batch.js";
import { type Answer, fail, failInBatch, refuse, succeed } from "./finish.js";
import {
  type Cancel,
  Cancel_Reason,
  type Finish,
  type ToHandler,
  type Welcome,
  type Run as WireRun,
} from "./gen/handler_pb.js";
import { Lease, type Moment } from "./lease.js";
import { type Entry, Outbox, type Send } from "./outbox.js";
import { Pace } from "./pace.js";
import { type Link, Run } from "./run.js";
import type { Handler, Handlers } from "./task.js";
import { isError } from "./text.js";

const EARLIER = "earlier"; // the feature of nodes that take answers of sessions that they do not know
const TURN = 5; // milliseconds for beginning runs before frames and timers get their turn

/** How runs of a type begin. */
type Begin = (run: Run) => void;

/** The runs of a stream, from the welcome to its end; in a worker those of a session, which outlives its streams. */
export class Shift {
  readonly #link: Link;
  #slots = 0;
  #strays = 0; // runs that were cut off and have not returned
  readonly #answered = new Map<bigint, Run>(); // runs of a worker, whose finishes may not have arrived
  #earlier: Entry[] = []; // finishes of sessions that are over, for the next node that welcomes the worker
  readonly #isWorker: boolean;
  readonly #lease = new Lease(); // of a worker
  readonly #begin = new Map<string, Begin>(); // by task type
  readonly #gatherings: Gathering<Run>[] = [];
  readonly #running = new Map<bigint, Run>();
  #calls: (() => void)[] = []; // of handlers that wait to be made
  #calling = false;
  #idle: (() => void) | undefined; // called when nothing runs any more

  /** The shift of a stream, or without one that of a worker, which has one after the other. */
  constructor(handlers: Handlers, send?: Send) {
    const outbox = new Outbox(send);
    this.#isWorker = !send;
    this.#link = {
      outbox,
      pace: new Pace(
        (progress) => outbox.add("progress", progress, progress.message.length),
        () => performance.now(),
      ),
      features: new Set(),
      maxBytes: 0,
      maxPayload: 0,
    };
    for (const [type, handler] of Object.entries(handlers)) this.#begin.set(type, this.#beginOf(handler));
  }

  /** Takes the terms of a host, and how many tasks it may run at once. */
  agree(welcome: Welcome, slots: number): void {
    this.#slots = slots;
    this.#link.features = new Set(welcome.features);
    this.#link.maxBytes = Number(welcome.maxResultBytes) || Number.POSITIVE_INFINITY;
    this.#link.maxPayload = Number(welcome.maxPayloadBytes) || Number.POSITIVE_INFINITY;
  }

  /** The runs that a worker has for the node: those that run, and those whose finishes may not have arrived. */
  get holds(): bigint[] {
    return [...this.#running.keys(), ...this.#link.outbox.finishes];
  }

  /**
   * Goes on with a stream that began with this welcome: what may not have arrived is sent again, and the free slots give
   * credits. Runs that the node does not keep are cut off. The offer was sent at the moment `offered`.
   */
  resume(welcome: Welcome, offered: Moment, send: Send): void {
    const { outbox } = this.#link;
    this.#lease.renew(welcome, offered);
    this.agree(welcome, welcome.slots);
    this.#arrived(Number(welcome.received));
    const open = new Set(welcome.runs);
    if (welcome.resumed) this.#cut([...this.#running.values()].filter(({ runId }) => !open.has(runId)));
    else this.lose();
    let earlier: Entry[] = [];
    if (!welcome.resumed) [earlier, this.#earlier] = [this.#link.features.has(EARLIER) ? this.#earlier : [], []];
    const runs = [...this.#running.values(), ...this.#answered.values()];
    const checkpoints = runs.map((run) => run.checkpointAgain).filter((entry) => entry !== undefined);
    const questions = [...this.#running.values()].flatMap((run) => run.questions);
    const credits = this.#slots - this.#running.size - this.#strays - outbox.unsent - earlier.length;
    outbox.connect(send, [...checkpoints, ...questions, ...earlier], Math.max(0, credits));
  }

  /** Keeps everything for the next stream. */
  pause(): void {
    this.#link.outbox.disconnect();
  }

  /**
   * Cuts all runs off, because the node has given them to others by now, or has died. The answers are kept for a node
   * that does not know the session.
   */
  lose(): void {
    this.#cut([...this.#running.values()]);
    for (const entry of this.#link.outbox.renew()) {
      const finish = entry.message as Finish;
      const run = this.#answered.get(finish.runId);
      if (run) makeEarlier(finish, run); // else it was refused, or is of a session before
      if (finish.earlier) this.#earlier.push({ ...entry, sent: false });
    }
    this.#answered.clear();
  }

  /** Whether there are answers that may not have arrived. */
  get hasAnswers(): boolean {
    return this.#earlier.length + this.#link.outbox.unsent > 0;
  }

  /** Has the node send no more runs. */
  leave(): void {
    for (const gathering of this.#gatherings) gathering.flush();
    this.#link.outbox.leave();
  }

  #cut(runs: Run[]): void {
    this.#link.outbox.forget(new Set(runs.map(({ runId }) => runId)));
    for (const run of runs) {
      this.#running.delete(run.runId);
      run.stray = true;
      run.paced.newest = undefined;
      this.#strays++;
    }
    const why =
      "this worker was cut off from the node, and the task runs elsewhere, or will: the answer of this run counts only if that other run has not begun";
    for (const run of runs) this.#stop(run, new Cancelled("host gone", why));
  }

  #arrived(finishes: number): void {
    for (const runId of this.#link.outbox.acknowledge(finishes)) this.#answered.delete(runId);
  }

  /** How many slots are not free. */
  get #occupied(): number {
    return this.#running.size + this.#strays;
  }

  /** Processes a frame of the host. */
  take(frame: ToHandler): void {
    if (frame.received !== 0n) this.#arrived(Number(frame.received));
    this.#lease.hear(frame);
    for (const run of frame.runs) this.#admit(run);
    for (const cancel of frame.cancels) this.#cancel(cancel);
    for (const stored of frame.stored) this.#running.get(stored.runId)?.stored(stored);
    for (const checked of frame.checked) this.#running.get(checked.runId)?.checked(checked);
    for (const document of frame.documents) this.#running.get(document.runId)?.read(document);
    // No more runs arrive if no slot is free or the host drains: then no batch waits for others.
    const last = frame.drain || this.#occupied >= this.#slots;
    if (last) for (const gathering of this.#gatherings) gathering.flush();
    if (frame.ping !== 0n) this.#link.outbox.pong(frame.ping);
  }

  /** Cancels everything, because the stream has ended, and returns when all has stopped. */
  async end(): Promise<void> {
    const stopped = new Promise<void>((resolve) => {
      this.#idle = resolve;
    });
    for (const run of this.#running.values()) this.#stop(run, new Cancelled("host gone", "the host is gone"));
    if (this.#occupied > 0) await stopped;
  }

  #beginOf(handler: Handler | BatchHandler): Begin {
    if (typeof handler === "function") return (run) => this.#callSoon(() => this.#call(handler, run));
    const call = (runs: Run[]) => this.#callSoon(() => void this.#callBatch(handler, runs));
    const gathering = new Gathering<Run>(handler.size, handler.wait, call);
    this.#gatherings.push(gathering);
    return (run) => gathering.add(run);
  }

  #admit(wire: WireRun): void {
    const begin = this.#begin.get(wire.type);
    if (!begin) {
      this.#refuse(wire, `the program does not serve the type ${JSON.stringify(wire.type)}`);
    } else if (this.#occupied >= this.#slots) {
      this.#refuse(wire, `the program runs ${this.#slots} tasks already`);
    } else {
      const run = new Run(wire, this.#link);
      this.#running.set(wire.runId, run);
      begin(run);
    }
  }

  #refuse(wire: WireRun, why: string): void {
    const { finish, bytes } = refuse(wire.runId, why);
    this.#link.outbox.add("finishes", finish, bytes);
  }

  #cancel(cancel: Cancel): void {
    const run = this.#running.get(cancel.runId);
    if (!run) return;
    if (cancel.reason === Cancel_Reason.DEADLINE) {
      this.#stop(run, new Cancelled("deadline", cancel.message || "the deadline is over"));
    } else {
      this.#stop(run, new Cancelled("cancelled", cancel.message || "the task was cancelled"));
    }
  }

  /** Asks a run to stop. A run that has not begun never begins. */
  #stop(run: Run, why: Cancelled): void {
    run.cancel(why);
    if (why.reason === "host gone") run.giveUp(why.message);
    if (run.begun) return;
    for (const gathering of this.#gatherings) gathering.remove(run);
    this.#answer(run, fail(run, why));
  }

  #callSoon(call: () => void): void {
    this.#calls.push(call);
    if (this.#calling) return;
    this.#calling = true;
    queueMicrotask(this.#callAll);
  }

  /** Calls handlers one after the other, in turns, so that frames are sent and received meanwhile. */
  readonly #callAll = (): void => {
    const until = performance.now() + TURN;
    let n = 0;
    while (n < this.#calls.length && (n === 0 || performance.now() < until)) (this.#calls[n++] as () => void)();
    if (n < this.#calls.length) {
      this.#calls.splice(0, n);
      setImmediate(this.#callAll);
    } else {
      this.#calls = [];
      this.#calling = false;
    }
  };

  #call(handler: Handler, run: Run): void {
    if (run.over || !this.#mayBegin(run)) return;
    run.begun = true;
    try {
      const value = handler(run);
      if (isThenable(value)) {
        Promise.resolve(value).then(
          (result) => this.#answer(run, succeed(run, result)),
          (error: unknown) => this.#answer(run, fail(run, error)),
        );
      } else {
        this.#answer(run, succeed(run, value));
      }
    } catch (error) {
      this.#answer(run, fail(run, error));
    }
  }

  async #callBatch(handler: BatchHandler, all: Run[]): Promise<void> {
    const runs = all.filter((run) => !run.over && this.#mayBegin(run));
    if (runs.length === 0) return;
    for (const run of runs) run.begun = true;
    try {
      const values = await handler.handle([...runs]);
      if (!Array.isArray(values) || values.length !== runs.length) {
        throw new TypeError(`a batch handler returns an array with an answer for each of its ${runs.length} tasks`);
      }
      for (const [n, run] of runs.entries()) this.#answer(run, this.#answerOf(run, values[n]));
    } catch (error) {
      for (const run of runs) this.#answer(run, failInBatch(run, error));
    }
  }

  /** Whether the handler of a run may be called. Otherwise the run is handed back. */
  #mayBegin(run: Run): boolean {
    const why = this.#lease.over;
    if (why !== undefined) this.#answer(run, refuse(run.runId, why));
    return why === undefined;
  }

  #answerOf(run: Run, value: unknown): Answer {
    return isError(value) ? fail(run, value) : succeed(run, value);
  }

  /** Sends the one answer of a run and frees its slot. */
  #answer(run: Run, { finish, bytes }: Answer): void {
    if (run.over) return;
    run.over = true;
    run.giveUp("the handler has returned");
    if (run.stray) {
      this.#strays--;
      // An error is that of a task that was cancelled.
      const { case: outcome } = finish.outcome;
      if (this.#link.features.has(EARLIER) && outcome !== "error" && outcome !== "refused") {
        this.#link.outbox.add("finishes", makeEarlier(finish, run), bytes);
      } else {
        this.#link.outbox.credit();
      }
    } else {
      this.#running.delete(run.runId);
      this.#link.pace.finish(run.paced);
      this.#link.outbox.add("finishes", finish, bytes);
      if (this.#isWorker && finish.outcome.case !== "refused") this.#answered.set(run.runId, run);
    }
    if (this.#occupied === 0) this.#idle?.();
  }
}

/** Makes the finish of a run one for a node that does not know the run, and returns it. */
function makeEarlier(finish: Finish, run: Run): Finish {
  finish.runId = 0n;
  finish.earlier = run.name;
  return finish;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
