// The tasks that callers submit, until each has its outcome. It decides what is sent, and waits for nothing.

import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { ClientError, Closed, DeadlineExceeded, mayRepeat, Unavailable } from "./errors.js";
import { decodeOutcomes, type Encoded, firstOfTwo, type Receipt, refusal } from "./request.js";
import { MOST_QUIET, type Patience, patienceOf } from "./silent.js";

const MESSAGE_TASKS = 1000; // in one message
export const MESSAGE_BYTES = 1 << 20; // likewise, of a message with several tasks
export const MOST_SENT = 4000; // requests without an outcome, as the node allows

/** A task that a caller waits for. */
export interface Submission extends Encoded {
  /** Milliseconds for which its caller waits. */
  wait?: number;
  /** Is called once, with the outcome. */
  land(outcome: Receipt | ClientError): void;
  /** It has its outcome. Set by the flow. */
  isDone?: boolean;
}

/** The submissions of a client. */
export class Flow {
  #queue: Submission[] = []; // to be sent
  #sent = new Map<number, Submission>(); // without an outcome, by sequence, in the order in which they were sent
  #last = 0; // sequence
  #closed: Closed | undefined;
  #trouble: ClientError | undefined; // why the last stream has ended; undefined after an outcome

  /** How many outcomes there were. */
  answered = 0;

  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** Whether a message can be sent now. */
  get canSend(): boolean {
    return this.#queue.length > 0 && this.#sent.size < MOST_SENT;
  }

  /** The patience with a node that has said nothing about what was sent; undefined if everything has its outcome. */
  patience(hasOthers: boolean): Patience | undefined {
    if (this.#sent.size === 0) return undefined;
    let wait = Number.POSITIVE_INFINITY;
    let size = 0;
    for (const s of this.#sent.values()) {
      wait = Math.min(wait, s.wait ?? wait);
      size += s.message.length;
    }
    return patienceOf(wait, size, hasOthers, MOST_QUIET / 3);
  }

  /** Has submissions sent. */
  add(submissions: readonly Submission[]): void {
    for (const s of submissions) {
      if (this.#closed) this.#finish(s, this.#closed);
      else this.#queue.push(s);
    }
  }

  /** Ends submissions whose caller does not wait any longer. Without a reason, their timeout is over. */
  abandon(submissions: readonly Submission[], reason?: ClientError): void {
    for (const s of submissions) this.#finish(s, reason ?? this.#lateness());
  }

  #lateness(): ClientError {
    const words = "the task may have been added: the timeout is over";
    if (this.#trouble instanceof Unavailable) {
      return new Unavailable(`${words}: ${this.#trouble.message}`, "unavailable", "", { cause: this.#trouble });
    }
    return new DeadlineExceeded(words, "deadline_exceeded", "", { cause: this.#trouble });
  }

  #finish(s: Submission, outcome: Receipt | ClientError): void {
    if (s.isDone) return;
    s.isDone = true;
    s.land(outcome instanceof ClientError ? outcome : firstOfTwo(outcome, s));
  }

  /** Moves the next submissions to those that are sent, and returns them with their sequences. */
  take(): [number, Submission][] {
    const taken: [number, Submission][] = [];
    let size = 0;
    let next = 0;
    for (; next < this.#queue.length && taken.length < MESSAGE_TASKS && this.#sent.size < MOST_SENT; next++) {
      const s = this.#queue[next] as Submission;
      if (s.isDone) continue; // abandoned
      if (taken.length > 0 && size + s.message.length > MESSAGE_BYTES) break;
      this.#last = this.#last === 0xffffffff ? 1 : this.#last + 1;
      this.#sent.set(this.#last, s);
      size += s.message.length;
      taken.push([this.#last, s]);
    }
    this.#queue.splice(0, next);
    return taken;
  }

  /** The next SubmitStreamRequest, or undefined if there is nothing to send. */
  nextMessage(): Uint8Array | undefined {
    const taken = this.take();
    if (taken.length === 0) return undefined;
    const w = new BinaryWriter();
    for (const [sequence, { message }] of taken) {
      w.tag(1, WireType.LengthDelimited).fork();
      w.tag(1, WireType.Varint).uint32(sequence).tag(2, WireType.LengthDelimited).bytes(message).join();
    }
    return w.finish();
  }

  /** Takes a SubmitStreamResponse, and returns whether the node accepts no more. */
  resolve(address: string, bytes: Uint8Array): boolean {
    const { outcomes, stopping } = decodeOutcomes(address, bytes);
    let leave = stopping;
    for (const { sequence, result } of outcomes) leave = this.settle(sequence, result) || leave;
    return leave;
  }

  /** Takes an outcome, and returns whether another node is to be used. */
  settle(sequence: number, outcome: Receipt | ClientError): boolean {
    const s = this.#sent.get(sequence);
    if (!s) return false;
    this.#sent.delete(sequence);
    if (outcome instanceof ClientError && mayRepeat(outcome)) {
      this.#trouble = outcome;
      this.#queue.push(s);
      return outcome instanceof Unavailable;
    }
    this.#finish(s, (outcome instanceof ClientError ? undefined : refusal(outcome)) ?? outcome);
    this.answered++;
    this.#trouble = undefined;
    return false;
  }

  /** What has no outcome is sent again, first and in its order. */
  endStream(): void {
    this.#queue = [...this.#sent.values(), ...this.#queue];
    this.#sent.clear();
  }

  /** Records why nothing is answered. */
  failed(error: ClientError): void {
    this.#trouble = error;
  }

  /** Gives an error to all that waits. */
  refuse(error: ClientError): void {
    this.endStream();
    const all = this.#queue;
    this.#queue = [];
    for (const s of all) this.#finish(s, error);
  }

  /** Ends all submissions, and those that come. */
  close(): void {
    this.#closed = new Closed("the client is closed: the task may have been added");
    this.refuse(this.#closed);
  }
}
