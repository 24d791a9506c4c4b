// What a run asks its host.

import type { Entry } from "./outbox.js";

/** A question that the host has not answered. */
interface Question<Answer> {
  entry: Entry;
  resolve: (answer: Answer) => void;
  reject: (error: Error) => void;
  unknown: (why: string) => Error;
}

/** The questions of one kind of a run that the host has not answered. */
export class Questions<Answer> {
  #last = 0n;
  readonly #open = new Map<bigint, Question<Answer>>(); // by their numbers

  /** Sends a question with its number, and returns the answer. `unknown` makes the error if there is none. */
  ask(send: (number: bigint) => Entry, unknown: (why: string) => Error): Promise<Answer> {
    const number = ++this.#last;
    const entry = send(number);
    return new Promise((resolve, reject) => this.#open.set(number, { entry, resolve, reject, unknown }));
  }

  /** Takes the answer of the host to the question with a number. `error` says why it is none. */
  answered(number: bigint, error: string, answer: Answer): void {
    const question = this.#open.get(number);
    this.#open.delete(number);
    if (error) question?.reject(question.unknown(error));
    else question?.resolve(answer);
  }

  /** Ends the wait for answers. */
  giveUp(why: string): void {
    for (const { reject, unknown } of this.#open.values()) reject(unknown(why));
    this.#open.clear();
  }

  /** Those that were sent, as they are to be sent again when the worker connects again. */
  get again(): Entry[] {
    const sent = [...this.#open.values()].filter(({ entry }) => entry.sent);
    for (const question of sent) question.entry = { ...question.entry, sent: false };
    return sent.map(({ entry }) => entry);
  }
}
