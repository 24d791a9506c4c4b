// Streams of answers that go on at another node.

import { setTimeout as sleep } from "node:timers/promises";
import type { DescMessage, DescMethodServerStreaming, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { BulkCalls } from "./bulk.js";
import { decoded, encoded } from "./calls.js";
import { ClientError, mayRepeat, Unavailable } from "./errors.js";
import { Deadline, type Node } from "./nodes.js";
import { FIRST_PAUSE, jittered, MOST_PAUSE } from "./sender.js";
import { patienceOf } from "./silent.js";

/** Milliseconds that a stream is asked to last. */
export const LASTS = 30_000;
const GRACE = 15_000; // milliseconds that a stream may be silent after that

/** What is followed, and how far it is. */
export interface Following<I extends DescMessage, O extends DescMessage, Item> {
  readonly method: DescMethodServerStreaming<I, O>;
  cursor: string;
  /** Nothing follows. */
  isOver?: boolean;
  /** The request that goes on. */
  request(): MessageInitShape<I>;
  /** The items of an answer. The cursor is behind each when it is given out. */
  items(answer: MessageShape<O>): Generator<Item>;
}

export abstract class StreamCalls extends BulkCalls {
  /** The items of streams, one after the other. When its node does not answer, it goes on at another one. */
  protected async *follow<I extends DescMessage, O extends DescMessage, Item>(
    following: Following<I, O, Item>,
    given: AbortSignal | undefined,
  ): AsyncGenerator<Item, void, undefined> {
    const signal = AbortSignal.any(given ? [given, this.closing.signal] : [this.closing.signal]);
    for (let pause = FIRST_PAUSE; ; ) {
      signal.throwIfAborted();
      const before = following.cursor;
      try {
        yield* this.#poll(following, signal);
        if (following.isOver) return;
        continue;
      } catch (error) {
        signal.throwIfAborted();
        if (!mayRepeat(error)) throw error;
      }
      if (following.isOver) return;
      pause = following.cursor === before ? Math.min(2 * pause, MOST_PAUSE) : FIRST_PAUSE;
      await sleep(jittered(pause), undefined, { signal }).catch(() => {});
    }
  }

  /** The items of one stream, which ends after a while. */
  async *#poll<I extends DescMessage, O extends DescMessage, Item>(
    following: Following<I, O, Item>,
    signal: AbortSignal,
  ): AsyncGenerator<Item, void, undefined> {
    const deadline = new Deadline(this.timeout);
    const patience = patienceOf(deadline.left, 0, this.dialed.hasOthers);
    const request = encoded(following.method, () => following.request());
    const node = await this.dialed.pick(deadline, patience, false, signal);
    if (!node) throw this.dialed.absent();
    const answers = answersOf(node, following.method, request, signal);
    try {
      for (;;) {
        const { value, done } = await answers.next();
        if (done) return;
        yield* following.items(value);
      }
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      if (!(error instanceof Unavailable) && error.code !== "canceled") throw error;
      this.dialed.leave(node);
      throw new Unavailable(error.message, "unavailable", node.address, { cause: error });
    } finally {
      await answers.return();
    }
  }
}

/** The answers of one stream. Throws Unavailable if the node is silent for longer than the stream is to last. */
async function* answersOf<O extends DescMessage>(
  node: Node,
  method: DescMethodServerStreaming<DescMessage, O>,
  request: Uint8Array,
  signal: AbortSignal,
): AsyncGenerator<MessageShape<O>, void, undefined> {
  const silence = new AbortController();
  const stream = node.follow(method.name, request, AbortSignal.any([signal, silence.signal]));
  try {
    for (;;) {
      const timer = setTimeout(() => silence.abort(node.silent()), LASTS + GRACE);
      const { value, done } = await stream.next().finally(() => clearTimeout(timer));
      if (done) return;
      yield decoded(method, value, node.address);
    }
  } finally {
    await stream.return();
  }
}
