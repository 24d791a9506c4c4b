// Handlers in steps: the result of each step is kept with the task, and later attempts do not run it again.

import { Again, Cancelled, isAnswer, isEnd, Permanent, Retry, StepError, WaitFor, WaitForChildren } from "./answers.js";
import { type EndedChildren, Siblings } from "./family.js";
import {
  changed,
  countsOf,
  readSteps,
  recordOf,
  type Step,
  type Steps,
  timeIn,
  timeText,
  wokenIn,
  writeSteps,
} from "./record.js";
import type { Run } from "./run.js";
import type { Child, Handler, StepTask, Task } from "./task.js";
import { classOf, headline, isError, toJSON } from "./text.js";
import { micros } from "./time.js";
import type { Woken } from "./woken.js";

/** The code of a handler in steps. */
export interface StepOptions {
  /**
   * The version of the code, 1 or more. Raise it with a change of the steps, and let the code look at `task.stepVersion`
   * to do the steps of before for tasks that began with them.
   */
  version: number;
  /**
   * The oldest version whose steps the code still knows, by default the present one. A task that began with an older one
   * ends with a permanent error of class "steps_changed".
   */
  oldest?: number;
}

/**
 * Makes a handler of a function in steps. The results of its steps are kept with the task, so that an attempt which
 * follows a crash, a retry or a wait goes on where the last one was.
 *
 * ```ts
 * order: steps({ version: 1 }, async (task) => {
 *   const charge = await task.step("charge", () => bank.charge(task.payload, task.stepKey));
 *   const paid = await task.waitFor("paid", { timeout: 2 * DAY });
 *   ...
 * }),
 * ```
 *
 * The function must come to the same steps in the same order whenever it gets the same results: the time, random numbers
 * and answers from elsewhere are results of steps. Where the order differs, the task ends with a permanent error of class
 * "steps_changed". The results are the checkpoint of the task.
 */
export function steps(options: StepOptions, handle: (task: StepTask) => unknown): Handler {
  const { version, oldest = version } = options;
  if (!Number.isInteger(version) || !Number.isInteger(oldest) || oldest < 1 || version < oldest) {
    throw new RangeError(
      `version ${version} of the code knows the steps since version ${oldest}: versions begin with 1`,
    );
  }
  if (typeof handle !== "function") throw new TypeError("a handler in steps needs a function");
  return async (task: Task) => {
    const run = task as Run;
    const flow = new Flow(run, version, oldest);
    run.flow = flow;
    let value: unknown;
    try {
      value = await handle(run);
    } catch (error) {
      return flow.failed(error);
    }
    return flow.returned(value);
  };
}

const NO_CHILDREN = {
  name: "",
  added: 0,
  done: 0,
  failed: 0,
  cancelled: 0,
  ended: new Uint8Array(),
  shards: new Uint8Array(),
};

/** Leaves the handler, because its attempt ends with what the flow has stopped with. */
class Leave extends Error {
  override readonly name = "Leave";

  constructor() {
    super("the attempt ends here: let this error pass");
  }
}

/** The steps of one attempt. They run one after the other. */
export class Flow {
  readonly #run: Run;
  readonly #code: number;
  readonly #steps: Steps;
  #next = 0;
  #running = false;
  #failed: Step | undefined; // the step that was last; kept when another one begins
  #stopped: { with: unknown } | undefined; // how the attempt is to end: no step runs any more

  constructor(run: Run, version: number, oldest: number) {
    this.#run = run;
    this.#code = version;
    this.#steps = readSteps(run.checkpoint, version);
    const began = this.#steps.version;
    if (began < oldest) {
      throw changed(
        `the task began with version ${began} of the code, and this code knows the steps since version ${oldest}`,
      );
    }
    if (began > version) {
      throw new Retry(
        `steps: the task began with version ${began} of the code, and this program has version ${version}`,
        {
          class: "steps_newer",
        },
      );
    }
  }

  get version(): number {
    return this.#steps.version;
  }

  get key(): string {
    return `${this.#run.id}-${this.#steps.occurrence}-${this.#running ? this.#next : this.#next + 1}`;
  }

  async step<T>(name: string, work: () => T | PromiseLike<T>): Promise<T> {
    let kept = this.#begin("do", name);
    if (!kept) {
      this.#running = true;
      try {
        await this.#keepFailure();
        let value: T;
        try {
          value = await work();
        } catch (error) {
          this.#fail(name, error);
          throw error;
        }
        kept = { kind: "do", name, result: this.#encode(name, value) };
        this.#add(kept);
        await this.#save(name);
      } finally {
        this.#running = false;
      }
    }
    if (kept.error) {
      const { message, class: errorClass, permanent } = kept.error;
      throw new StepError(message, errorClass, permanent);
    }
    return structuredClone(kept.result ?? null) as T; // it is the handler's, and the record keeps its own
  }

  async waitFor(names: readonly string[], timeout: number | undefined): Promise<Woken> {
    const name = names.join(" or ");
    let kept = this.#begin("wait", name);
    const { woken } = this.#run;
    let wait: WaitFor | undefined;
    if (!kept) {
      kept = { kind: "wait", name };
      wait = new WaitFor(names, { timeout });
      if (timeout !== undefined) kept.until = timeText(micros(Date.now() + timeout));
      this.#add(kept);
    } else if (!kept.over && woken) {
      kept.over = true; // the next step stores it: until then the task has it
      kept.woken = recordOf(woken);
    } else if (!kept.over) {
      // Something else than the end of the wait has made the task ready.
      wait = new WaitFor(names, { until: kept.until === undefined ? undefined : Number(timeIn(kept.until)) / 1000 });
    }
    if (wait) return this.#leaveWith((checkpoint) => wait.with(checkpoint));
    return wokenIn(kept.woken);
  }

  async sleep(delay: number): Promise<void> {
    const kept = this.#begin("sleep", "sleep");
    if (!kept) {
      this.#add({ kind: "sleep", name: "sleep" });
      return this.#leaveWith((checkpoint) => Again.after(delay, { checkpoint }));
    }
    kept.over = true; // by the clock of the nodes, or because a user wants it
  }

  async runChildren(name: string, children: readonly Child[]): Promise<EndedChildren> {
    let kept = this.#begin("children", name);
    const set = this.#run.children.get(name);
    if (!kept && children.length === 0) {
      kept = { kind: "children", name, over: true, children: countsOf(0, 0, 0, 0, 0) };
      this.#add(kept); // there is nothing to leave for
      await this.#save(name);
    } else if (!kept) {
      try {
        this.#run.addChildren(name, children);
      } catch (error) {
        if (error instanceof Permanent) this.#stop(error);
        throw error;
      }
      const { added = 0, done = 0, failed = 0, cancelled = 0 } = set ?? {};
      this.#add({ kind: "children", name, children: countsOf(children.length, added, done, failed, cancelled) });
      return this.#leaveWith((checkpoint) => new WaitForChildren(name, { checkpoint }));
    } else if (!kept.over) {
      const before = { from: 0, count: 0, done: 0, failed: 0, cancelled: 0, ...kept.children };
      if (!set || set.added < before.from + before.count) {
        return this.#stop(new Permanent("steps: the task has lost its children"));
      }
      if (set.ended < set.added) {
        // A user has resumed it.
        return this.#leaveWith((checkpoint) => new WaitForChildren(name, { checkpoint }));
      }
      kept.over = true; // the next step stores it: until then the task has it
      const [done, failed] = [set.done - before.done, set.failed - before.failed];
      kept.children = countsOf(before.count, before.from, done, failed, set.cancelled - before.cancelled);
    }
    const { from = 0, count = 0, done = 0, failed = 0, cancelled = 0 } = kept.children ?? {};
    const siblings = set ?? new Siblings(new Uint8Array(16), NO_CHILDREN);
    const id = (number: number) => {
      if (!Number.isInteger(number) || number < 0 || number >= count)
        throw new RangeError(`there are ${count} children`);
      return siblings.id(from + number);
    };
    return { count, done, failed, cancelled, id };
  }

  /** How the attempt ends after the handler has thrown. */
  failed(error: unknown): unknown {
    if (this.#stopped) return this.#end(this.#stopped.with);
    if (isAnswer(error)) return this.returned(error);
    throw error;
  }

  /** How the attempt ends after the handler has returned. */
  returned(value: unknown): unknown {
    if (this.#stopped) return this.#end(this.#stopped.with); // also if the handler has made something else of it
    const { done, occurrence } = this.#steps;
    if (value instanceof Again || value instanceof WaitFor) {
      if (value.checkpoint !== undefined) {
        throw new Permanent(
          "steps: the handler asks for a checkpoint, where the results of steps are: use the payload",
        );
      }
      return value.with(writeSteps({ version: 0, occurrence: occurrence + 1, done: [] }));
    }
    if (!isEnd(value) && this.#next < done.length) {
      const next = done[this.#next]?.name;
      throw changed(
        `the handler has ended after ${this.#next} steps, and the task has done ${done.length}: "${next}" comes next`,
      );
    }
    return value;
  }

  #end(how: unknown): unknown {
    if (isAnswer(how)) return how;
    throw how;
  }

  /** What was kept of the next step, or undefined if it is not done. */
  #begin(kind: Step["kind"], name: string): Step | undefined {
    if (this.#stopped) throw new Leave();
    if (this.#running) {
      this.#stop(new Permanent(`steps: step "${name}" begins while another runs: steps run one after the other`));
    }
    if (this.#isCancelled) {
      this.#run.cancel(new Cancelled("deadline", "the deadline is over")); // only the first reason counts
      this.#stop(this.#run.cancelled);
    }
    const kept = this.#steps.done[this.#next++];
    if (kept && (kept.name !== name || kept.kind !== kind)) {
      this.#stop(
        changed(
          `step ${this.#next} of the task was "${kept.name}" (${kept.kind}) when it ran, and is "${name}" (${kind}) in the ` +
            `code of version ${this.#code}: steps must come in the same order; raise the version with a change of them`,
        ),
      );
    }
    return kept;
  }

  get #isCancelled(): boolean {
    return this.#run.cancelled !== undefined || this.#run.isLate;
  }

  /** Adds a step behind the one that has failed, if there is one. */
  #add(step: Step): void {
    if (this.#failed) this.#steps.done.push(this.#failed);
    this.#failed = undefined;
    this.#steps.done.push(step);
  }

  /**
   * Stores the step that has failed, if the handler goes on from it: what follows, such as giving money back, is right
   * only as long as it has failed.
   */
  async #keepFailure(): Promise<void> {
    const failed = this.#failed;
    if (!failed) return;
    this.#failed = undefined;
    this.#steps.done.push(failed);
    await this.#save(failed.name);
  }

  #encode(name: string, value: unknown): unknown {
    try {
      return JSON.parse(toJSON(value ?? null));
    } catch (cause) {
      const why = `steps: the result of step "${name}" cannot be kept: ${headline(cause)}`;
      return this.#stop(new Permanent(why, { class: "bad_result", cause }));
    }
  }

  /** Notes that the step that has begun has failed. */
  #fail(name: string, thrown: unknown): void {
    if (isAnswer(thrown) || this.#isCancelled) {
      this.#stopped = { with: thrown };
      return;
    }
    const errorClass = isError(thrown) && "class" in thrown ? String(thrown.class) : classOf(thrown);
    const permanent = thrown instanceof Permanent || (thrown instanceof StepError && thrown.permanent);
    const message = isError(thrown) && thrown.message ? thrown.message : headline(thrown);
    const error = { message, ...(errorClass && { class: errorClass }), ...(permanent && { permanent }) };
    this.#failed = { kind: "do", name, error };
  }

  async #save(name: string): Promise<void> {
    if (!this.#run.link.features.has("checkpoint")) {
      this.#stop(new Permanent("steps: the host stores no checkpoints", { class: "unsupported" }));
    }
    try {
      await this.#run.save(writeSteps(this.#steps));
    } catch (error) {
      if (!(error instanceof Permanent)) this.#stop(error, error);
      const { message, class: errorClass } = error as Permanent;
      this.#stop(new Permanent(`steps: keep step "${name}": ${message}`, { class: errorClass }));
    }
  }

  /** Has the attempt end with `how`, and throws. */
  #stop(how: unknown, thrown: unknown = new Leave()): never {
    this.#stopped = { with: how };
    throw thrown;
  }

  #leaveWith(answer: (checkpoint: Uint8Array) => Again | WaitFor): never {
    let checkpoint: Uint8Array;
    try {
      checkpoint = writeSteps(this.#steps);
    } catch (error) {
      return this.#stop(error);
    }
    return this.#stop(answer(checkpoint));
  }
}
