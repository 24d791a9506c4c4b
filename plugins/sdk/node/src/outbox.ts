// The messages to be sent: they are collected while the sender is busy, and sent in frames.

import { create } from "@bufbuild/protobuf";
import { type Finish, type FromHandler, FromHandlerSchema, type LogLine } from "./gen/handler_pb.js";
import { micros } from "./time.js";

const FRAME_BYTES = 1 << 20; // when to stop filling a frame
const FRAME_MESSAGES = 512;
const MESSAGE_BYTES = 64; // of a message besides its texts and data, roughly
const MAX_LINES = 8192; // of the log that may wait; of the rest only the number is sent

/** The lists of a frame, each with its kind of message. */
type Lists = Pick<FromHandler, "finishes" | "logs" | "progress" | "checkpoints" | "checks" | "reads">;

/** A message in the outbox. */
export interface Entry {
  readonly list: keyof Lists;
  readonly message: Lists[keyof Lists][number];
  readonly bytes: number;
  /** It is in a frame, and can no longer be changed. */
  sent: boolean;
}

/** Writes a frame to the stream, and calls `sent` once the stream has room for the next. */
export type Send = (frame: FromHandler, sent: () => void) => void;

/**
 * The messages that wait to be sent, in order: a message of a run never follows its
 * finish. One frame is under way at a time, with all messages that waited when it was made.
 *
 * The outbox of a worker outlives its streams. It keeps the finishes that were sent until they have arrived, and sends
 * them again on the next stream.
 */
export class Outbox {
  #send: Send | undefined;
  #entries: Entry[] = [];
  #lines = 0; // of the log among them
  #dropped = 0; // lines of the log since the last that was sent
  #pong = 0n; // to be sent, if not 0
  #credits = 0; // to be sent, besides those of the finishes
  #leaving = false; // to be sent
  #stream = 0; // the number of the present stream
  #busy = false; // a frame is under way, or is made at the end of this turn of the event loop
  #kept: Entry[] | undefined; // of a worker: finishes that were sent and may not have arrived
  #arrived = 0; // finishes of the session

  /** The outbox of a stream, or without one that of a worker. */
  constructor(send?: Send) {
    this.#send = send;
    if (!send) this.#kept = [];
  }

  /** Begins a stream. `first` is sent again before all else but what has to follow it. */
  connect(send: Send, first: readonly Entry[], credits: number): void {
    this.#send = send;
    this.#entries = [...first, ...(this.#kept ?? []), ...this.#entries];
    for (const entry of this.#kept ?? []) entry.sent = false;
    this.#kept = [];
    this.#credits = credits;
    this.#sendSoon();
  }

  /** Keeps what is to be sent until there is another stream. */
  disconnect(): void {
    this.#send = undefined;
    this.#stream++;
    this.#busy = false;
    this.#pong = 0n;
    this.#leaving = false;
  }

  /** Notes that so many finishes of the session have arrived in all, and returns the runs of those that had not before. */
  acknowledge(arrived: number): bigint[] {
    const kept = this.#kept ?? [];
    const news = kept.splice(0, Math.max(0, Math.min(kept.length, arrived - this.#arrived)));
    this.#arrived += news.length;
    return news.map(finishOf).filter(isOfSession).map(runOf);
  }

  /** The runs whose finishes may not have arrived. */
  get finishes(): bigint[] {
    return this.#unarrived.map(finishOf).filter(isOfSession).map(runOf);
  }

  /** The finishes that may not have arrived. */
  get #unarrived(): Entry[] {
    return [...(this.#kept ?? []), ...this.#entries.filter(({ list }) => list === "finishes")];
  }

  /** How many finishes may not have arrived. */
  get unsent(): number {
    return this.#unarrived.length;
  }

  /** Removes what is to be sent of some runs: what they say counts for nothing. */
  forget(which: ReadonlySet<bigint>): void {
    this.#entries = this.#entries.filter(({ list, message }) => list === "logs" || !which.has(runOf(message)));
  }

  /** Begins with another session, and returns the finishes that may not have arrived. */
  renew(): Entry[] {
    const finishes = this.#unarrived;
    this.#entries = this.#entries.filter(({ list }) => list === "logs");
    this.#kept = [];
    this.#arrived = 0;
    return finishes;
  }

  /** Gives a credit for a run that has no finish. */
  credit(): void {
    this.#credits++;
    this.#sendSoon();
  }

  /** Says that the worker takes no more runs. */
  leave(): void {
    this.#leaving = true;
    this.#sendSoon();
  }

  /** Adds a message whose texts and data have about `bytes` bytes. */
  add<L extends keyof Lists>(list: L, message: Lists[L][number], bytes: number): Entry {
    const entry = { list, message, bytes: bytes + MESSAGE_BYTES, sent: false };
    this.#entries.push(entry);
    this.#sendSoon();
    return entry;
  }

  /** Removes a message that is not sent. */
  remove(entry: Entry | undefined): void {
    if (entry && !entry.sent) this.#entries = this.#entries.filter((other) => other !== entry);
  }

  /** Adds a line of the log, unless too many wait. */
  log(line: LogLine, bytes: number): void {
    if (this.#lines === MAX_LINES) {
      this.#dropped++;
      return;
    }
    if (this.#dropped > 0) {
      line.fields["lines_dropped_before"] = String(this.#dropped);
      this.#dropped = 0;
    }
    this.#lines++;
    this.add("logs", line, bytes);
  }

  /** Answers a ping. */
  pong(n: bigint): void {
    this.#pong = n;
    this.#sendSoon();
  }

  #sendSoon(): void {
    if (this.#busy || !this.#send) return;
    this.#busy = true;
    const stream = this.#stream;
    setImmediate(() => this.#sendFrame(stream));
  }

  #sendFrame(stream: number): void {
    if (stream !== this.#stream || !this.#send) return;
    this.#busy = this.#entries.length > 0 || this.#pong !== 0n || this.#credits > 0 || this.#leaving;
    if (this.#busy) this.#send(this.#frame(), () => this.#sendFrame(stream));
  }

  /** Removes as many messages as fit into a frame; every finish gives a credit for a new run. */
  #frame(): FromHandler {
    const frame = create(FromHandlerSchema, { pong: this.#pong });
    for (const entry of this.#entries.splice(0, this.#fit())) {
      entry.sent = true;
      (frame[entry.list] as Entry["message"][]).push(entry.message);
      if (entry.list === "finishes") this.#kept?.push(entry);
    }
    frame.credits = frame.finishes.length + this.#credits;
    frame.leaving = this.#leaving;
    if (this.#kept && this.#pong !== 0n) frame.clock = micros(Date.now());
    this.#lines -= frame.logs.length;
    this.#pong = 0n;
    this.#credits = 0;
    this.#leaving = false;
    return frame;
  }

  /** How many of the messages go into one frame: at least the first, whatever its size. */
  #fit(): number {
    let bytes = 0;
    const most = Math.min(this.#entries.length, FRAME_MESSAGES);
    for (let n = 0; n < most; n++) {
      bytes += (this.#entries[n] as Entry).bytes;
      if (n > 0 && bytes > FRAME_BYTES) return n;
    }
    return most;
  }
}

function runOf(message: Entry["message"]): bigint {
  return (message as { runId: bigint }).runId;
}

function finishOf({ message }: Entry): Finish {
  return message as Finish;
}

/** Whether a finish answers a run, and not an attempt of a session before. */
function isOfSession(finish: Finish): boolean {
  return finish.earlier === undefined;
}
