// Tasks to add, and their receipts.

import { toBinary } from "@bufbuild/protobuf";
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { DurationSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { encode } from "../text.js";
import { AlreadyExists, type ClientError, errorOfCode, Invalid, Late } from "./errors.js";
import type { Ids } from "./ids.js";
import { duration, timestamp } from "./native.js";

/** How many tasks one submitAll may have. */
export const MAX_TOGETHER = 1000;

/** Half of a character, which no UTF-8 has. */
const SURROGATE = /\p{Surrogate}/u;

/** What a task to add may have beside its type and payload. */
export interface TaskOptions {
  /** An id of the caller's own, so that the caller can submit the task again later: a UUID. */
  id?: string;
  /** Makes it unique among the tasks of its type that are kept. */
  key?: string;
  /** Has it run after those that were added before with the same one. */
  orderingKey?: string;
  /** 0 (sooner) to 9 (later). */
  priority?: number;
  /** It is not started before this time: a Date or milliseconds since 1970. */
  at?: Date | number;
  /** It is not started before so many milliseconds, from when the node gets the request. */
  delay?: number;
  /** It becomes an error if it has not begun by this time. */
  expiresAt?: Date | number;
  headers?: Readonly<Record<string, string>>;
  /**
   * The ids of tasks that exist: it runs when all of them are done, and is cancelled if one of them fails or is
   * cancelled.
   */
  after?: readonly string[];
  /** It runs when the tasks of after have ended, however. */
  afterAny?: boolean;
}

/** A task to add. */
export interface NewTask extends TaskOptions {
  type: string;
  /** Nothing, bytes or a text, which are sent as they are, or a value that is sent as JSON. */
  payload?: unknown;
}

/** Which task a request has added. The task is durable. */
export interface Receipt {
  /** Of the new task, or of the existing task with the same id or key. */
  id: string;
  /** False if there was such a task: nothing was added. */
  created: boolean;
  /**
   * created, existing, replaced (the task with its key has its content now) or already_done (the task with its key has
   * ended).
   */
  outcome: string;
  /** For people: the task waits because no live node has a handler for its type. Absent if that is not so. */
  warning?: string;
}

/** A task as it is sent. */
export interface Encoded {
  message: Uint8Array;
  id: string;
  /** The client has made the id: nothing else adds a task under it. */
  isOwn: boolean;
}

/** Encodes a task, or what decorate returns for it. Throws Invalid for what cannot be sent. */
export function encodeTask(task: NewTask, ids: Ids, decorate?: (task: NewTask) => NewTask): Encoded {
  try {
    return encodeOr(decorate ? decorate(task) : task, ids);
  } catch (error) {
    throw new Invalid(`a task of type ${String(task.type)}: ${(error as Error).message}`, "invalid_argument", "", {
      cause: error,
    });
  }
}

function encodeOr(task: NewTask, ids: Ids): Encoded {
  const { type, payload, key = "", orderingKey = "", priority, headers } = task;
  if (typeof type !== "string") throw new TypeError("its type is no text");
  if (priority !== undefined && !(Number.isInteger(priority) && priority >= 0 && priority <= 9)) {
    throw new RangeError(`the priority is ${priority}: give 0 to 9`);
  }
  checkText(type, key, orderingKey);
  if (headers) checkText(...Object.entries(headers).flat());
  const isOwn = task.id === undefined;
  const id = task.id ?? ids.next(type, key, orderingKey);
  // By hand, because generated code takes several times as long for each of many tasks.
  const w = new BinaryWriter();
  const text = (no: number, value: string) => w.tag(no, WireType.LengthDelimited).string(value);
  const bytes = (no: number, value: Uint8Array) => w.tag(no, WireType.LengthDelimited).bytes(value);
  text(1, id);
  text(2, type);
  if (payload !== undefined) bytes(3, encode(payload));
  if (priority !== undefined) w.tag(5, WireType.Varint).uint32(priority);
  if (key) text(6, key);
  if (orderingKey) text(7, orderingKey);
  if (task.at !== undefined) bytes(8, toBinary(TimestampSchema, timestamp(task.at)));
  if (task.delay !== undefined) bytes(9, toBinary(DurationSchema, duration(task.delay)));
  if (task.expiresAt !== undefined) bytes(10, toBinary(TimestampSchema, timestamp(task.expiresAt)));
  for (const name in headers) {
    const value = headers[name] as string;
    w.tag(11, WireType.LengthDelimited).fork();
    text(1, name);
    text(2, value);
    w.join();
  }
  for (const after of task.after ?? []) text(12, after);
  if (task.afterAny) w.tag(13, WireType.Varint).bool(true);
  return { message: w.finish(), id, isOwn };
}

/** Throws for half of a character, which would become another text without a word. */
export function checkText(...texts: unknown[]): void {
  for (const text of texts) {
    if (typeof text !== "string" || SURROGATE.test(text)) throw new TypeError("a key or a header is no Unicode text");
  }
}

/** The error of a request of several that was refused while the others were done. */
export function refusal({ id, outcome }: Receipt): AlreadyExists | Late | undefined {
  switch (outcome) {
    case "rejected":
      return new AlreadyExists(`task ${id} has the key of the request, and its type rejects that`, "already_exists");
    case "late":
      return new Late("the time of the request lies further in the past than max_lateness of its type", "out_of_range");
  }
  return undefined;
}

/**
 * The receipt of a request that may have been sent twice: if nothing else adds a task under its id, an earlier try has
 * added it.
 */
export function firstOfTwo(r: Receipt, { id, isOwn }: Pick<Encoded, "id" | "isOwn">): Receipt {
  return isOwn && r.id === id ? { ...r, created: true, outcome: "created" } : r;
}

/** What became of one request of a stream. */
export interface Outcome {
  sequence: number;
  result: Receipt | ClientError;
}

/** Decodes a SubmitStreamResponse. */
export function decodeOutcomes(address: string, bytes: Uint8Array): { outcomes: Outcome[]; stopping: boolean } {
  const r = new BinaryReader(bytes);
  const outcomes: Outcome[] = [];
  let stopping = false;
  while (r.pos < r.len) {
    const [no, kind] = r.tag();
    if (no === 1) outcomes.push(decodeOutcome(address, r, r.uint32() + r.pos));
    else if (no === 2) stopping = r.bool();
    else r.skip(kind, no);
  }
  return { outcomes, stopping };
}

function decodeOutcome(address: string, r: BinaryReader, end: number): Outcome {
  let sequence = 0;
  let result: Receipt | ClientError | undefined;
  while (r.pos < end) {
    const [no, kind] = r.tag();
    if (no === 1) sequence = r.uint32();
    else if (no === 2) result = decodeReceipt(r, r.uint32() + r.pos);
    else if (no === 3) result = decodeError(address, r, r.uint32() + r.pos);
    else r.skip(kind, no);
  }
  return { sequence, result: result ?? errorOfCode("", "the node has answered with nothing", address) };
}

function decodeReceipt(r: BinaryReader, end: number): Receipt {
  const receipt: Receipt = { id: "", created: false, outcome: "" };
  while (r.pos < end) {
    const [no, kind] = r.tag();
    if (no === 1) receipt.id = r.string();
    else if (no === 2) receipt.created = r.bool();
    else if (no === 3) receipt.outcome = r.string();
    else if (no === 4) receipt.warning = r.string();
    else r.skip(kind, no);
  }
  return receipt;
}

function decodeError(address: string, r: BinaryReader, end: number): ClientError {
  const texts = ["", "", "", ""];
  while (r.pos < end) {
    const [no, kind] = r.tag();
    if (no < texts.length && kind === WireType.LengthDelimited) texts[no] = r.string();
    else r.skip(kind, no);
  }
  return errorOfCode(texts[1] ?? "", texts[2] ?? "", address, texts[3]);
}
