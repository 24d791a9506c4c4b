/**
 * A node in memory for the tests of a program, whose time stands still.
 *
 * ```ts
 * import { TestEngine } from "taskengine-handler/testing";
 *
 * test("a mail is tried again", async (t) => {
 *   const engine = await TestEngine.start({ types: { mail: { retry: { max: 3 } } } });
 *   t.after(() => engine.close());
 *   await engine.handle({ mail: send });
 *   await engine.client.submit("mail", { to: "a@example.org" });
 *   await engine.advance("2h");
 *   assert.equal((await engine.only("mail")).state, "done");
 * });
 * ```
 *
 * It is the program taskengine, which is looked for in PATH, or is the one that the environment variable
 * TASKENGINE_PROGRAM names.
 *
 * @packageDocumentation
 */

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { Client } from "./client/client.js";
import type { Task } from "./client/messages.js";
import type { ServeOptions } from "./program.js";
import type { Handlers } from "./task.js";
import { work } from "./work.js";

/** What a node for tests has. Either `types` or `config` is given. */
export interface TestEngineOptions {
  /** The settings of types, as in the section `types` of a configuration, without handlers. */
  types?: Readonly<Record<string, object>>;
  /** The path of a configuration: its types, limits and schedules are used, and nothing else of it. */
  config?: string;
  /** The time at the start; without it, that of the machine. */
  now?: Date;
  /** The path of the program taskengine. */
  program?: string;
}

/** How time passes. */
export interface AdvanceOptions {
  /** Do not wait for handlers. */
  whileRunning?: boolean;
  /** How many milliseconds of the machine to wait; 10,000 by default. */
  patience?: number;
}

/** A node for tests, with a client of it. */
export class TestEngine {
  /** A client of the node. */
  readonly client: Client;
  /** The address of the API of the node. */
  readonly address: string;

  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #folder: string;
  readonly #ending = new AbortController();
  readonly #workers: Promise<void>[] = [];
  #now: Date;
  #asked: Promise<unknown> = Promise.resolve(); // the newest question: one is asked at a time

  private constructor(process: ChildProcess, lines: AsyncIterator<string>, folder: string, first: Answer) {
    this.#process = process;
    this.#lines = lines;
    this.#folder = folder;
    this.address = first.api as string;
    this.#now = new Date(first.now as string);
    this.client = new Client(this.address);
  }

  /** Starts a node. The caller closes it. */
  static async start({ types, config, now, program }: TestEngineOptions): Promise<TestEngine> {
    if ((types === undefined) === (config === undefined)) throw new TypeError("give either types or config");
    const folder = await mkdtemp(join(tmpdir(), "taskengine-"));
    try {
      const file = config ?? join(folder, "taskengine.yaml");
      if (types) await writeFile(file, JSON.stringify(configOf(types))); // JSON is YAML
      const command = ["testserver", "--config", file];
      if (now) command.push("--at", `${now.toISOString().slice(0, 19)}Z`);
      const name = program || process.env["TASKENGINE_PROGRAM"] || "taskengine";
      const child = spawn(name, command, { stdio: ["pipe", "pipe", "inherit"] });
      await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
      child.stdin.on("error", () => {}); // the node has ended: it does not answer either
      const lines: Interface = createInterface(child.stdout);
      const iterator = lines[Symbol.asyncIterator]();
      return new TestEngine(child, iterator, folder, await answerOf(child, iterator));
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Ends the workers and the node, and forgets its tasks. */
  async close(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#workers);
    await this.client.close();
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.stdin?.end();
    if (this.#process.exitCode === null && this.#process.signalCode === null) await ended;
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** The time of the node. */
  get now(): Date {
    return this.#now;
  }

  /** Has handlers handle tasks, each those of its type. A type that is not handled keeps its tasks. */
  async handle(handlers: Handlers, options: ServeOptions = {}): Promise<void> {
    for (const type of Object.keys(handlers)) {
      const signal = this.#ending.signal;
      this.#workers.push(work(handlers, { ...options, addresses: this.address, handler: type, signal, log: () => {} }));
      await this.#ask({ worker: type });
    }
  }

  /**
   * Lets time pass, such as `"90m"`. The node does what is due meanwhile, each thing at its time. Resolves when nothing is
   * left to be done, and rejects when that takes too long. Handlers take no time.
   */
  async advance(by = "0s", { whileRunning = false, patience = 10_000 }: AdvanceOptions = {}): Promise<void> {
    await this.#ask({ advance: by, while_running: whileRunning, patience: `${Math.round(patience)}ms` });
  }

  /** The tasks of a type, or all, in the order of their creation, with payloads and results. */
  async tasks(type?: string): Promise<Task[]> {
    await this.advance();
    const found: Task[] = [];
    for await (const { id } of this.client.tasks(type === undefined ? {} : { types: [type] })) {
      found.unshift(await this.client.get(id));
    }
    return found;
  }

  /** The task of a type of which there must be exactly one. */
  async only(type: string): Promise<Task> {
    const [task, ...others] = await this.tasks(type);
    if (!task || others.length > 0) {
      throw new Error(`there are ${task ? 1 + others.length : 0} tasks of the type ${type}, and should be one`);
    }
    return task;
  }

  async #ask(question: object): Promise<void> {
    const before = this.#asked;
    const answered = before
      .catch(() => {})
      .then(async () => {
        this.#process.stdin?.write(`${JSON.stringify(question)}\n`);
        this.#now = new Date((await answerOf(this.#process, this.#lines)).now as string);
      });
    this.#asked = answered;
    await answered;
  }
}

/** A line of the node. */
interface Answer {
  api?: string;
  now?: string;
  error?: string;
}

async function answerOf(child: ChildProcess, lines: AsyncIterator<string>): Promise<Answer> {
  const { value, done } = await lines.next();
  if (done) {
    if (child.exitCode === null) await new Promise((resolve) => child.once("exit", resolve));
    throw new Error(`the node for tests has ended with ${child.exitCode}; see its output`);
  }
  const answer = JSON.parse(value) as Answer;
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer;
}

function configOf(types: Readonly<Record<string, object>>): object {
  const settings = Object.entries(types).map(([name, type]) => [name, { handler: "test", ...type }]);
  return { handlers: { test: { remote: {} } }, types: Object.fromEntries(settings) };
}
