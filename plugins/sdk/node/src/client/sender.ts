// What sends what a flow decides, over one stream at a time.

import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type ServiceError, status } from "@grpc/grpc-js";
import { NewTaskSchema, SubmitRequestSchema, SubmitResponseSchema } from "../gen/taskengine_pb.js";
import {
  BacklogFull,
  ClientError,
  Internal,
  Invalid,
  NotAllowed,
  TooLarge,
  Unavailable,
  Unsupported,
} from "./errors.js";
import type { Flow, Submission } from "./flow.js";
import { Deadline, errorOfStream, isCancelled, type Node, type Nodes } from "./nodes.js";
import { patienceOf, Watch } from "./silent.js";

const PATIENCE = patienceOf(Number.POSITIVE_INFINITY, 0, true);

/** Milliseconds before the first repetition of a call, and at most. */
export const FIRST_PAUSE = 20;
export const MOST_PAUSE = 1000;

/** A random half to whole of a pause, so that clients whose node was lost at the same moment do not come back at the same moment. */
export const jittered = (pause: number): number => pause * (0.5 + Math.random() / 2);

const END = 5000; // milliseconds for the outcomes of a node that stops

type End = ServiceError | Error | undefined;

/** Sends the submissions of a flow to the nodes. */
export class Sender {
  readonly #flow: Flow;
  readonly #nodes: Nodes;
  readonly #timeout: number;
  readonly #closing = new AbortController();
  readonly #unary = new Set<Node>(); // nodes that know no SubmitStream
  #running: Promise<void> | undefined;
  #pump: (() => void) | undefined; // of the stream that is open
  #cancel: (() => void) | undefined; // likewise
  #isWoken = false; // a pump is due

  constructor(flow: Flow, nodes: Nodes, timeout: number) {
    this.#flow = flow;
    this.#nodes = nodes;
    this.#timeout = timeout;
  }

  /** Sends what was added, with what else is added now. */
  wake(): void {
    if (this.#isWoken || this.#closing.signal.aborted) return;
    this.#isWoken = true;
    setImmediate(() => {
      this.#isWoken = false;
      if (this.#pump) this.#pump();
      else if (!this.#running && !this.#flow.isEmpty) this.#running = this.#run();
    });
  }

  /** Ends the stream, and all submissions. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#flow.close();
    this.#cancel?.();
    await this.#running;
  }

  async #run(): Promise<void> {
    let pause = FIRST_PAUSE;
    while (!this.#flow.isEmpty && !this.#closing.signal.aborted) {
      const before = this.#flow.answered;
      await this.#serve();
      if (this.#flow.answered > before) pause = FIRST_PAUSE;
      await sleep(jittered(pause), undefined, { signal: this.#closing.signal }).catch(() => {});
      pause = Math.min(2 * pause, MOST_PAUSE);
    }
    this.#running = undefined;
  }

  /** Sends submissions to one node until it cannot. */
  async #serve(): Promise<void> {
    const node = await this.#nodes.pick(new Deadline(Number.POSITIVE_INFINITY), PATIENCE, false);
    if (this.#closing.signal.aborted) return;
    if (!node) this.#flow.failed(this.#nodes.absent());
    else if (this.#unary.has(node)) await this.#sendUnary(node);
    else await this.#serveStream(node);
  }

  async #serveStream(node: Node): Promise<void> {
    const end = await this.#stream(node);
    this.#flow.endStream();
    const error = errorOfStream(node.address, end);
    if (error instanceof Unsupported) {
      this.#unary.add(node);
    } else if (error instanceof Invalid || error instanceof TooLarge || error instanceof BacklogFull) {
      await this.#sendUnary(node); // one of them is to blame, which its own request tells
    } else if (error instanceof NotAllowed) {
      this.#flow.refuse(error);
    } else {
      this.#nodes.leave(node);
      this.#flow.failed(error ?? new Unavailable("the node is stopping", "unavailable", node.address));
    }
  }

  /** Sends submissions over a stream until it ends, and returns why; undefined if the node stops. */
  #stream(node: Node): Promise<End> {
    return new Promise((resolve) => {
      const call = node.stream("SubmitStream");
      let timer: NodeJS.Timeout | undefined;
      let isBlocked = false;
      let broken: Error | undefined;
      const watch = new Watch(
        node,
        () => this.#flow.patience(this.#nodes.hasOthers),
        () => {
          broken = node.silent();
          call.cancel();
        },
      );
      const done = (error: End) => {
        clearTimeout(timer);
        watch.stop();
        this.#pump = this.#cancel = undefined;
        resolve(broken ?? (timer && isCancelled(error) ? undefined : error));
      };
      this.#cancel = () => call.cancel();
      this.#pump = () => {
        while (!isBlocked && !timer && this.#flow.canSend) {
          const message = this.#flow.nextMessage();
          if (message) isBlocked = !call.write(message);
        }
        watch.arm();
      };
      call.on("drain", () => {
        isBlocked = false;
        this.#pump?.();
      });
      call.on("data", (bytes: Uint8Array) => {
        node.hear();
        try {
          if (this.#flow.resolve(node.address, bytes) && !timer) {
            timer = setTimeout(() => call.cancel(), END);
            call.end();
          }
        } catch (error) {
          broken = error as Error;
          call.cancel();
        }
        this.wake(); // there is room for others
      });
      call.on("error", done);
      call.on("status", (s) => {
        if (s.code === status.OK) done(undefined);
      });
      this.#pump();
    });
  }

  /** Sends what is in the queue by requests of their own. */
  async #sendUnary(node: Node): Promise<void> {
    const deadline = new Deadline(this.#timeout);
    while (!deadline.isOver && !this.#closing.signal.aborted) {
      const taken = this.#flow.take();
      if (taken.length === 0 || !(await this.#settle(node, taken))) return;
    }
  }

  /** Sends submissions by one request, or by several if one of them is refused. Returns false if the node does not answer. */
  async #settle(node: Node, taken: [number, Submission][]): Promise<boolean> {
    let error: ClientError;
    try {
      const tasks = taken.map(([, s]) => fromBinary(NewTaskSchema, s.message));
      const request = toBinary(SubmitRequestSchema, create(SubmitRequestSchema, { tasks }));
      const patience = patienceOf(this.#timeout, request.length, this.#nodes.hasOthers);
      const bytes = await node.attempt("Submit", request, this.#timeout, patience);
      const answer = fromBinary(SubmitResponseSchema, bytes);
      if (answer.receipts.length !== taken.length)
        throw new Error(`${taken.length} tasks have ${answer.receipts.length} receipts`);
      for (const [i, receipt] of answer.receipts.entries()) {
        const { id, created, outcome } = receipt;
        this.#flow.settle((taken[i] as [number, Submission])[0], { id, created, outcome });
      }
      return true;
    } catch (thrown) {
      error =
        thrown instanceof ClientError
          ? thrown
          : new Internal(`the answer of the node is not valid: ${thrown}`, "internal", node.address);
    }
    const half = taken.length >> 1;
    if (half > 0 && (error instanceof Invalid || error instanceof TooLarge || error instanceof BacklogFull)) {
      return (await this.#settle(node, taken.slice(0, half))) && (await this.#settle(node, taken.slice(half)));
    }
    for (const [sequence] of taken) this.#flow.settle(sequence, error);
    if (error instanceof Unavailable) this.#nodes.leave(node);
    return !(error instanceof Unavailable);
  }
}
