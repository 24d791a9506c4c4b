// A run of a handler: its task, and what it sends while it runs.

import { performance } from "node:perf_hooks";
import { inspect } from "node:util";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Cancelled, NotChecked, NotRead, NotStored, Permanent } from "./answers.js";
import { fitting, notChecked, type Refusal, refusalsOf } from "./check.js";
import { type Document, type DocumentOptions, deleteOf, MAX_DOCUMENTS, Read, writeOf } from "./document.js";
import { type ChildSet, type EndedChildren, idBytes, type Parent, parentOf, Siblings } from "./family.js";
import {
  type Attempt,
  AttemptSchema,
  type Checked,
  CheckpointSchema,
  CheckSchema,
  type Child as ChildMessage,
  ChildSchema,
  type DocumentRead,
  LogLineSchema,
  ProgressSchema,
  ReadDocumentSchema,
  type Signal as SignalMessage,
  SignalSchema,
  type Stored,
  type Run as WireRun,
  type WriteDocument,
} from "./gen/handler_pb.js";
import type { Entry, Outbox } from "./outbox.js";
import { type Pace, Paced } from "./pace.js";
import { Questions } from "./questions.js";
import type { Flow } from "./steps.js";
import type { Child, Signal, StepTask, TaskLog } from "./task.js";
import { clip, copy, decode, describe, encodeOrFail, isError } from "./text.js";
import { micros } from "./time.js";
import { uuid, type Wake, type Woken, wokenOf } from "./woken.js";

/** What runs know of their stream. A worker that connects again changes the terms of the host. */
export interface Link {
  readonly outbox: Outbox;
  readonly pace: Pace;
  /** The optional parts of the protocol that the host serves. */
  features: ReadonlySet<string>;
  /** The most bytes of a result, or of anything else that is sent at once. */
  maxBytes: number;
  /** The most bytes of the payload of a task that runs again. */
  maxPayload: number;
}

/** A checkpoint that the host has not answered. */
interface Saving {
  number: bigint;
  resolve: () => void;
  reject: (error: NotStored) => void;
}

const LEVELS = { debug: -4, info: 0, warn: 4, error: 8 };
export const MAX_CHECKPOINT = 1 << 20; // bytes
const MAX_AFTER = 100;
const TASKS_AFTER = "tasks that run after others";
const FIELDS_BYTES = 64 << 10; // of the fields of one line; more are left out

/** One run: the task for its handler, and what the stream needs to know of it. */
export class Run implements StepTask {
  /** Why it was cancelled, if it was. */
  cancelled: Cancelled | undefined;
  /** Its handler was called. */
  begun = false;
  /** It has its answer. */
  over = false;
  /** The worker was cut off, and the task runs elsewhere: nothing that it says counts. */
  stray = false;
  /** Of a handler in steps, once it was called. */
  flow: Flow | undefined;
  readonly link: Link;
  /** The tasks that it adds, among them its children. */
  readonly added: ChildMessage[] = [];
  readonly signals: SignalMessage[] = [];
  readonly documents: WriteDocument[] = [];
  /** Why something that was to be sent with the answer is not. */
  flaw: Permanent | undefined;
  readonly paced = new Paced();

  readonly #wire: WireRun;
  readonly #due: number | undefined; // when its time is over, by the monotonic clock
  readonly #deadline: number | undefined; // the same, by the clock of this machine
  #controller: AbortController | undefined;
  #log: TaskLog | undefined;
  #payload: Uint8Array | undefined;
  #checkpoint: Uint8Array | undefined;
  #kept: Entry | undefined; // the last checkpoint, unless the host has stored it
  #checkpoints = 0n; // the number of the last
  readonly #saving: Saving[] = []; // those without an answer, oldest first
  readonly #checks = new Questions<Checked>();
  readonly #reads = new Questions<DocumentRead>();
  #gone = false; // no answers come
  #woken: Wake | undefined;

  constructor(wire: WireRun, link: Link) {
    this.#wire = wire;
    this.link = link;
    if (wire.timeLeft !== 0n) {
      const left = Number(wire.timeLeft) / 1000;
      this.#due = performance.now() + left;
      this.#deadline = Date.now() + left;
    }
  }

  get runId(): bigint {
    return this.#wire.runId;
  }

  get id(): string {
    return uuid(this.#wire.taskId);
  }

  get version(): bigint {
    return this.#wire.version;
  }

  get type(): string {
    return this.#wire.type;
  }

  get attempt(): number {
    return this.#wire.attempt;
  }

  get crashes(): number {
    return this.#wire.crashes;
  }

  get priority(): number {
    return this.#wire.priority;
  }

  get key(): string {
    return this.#wire.key;
  }

  get orderingKey(): string {
    return this.#wire.orderingKey;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#wire.headers;
  }

  get traceparent(): string | undefined {
    return this.#wire.headers["traceparent"];
  }

  get deadline(): number | undefined {
    return this.#deadline;
  }

  get timeLeft(): number | undefined {
    return this.#due === undefined ? undefined : Math.max(0, this.#due - performance.now());
  }

  /** Whether the deadline is over, by the clock of this machine or that of the host. */
  get isLate(): boolean {
    return this.cancelled?.reason === "deadline" || this.timeLeft === 0;
  }

  get checkpoint(): Uint8Array {
    this.#checkpoint ??= copy(this.#wire.checkpoint);
    return this.#checkpoint;
  }

  get payload(): Uint8Array {
    this.#payload ??= copy(this.#wire.payload); // the original shares its frame's memory with other runs
    return this.#payload;
  }

  text(): string {
    const text = decode(this.#wire.payload);
    if (text === undefined) throw new Permanent("the payload is not UTF-8", { class: "bad_payload" });
    return text;
  }

  json<T = unknown>(parse?: (value: unknown) => T): T {
    const text = this.text();
    try {
      const value: unknown = JSON.parse(text);
      return parse ? parse(value) : (value as T);
    } catch (cause) {
      const why = isError(cause) ? cause.message : String(cause);
      throw new Permanent(`the payload is not the JSON it should be: ${why}`, { class: "bad_payload", cause });
    }
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.cancelled) this.#controller.abort(this.cancelled);
    }
    return this.#controller.signal;
  }

  /** Asks the handler to stop. Only the first reason counts. */
  cancel(why: Cancelled): void {
    if (this.cancelled) return;
    this.cancelled = why;
    this.#controller?.abort(why);
  }

  get log(): TaskLog {
    this.#log ??= {
      debug: (message, fields) => this.#print(LEVELS.debug, message, fields),
      info: (message, fields) => this.#print(LEVELS.info, message, fields),
      warn: (message, fields) => this.#print(LEVELS.warn, message, fields),
      error: (message, fields) => this.#print(LEVELS.error, message, fields),
    };
    return this.#log;
  }

  #print(level: number, message: string, fields: Record<string, unknown> | undefined): void {
    const texts: Record<string, string> = {};
    let bytes = 0;
    for (const [name, value] of Object.entries(fields ?? {})) {
      const text = clip(textOf(value));
      bytes += name.length + text.length;
      if (bytes > FIELDS_BYTES) break;
      texts[name] = text;
    }
    const text = clip(String(message));
    const time = micros(Date.now());
    const line = create(LogLineSchema, {
      runId: this.stray ? 0n : this.runId,
      level,
      message: text,
      time,
      fields: texts,
    });
    this.link.outbox.log(line, text.length + bytes);
  }

  progress(done: number, total = 0, message = ""): void {
    if (this.#isMute("progress")) return;
    const text = clip(String(message));
    const progress = { runId: this.runId, done: count(done), total: count(total), message: text };
    this.link.pace.report(this.paced, create(ProgressSchema, progress));
  }

  saveCheckpoint(data: unknown): Promise<void> {
    const bytes = copy(encodeOrFail(data, "the checkpoint"));
    if (bytes.length > MAX_CHECKPOINT) {
      throw new RangeError(`the checkpoint has ${bytes.length} bytes, of ${MAX_CHECKPOINT} allowed`);
    }
    const stored = this.link.features.has("checkpoint") ? this.save(bytes) : Promise.resolve();
    stored.catch(() => {}); // no one has to await it
    return stored;
  }

  /** Sends a checkpoint, and returns when the host has stored it. */
  save(data: Uint8Array): Promise<void> {
    if (this.over || this.stray || this.#gone) {
      return Promise.reject(new NotStored("the checkpoint comes too late: the attempt is over"));
    }
    this.link.outbox.remove(this.#kept);
    const number = ++this.#checkpoints;
    const checkpoint = create(CheckpointSchema, { runId: this.runId, data, number });
    this.#kept = this.link.outbox.add("checkpoints", checkpoint, data.length);
    return new Promise((resolve, reject) => {
      this.#saving.push({ number, resolve, reject });
    });
  }

  /** Takes the answer of the host to a checkpoint, and to those before it. */
  stored({ number, error }: Stored): void {
    if (number === this.#checkpoints) this.#kept = undefined; // it need not be sent again
    const answered = this.#saving.filter((saving) => saving.number <= number);
    this.#saving.splice(0, answered.length);
    for (const { resolve, reject } of answered) {
      if (error) reject(new NotStored(`the host has not stored the checkpoint: ${error}`));
      else resolve();
    }
  }

  /** Takes the answer of the host to a check. */
  checked(answer: Checked): void {
    this.#checks.answered(answer.number, answer.error, answer);
  }

  /** Takes the answer of the host to a read of a document. */
  read(answer: DocumentRead): void {
    this.#reads.answered(answer.number, answer.error, answer);
  }

  /** The questions that are to be sent again when the worker connects again. */
  get questions(): Entry[] {
    return [...this.#checks.again, ...this.#reads.again];
  }

  /** Ends the wait for answers to checkpoints, checks and reads, and takes no more of them. */
  giveUp(why: string): void {
    this.#gone = true;
    this.#checks.giveUp(why);
    this.#reads.giveUp(why);
    for (const { reject } of this.#saving.splice(0)) {
      reject(new NotStored(`whether the checkpoint is stored is unknown: ${why}`));
    }
  }

  get woken(): Wake | undefined {
    this.#woken ??= wokenOf(this.#wire.woken);
    return this.#woken;
  }

  get children(): ReadonlyMap<string, ChildSet> {
    return new Map(this.#wire.children.map((set) => [set.name, new Siblings(this.#wire.taskId, set)]));
  }

  get parent(): Parent | undefined {
    return parentOf(this.#wire.parent);
  }

  step<T>(name: string, work: () => T | PromiseLike<T>): Promise<T> {
    return this.#inSteps.step(name, work);
  }

  waitFor(names: string | readonly string[], { timeout }: { timeout?: number } = {}): Promise<Woken> {
    return this.#inSteps.waitFor(typeof names === "string" ? [names] : names, timeout);
  }

  sleep(delay: number): Promise<void> {
    return this.#inSteps.sleep(delay);
  }

  runChildren(name: string, children: readonly Child[]): Promise<EndedChildren> {
    return this.#inSteps.runChildren(name, children);
  }

  get stepKey(): string {
    return this.#inSteps.key;
  }

  get stepVersion(): number {
    return this.#inSteps.version;
  }

  get #inSteps(): Flow {
    if (!this.flow) throw new Error(`the handler of ${JSON.stringify(this.type)} has no steps: make it with steps()`);
    return this.flow;
  }

  spawn(child: Child): void {
    this.#mustRun("spawn a task");
    const message = childOf(child);
    if (message.after.length > 0) this.#need("after", TASKS_AFTER);
    this.added.push(message);
  }

  addChildren(name: string, children: readonly Child[]): void {
    this.#mustRun("add children");
    this.#need("family", "children that a task learns the ends of");
    const messages = childrenOf(name, children).map((child) => Object.assign(child, { set: name }));
    for (const message of messages) this.added.push(message); // there may be more than a call has arguments
  }

  async checkChildren(name: string, children: readonly Child[]): Promise<Refusal[]> {
    return this.#check(name, childrenOf(name, children));
  }

  async checkSpawn(child: Child): Promise<Refusal | undefined> {
    const message = childOf(child);
    if (message.after.length > 0 && !this.link.features.has("after")) {
      throw new Permanent(`the host does not support ${TASKS_AFTER}`, { class: "unsupported" });
    }
    return (await this.#check("", [message]))[0];
  }

  async #check(set: string, children: ChildMessage[]): Promise<Refusal[]> {
    if (!this.link.features.has("check")) {
      throw new Permanent("the host does not say which tasks would be refused", { class: "unsupported" });
    }
    if (this.over || this.stray || this.#gone) {
      throw new NotChecked("the check comes too late: the attempt is over");
    }
    const [fit, refused] = fitting(children, (child) => sizeOf(child), this.link.maxBytes);
    if (fit.length === 0) return refused;
    const size = fit.map(sizeOf).reduce((a, b) => a + b);
    const answer = await this.#checks.ask((number) => {
      const check = create(CheckSchema, { runId: this.runId, number, set, children: fit });
      return this.link.outbox.add("checks", check, size);
    }, notChecked);
    return [...refusalsOf(answer), ...refused];
  }

  sendSignal({ name, data, to = "", type = "", key = "", orderingKey = "", id = "", keep = false }: Signal): void {
    this.#mustRun("send a signal");
    this.#need("signals", "signals that are sent with the end of an attempt");
    if (!name || !(to || (type && key))) {
      throw new TypeError("a signal has a name, and the id of a task or a type and a key");
    }
    const message = create(SignalSchema, {
      taskId: to === "" ? new Uint8Array() : idBytes(to, "the id of a task"),
      type: string(type, "the type of a signal"),
      key: string(key, "the key of a signal"),
      orderingKey: string(orderingKey, "the ordering key of a signal"),
      id: id === "" ? new Uint8Array() : idBytes(id, "the id of a signal"),
      name: string(name, "the name of a signal"),
      data: copy(encodeOrFail(data, "the data of a signal")),
      keep: Boolean(keep),
    });
    this.signals.push(message);
  }

  async readDocument(key: string): Promise<Document> {
    string(key, "the key of a document");
    if (!this.link.features.has("documents")) {
      throw new Permanent("the host does not support documents", { class: "unsupported" });
    }
    if (this.over || this.stray || this.#gone) {
      throw new NotRead("the read of a document comes too late: the attempt is over");
    }
    const answer = await this.#reads.ask(
      (number) => {
        const read = create(ReadDocumentSchema, { runId: this.runId, number, key });
        return this.link.outbox.add("reads", read, Buffer.byteLength(key));
      },
      (why) => new NotRead(`the document ${JSON.stringify(key)} was not read: ${why}`),
    );
    return new Read(key, answer);
  }

  writeDocument(document: Document | string, data: unknown, options: DocumentOptions = {}): void {
    this.#write(() => writeOf(document, data, options));
  }

  deleteDocument(document: Document | string, options: Pick<DocumentOptions, "ifVersion"> = {}): void {
    this.#write(() => deleteOf(document, options));
  }

  #write(write: () => WriteDocument): void {
    this.#mustRun("write a document");
    this.#need("documents", "documents");
    if (this.documents.length === MAX_DOCUMENTS) {
      throw new RangeError(`an answer writes at most ${MAX_DOCUMENTS} documents`);
    }
    this.documents.push(write());
  }

  /** Throws if the host does not serve a feature. The task fails then, also if that is caught. */
  #need(feature: string, what: string): void {
    if (this.link.features.has(feature)) return;
    this.flaw = new Permanent(`the host does not support ${what}`, { class: "unsupported" });
    throw this.flaw;
  }

  /** Whether a report of the run is not to be sent. */
  #isMute(feature: string): boolean {
    return this.over || this.stray || !this.link.features.has(feature);
  }

  /** What names the attempt to a node that does not know the run. */
  get name(): Attempt {
    return create(AttemptSchema, { taskId: this.#wire.taskId, version: this.version, type: this.type });
  }

  /** The newest checkpoint, as it is to be sent again when the worker connects again; undefined if that is not necessary. */
  get checkpointAgain(): Entry | undefined {
    return this.#kept?.sent ? { ...this.#kept, sent: false } : undefined;
  }

  /** Throws if the run is answered already: what is sent with the result would be lost. */
  #mustRun(what: string): void {
    if (this.over) throw new Error(`task ${this.id} cannot ${what}: it has its answer already`);
  }

  [inspect.custom](): string {
    return `Task ${this.type} ${this.id} version ${this.version} attempt ${this.attempt}`;
  }
}

/** Children of a name, as they are sent but for the name. */
function childrenOf(name: string, children: readonly Child[]): ChildMessage[] {
  if (string(name, "the name of children") === "") throw new TypeError("children need a name");
  return children.map((child) => {
    if (child.key) throw new TypeError("a child that its task learns the end of has no key");
    if (child.after || child.afterAny) {
      throw new TypeError("a child that its task learns the end of runs after no other task");
    }
    return childOf(child);
  });
}

/** How many bytes a task to add has when it is sent. */
function sizeOf(child: ChildMessage): number {
  return toBinary(ChildSchema, child).length;
}

/** A task to add, as it is sent. */
function childOf(child: Child): ChildMessage {
  const message: MessageInitShape<typeof ChildSchema> = {
    type: string(child.type, "a child's type"),
    key: string(child.key ?? "", "a child's key"),
    orderingKey: string(child.orderingKey ?? "", "a child's ordering key"),
    payload: copy(encodeOrFail(child.payload, "the payload of a child")),
    headers: {},
  };
  if (message.type === "") throw new TypeError("a child needs a type");
  for (const [name, value] of Object.entries(child.headers ?? {})) {
    (message.headers as Record<string, string>)[name] = string(value, `a child's header ${name}`);
  }
  if (child.runAt !== undefined) message.runAt = micros(Number(child.runAt));
  if (child.priority !== undefined) message.priority = priority(child.priority);
  message.after = predecessorsOf(child);
  message.afterAny = Boolean(child.afterAny);
  return create(ChildSchema, message);
}

/** The ids of the tasks before one to add, as they are sent. */
function predecessorsOf({ after = [], afterAny, runAt }: Child): Uint8Array[] {
  if (!Array.isArray(after)) throw new TypeError("after is a list of ids");
  if (after.length > MAX_AFTER) {
    throw new RangeError(
      `after has ${after.length} tasks, of ${MAX_AFTER} allowed: have the task run after one that runs after some of them`,
    );
  }
  if (afterAny && after.length === 0) throw new TypeError("it has afterAny, and after names no task");
  if (after.length > 0 && runAt !== undefined) {
    throw new TypeError("it has a time, and after: it runs when the tasks of after have ended");
  }
  const seen = new Set<string>();
  return after.map((id: string) => {
    const bytes = idBytes(id, "the id of a task in after");
    if (bytes.every((byte) => byte === 0)) throw new TypeError("after has an id that is zero");
    if (seen.has(uuid(bytes))) throw new TypeError(`after has the task ${uuid(bytes)} twice`);
    seen.add(uuid(bytes));
    return bytes;
  });
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (isError(value)) return describe(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return inspect(value);
  }
}

function count(n: number): bigint {
  if (!(n < 2 ** 64)) throw new RangeError(`progress is counted from 0 to 2 ** 64 - 1, and not ${n}`);
  return BigInt(Math.max(0, Math.trunc(n)));
}

function string(value: unknown, what: string): string {
  if (typeof value !== "string") throw new TypeError(`${what} is a string, not ${inspect(value)}`);
  return value;
}

function priority(n: number): number {
  if (!Number.isInteger(n) || n < 0 || n > 9) throw new RangeError(`a priority is 0 to 9, not ${n}`);
  return n;
}
