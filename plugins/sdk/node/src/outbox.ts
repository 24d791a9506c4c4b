// The messages to be sent: they are collected while the sender is busy, and sent in frames.

import { create } from "@bufbuild/protobuf";
import { type FromHandler, FromHandlerSchema, type LogLine } from "./gen/handler_pb.js";

const FRAME_BYTES = 1 << 20; // when to stop filling a frame
const FRAME_MESSAGES = 512;
const MESSAGE_BYTES = 64; // of a message besides its texts and data, roughly
const MAX_LINES = 8192; // of the log that may wait; of the rest only the number is sent

/** The lists of a frame, each with its kind of message. */
type Lists = Pick<FromHandler, "finishes" | "logs" | "progress" | "heartbeats" | "checkpoints">;

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
 */
export class Outbox {
  readonly #send: Send;
  #entries: Entry[] = [];
  #lines = 0; // of the log among them
  #dropped = 0; // lines of the log since the last that was sent
  #pong = 0n; // to be sent, if not 0
  #busy = false; // a frame is under way, or is made at the end of this turn of the event loop

  constructor(send: Send) {
    this.#send = send;
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
    if (entry && !entry.sent) this.#entries.splice(this.#entries.indexOf(entry), 1);
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
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(this.#sendFrame);
  }

  readonly #sendFrame = (): void => {
    this.#busy = this.#entries.length > 0 || this.#pong !== 0n;
    if (this.#busy) this.#send(this.#frame(), this.#sendFrame);
  };

  /** Removes as many messages as fit into a frame; every finish gives a credit for a new run. */
  #frame(): FromHandler {
    const frame = create(FromHandlerSchema, { pong: this.#pong });
    for (const entry of this.#entries.splice(0, this.#fit())) {
      entry.sent = true;
      (frame[entry.list] as Entry["message"][]).push(entry.message);
    }
    frame.credits = frame.finishes.length;
    this.#lines -= frame.logs.length;
    this.#pong = 0n;
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
