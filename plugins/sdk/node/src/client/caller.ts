// Calls to nodes. The methods of a client are in a class for each subject, of which each extends the one before: TypeScript has no
// other way to declare one class in several files.

import { setTimeout as sleep } from "node:timers/promises";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { decoded, encoded } from "./calls.js";
import { ClientError, mayRepeat, Unavailable } from "./errors.js";
import { Deadline, type Nodes } from "./nodes.js";
import type { CallOptions } from "./options.js";
import { FIRST_PAUSE, jittered, MOST_PAUSE } from "./sender.js";
import { patienceOf } from "./silent.js";

/** Makes calls to one of several nodes. */
export abstract class Caller {
  protected readonly dialed: Nodes;
  /** Milliseconds that a call may take if it is given no other time. */
  protected readonly timeout: number;
  /** Aborted when the client is closed. */
  protected readonly closing = new AbortController();

  protected constructor(nodes: Nodes, timeout: number) {
    this.dialed = nodes;
    this.timeout = timeout;
  }

  /**
   * Makes a call. If no node answers, it makes it again until its time is over: always if it is repeatable, and otherwise
   * while no node can have received it.
   */
  protected async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: () => MessageInitShape<I>,
    options: CallOptions = {},
    isRepeatable = true,
  ): Promise<MessageShape<O>> {
    const bytes = encoded(method, request);
    const deadline = new Deadline(options.timeout ?? this.timeout);
    const signal = AbortSignal.any(options.signal ? [options.signal, this.closing.signal] : [this.closing.signal]);
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, MOST_PAUSE)) {
      signal.throwIfAborted();
      const patience = patienceOf(deadline.left, bytes.length, this.dialed.hasOthers);
      const node = await this.dialed.pick(deadline, patience, !isRepeatable, signal);
      let error: ClientError = this.dialed.absent();
      if (node) {
        try {
          return decoded(method, await node.attempt(method.name, bytes, deadline.left, patience, signal), node.address);
        } catch (thrown) {
          if (!(thrown instanceof ClientError)) throw thrown; // the reason of the signal
          if (thrown instanceof Unavailable) this.dialed.leave(node);
          error = thrown;
        }
      }
      signal.throwIfAborted();
      if (!mayRepeat(error) || (node && !isRepeatable) || deadline.left <= pause) throw error;
      await sleep(jittered(pause), undefined, { signal }).catch(() => {});
    }
  }
}
