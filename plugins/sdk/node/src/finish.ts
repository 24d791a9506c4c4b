// The answer to a run, made from the outcome of its handler.

import { create } from "@bufbuild/protobuf";
import {
  Again,
  Ended,
  InDoubt,
  isAnswer,
  Permanent,
  Retry,
  RetryIn,
  Snooze,
  StepError,
  WaitFor,
  WaitForChildren,
} from "./answers.js";
import {
  AgainSchema,
  type Error as ErrorMessage,
  ErrorSchema,
  type Finish,
  FinishSchema,
  WaitSchema,
} from "./gen/handler_pb.js";
import { MAX_CHECKPOINT, type Run } from "./run.js";
import { classOf, clip, describe, encodeOrFail, headline, isError } from "./text.js";
import { micros } from "./time.js";

type Outcome = Finish["outcome"];

/** A finish and how many bytes its texts and data have, roughly. */
export interface Answer {
  finish: Finish;
  bytes: number;
}

/** The answer to a run whose handler returned `value`. */
export function succeed(run: Run, value: unknown): Answer {
  try {
    if (value instanceof Snooze) return answer(run, snooze(value));
    if (value instanceof Ended) return answer(run, ended(run));
    const isAgain = value instanceof Again || value instanceof WaitFor;
    const result = encodeOrFail(isAgain ? value.result : value, "the result");
    refuseUnsupported(run);
    const bytes = result.length + sizeOfChildren(run) + sizeOfSignals(run);
    if (bytes > run.link.maxBytes) throw tooLarge(run, result, run.link.maxBytes);
    if (isAgain) {
      const { outcome, more } = again(run, value, result);
      return answer(run, outcome, bytes + more + sizeOfDocuments(run), true);
    }
    return answer(run, { case: "result", value: result }, bytes + sizeOfDocuments(run), true);
  } catch (error) {
    return fail(run, error);
  }
}

/** The answer to a run whose handler threw any value. */
export function fail(run: Run, thrown: unknown): Answer {
  if (isAnswer(thrown)) return succeed(run, thrown);
  const error = errorOf(run, thrown);
  return answer(run, { case: "error", value: error }, error.message.length);
}

/** The answer to a run of a batch that failed as a whole, which is never a permanent error. */
export function failInBatch(run: Run, thrown: unknown): Answer {
  const error = errorOf(run, thrown);
  error.permanent = false;
  return answer(run, { case: "error", value: error }, error.message.length);
}

/** The answer to a run that the program cannot begin. */
export function refuse(runId: bigint, why: string): Answer {
  const outcome: Outcome = { case: "refused", value: { $typeName: "taskengine.handler.v1.Refused", message: why } };
  return { finish: create(FinishSchema, { runId, outcome }), bytes: why.length };
}

function answer(run: Run, outcome: Outcome, bytes = 0, isDone = false): Answer {
  const { added: children, signals, documents } = run;
  const finish = create(FinishSchema, { runId: run.runId, outcome, ...(isDone && { children, signals, documents }) });
  return { finish, bytes };
}

/** What a task that runs again answers, and how many bytes its payload and its checkpoint have. */
function again({ link }: Run, value: Again | WaitFor, result: Uint8Array): { outcome: Outcome; more: number } {
  const message = create(AgainSchema, { ...dueOf(value, link.features.has("wait")), result });
  if (value instanceof WaitFor) {
    if (!link.features.has("wait")) {
      throw new Permanent("the host takes no task that waits for a signal", { class: "unsupported" });
    }
    if (value instanceof WaitForChildren) {
      if (!link.features.has("family")) {
        throw new Permanent("the host takes no task that waits for its children", { class: "unsupported" });
      }
      message.wait = create(WaitSchema, {
        children: value.waits.map(({ name, count = 0, orFailed = false }) => ({ name, count, orFailed })),
      });
    } else {
      message.wait = create(WaitSchema, { names: [...value.names] });
    }
  }
  if (value.payload !== undefined) message.payload = encodeOrFail(value.payload, "the payload to run again with");
  if (value.checkpoint !== undefined)
    message.checkpoint = encodeOrFail(value.checkpoint, "the checkpoint to run again with");
  const { payload, checkpoint } = message;
  if ((payload || checkpoint) && !link.features.has("rerun")) {
    throw new Permanent("the host takes no payload and no checkpoint of a task that runs again", {
      class: "unsupported",
    });
  }
  if (payload && payload.length > link.maxPayload) {
    throw new Permanent(
      `the payload to run again with has ${payload.length} bytes, max_payload of the type allows ${link.maxPayload}`,
      { class: "payload_too_large" },
    );
  }
  if (checkpoint && checkpoint.length > MAX_CHECKPOINT) {
    throw new Permanent(
      `the checkpoint to run again with has ${checkpoint.length} bytes, of ${MAX_CHECKPOINT} allowed`,
      { class: "checkpoint_too_large" },
    );
  }
  const more = (payload?.length ?? 0) + (checkpoint?.length ?? 0);
  return { outcome: { case: "again", value: message }, more };
}

/** When a task is due again: after a delay, if the host takes that. */
function dueOf(value: Again | WaitFor, delays: boolean): { at?: bigint; delay?: bigint } {
  if (value instanceof WaitFor) {
    if (value.timeout !== undefined) return { delay: most(1n, delay(value.timeout)) };
    return value.until === undefined ? {} : { at: micros(value.until) || -1n }; // 0 is never
  }
  if (value.delay === undefined) return { at: micros(value.at) };
  return delays ? { delay: most(1n, delay(value.delay)) } : { at: micros(Date.now() + value.delay) };
}

function most(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function ended({ link: { features } }: Run): Outcome {
  if (features.has("ended")) return { case: "ended", value: { $typeName: "taskengine.handler.v1.Ended" } };
  const message =
    "the handler says that it has ended its attempt in a transaction, which this host does not look up: " +
    "if the transaction has committed, this error has no effect";
  return { case: "error", value: create(ErrorSchema, { message, class: "unsupported" }) };
}

function snooze(value: Snooze): Outcome {
  return { case: "snooze", value: { $typeName: "taskengine.handler.v1.Snooze", delay: delay(value.delay) } };
}

function delay(milliseconds: number): bigint {
  return micros(Math.max(0, milliseconds));
}

/**
 * An error after the deadline is in doubt, whatever it says: its end may have caused it, and the host has not given the
 * attempt up yet.
 */
function errorOf(run: Run, thrown: unknown): ErrorMessage {
  const error = readError(run, thrown);
  error.inDoubt ||= run.isLate;
  return error;
}

function readError(run: Run, thrown: unknown): ErrorMessage {
  try {
    return tellError(run, thrown);
  } catch {
    return create(ErrorSchema, { message: "an error was thrown that cannot be read", inDoubt: true });
  }
}

function tellError(run: Run, thrown: unknown): ErrorMessage {
  if (run.cancelled && isCancellation(thrown, run.cancelled)) {
    const message = clip(`cancelled: ${run.cancelled.message}`);
    return create(ErrorSchema, { message, class: "cancelled", inDoubt: true });
  }
  if (!isOfPackage(thrown)) {
    // How far the handler came is unknown: it may have thrown this by mistake, or have got no answer from a service.
    return create(ErrorSchema, { message: clip(describe(thrown)), class: clip(classOf(thrown)), inDoubt: true });
  }
  const message = clip(String(thrown.message || headline(thrown)));
  const error = create(ErrorSchema, { message, class: clip(String(thrown.class)) });
  if (thrown instanceof RetryIn) error.retryDelay = delay(thrown.delay);
  else if (thrown instanceof InDoubt) error.inDoubt = true;
  else if (thrown instanceof Permanent) error.permanent = true;
  else if (thrown instanceof StepError) error.permanent = thrown.permanent;
  return error;
}

function isOfPackage(thrown: unknown): thrown is Permanent | Retry | RetryIn | InDoubt | StepError {
  return [Permanent, Retry, RetryIn, InDoubt, StepError].some((kind) => thrown instanceof kind);
}

/** Reports whether an error is what a task's signal makes of its reason. */
function isCancellation(thrown: unknown, reason: Error): boolean {
  return thrown === reason || (isError(thrown) && (thrown.name === "AbortError" || thrown.cause === reason));
}

function sizeOfSignals({ signals }: Run): number {
  let bytes = 0;
  for (const { type, key, orderingKey, name, data } of signals) {
    bytes += 64 + sizeOf(type) + sizeOf(key) + sizeOf(orderingKey) + sizeOf(name) + data.length;
  }
  return bytes;
}

function sizeOfDocuments({ documents }: Run): number {
  return documents.reduce((bytes, { key, data }) => bytes + 64 + sizeOf(key) + data.length, 0);
}

function sizeOfChildren({ added }: Run): number {
  let bytes = 0;
  for (const child of added) {
    const { set, type, key, orderingKey, payload, headers, after } = child;
    bytes += 64 + 18 * after.length + sizeOf(set) + sizeOf(type) + sizeOf(key) + sizeOf(orderingKey) + payload.length;
    for (const [name, value] of Object.entries(headers)) bytes += 8 + sizeOf(name) + sizeOf(value);
  }
  return bytes;
}

function sizeOf(text: string): number {
  return Buffer.byteLength(text);
}

/** Children and signals must not be dropped, so the host must support them. */
function refuseUnsupported({ added: children, flaw, link: { features } }: Run): void {
  if (flaw) throw flaw; // also if the handler has made something else of it
  if (children.length > 0 && !features.has("children")) {
    throw new Permanent("the host does not take child tasks", { class: "unsupported" });
  }
}

function tooLarge({ added: children, signals }: Run, result: Uint8Array, most: number): Permanent {
  const more = children.length + signals.length;
  const what = more === 0 ? "the result has" : `the result and ${more} tasks and signals have over`;
  return new Permanent(`${what} ${result.length} bytes, max_result of the type allows ${most}`, {
    class: "result_too_large",
  });
}
