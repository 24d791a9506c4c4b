// The connection of a worker to one node.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type ChannelCredentials,
  type ClientDuplexStream,
  Client as Connection,
  credentials,
  Metadata,
  type StatusObject,
  status,
} from "@grpc/grpc-js";
import { tokenOf } from "./access.js";
import { targetOf } from "./client/nodes.js";
import {
  type FromHandler,
  FromHandlerSchema,
  OfferSchema,
  type ToHandler,
  ToHandlerSchema,
  type Welcome,
} from "./gen/handler_pb.js";
import { now } from "./lease.js";
import { helloOf, PROTOCOL, type Program } from "./program.js";
import { Shift } from "./shift.js";
import { micros } from "./time.js";
import type { Pem, WorkOptions } from "./work.js";

const GREETING = 10_000; // milliseconds for a connection until its welcome
const SHORTEST_PAUSE = 50; // milliseconds between two connections
const LONGEST_PAUSE = 5_000;
const URGENT_PAUSE = 1_000; // the longest while there are answers: a node that has started awaits them for a short time
const LAST_MOMENTS = 2_000; // milliseconds for handlers to return that were cut off
const CHECKS = 4; // of a connection, in the time in which a node must have sent something

const OPTIONS = {
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_http_proxy": 0,
};

type Stream = ClientDuplexStream<FromHandler, ToHandler>;

/** How a connection ended: in order, or why not. */
interface End {
  welcomed: boolean;
  error: string | undefined;
}

/** Keeps the connection of a worker to one node. */
export class Worker {
  readonly #program: Program;
  readonly #address: string;
  readonly #options: WorkOptions;
  readonly #token: string | undefined;
  readonly #log: (message: string) => void;
  readonly #shift: Shift;
  #session: Uint8Array = randomBytes(16);
  #reconnect = 0; // milliseconds for which the node keeps the runs of the session without a connection
  #cutOff = Number.POSITIVE_INFINITY; // when the node gives the runs to others, unless there is a connection
  #said: string | undefined; // the newest error that was logged
  #offered = now(); // when the newest offer was made
  #stream: Stream | undefined; // with a welcome

  /** Throws a RangeError for an address that is none, and a TypeError for a token that cannot be sent. */
  constructor(program: Program, address: string, options: WorkOptions) {
    try {
      targetOf(address, options.tls !== undefined);
    } catch (error) {
      throw new RangeError(error instanceof Error ? error.message : String(error));
    }
    this.#token = tokenOf(options.token);
    this.#program = program;
    this.#address = address;
    this.#options = options;
    this.#log = options.log ?? ((message) => void process.stderr.write(`taskengine: ${message}\n`));
    this.#shift = new Shift(program.handlers);
  }

  /** Runs tasks for the node until it has drained the worker, or the signal has aborted and everything is answered. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    const leave = () => {
      if (this.#stream) this.#shift.leave();
    };
    signal?.addEventListener("abort", leave);
    try {
      for (let pause = SHORTEST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
        const { welcomed, error } = await this.#connect();
        if (error === undefined) break;
        if (welcomed) {
          pause = SHORTEST_PAUSE;
          this.#said = undefined;
          this.#cutOff = performance.now() + this.#reconnect;
        }
        this.#complain(error);
        if (this.#shift.hasAnswers) pause = Math.min(pause, URGENT_PAUSE);
        await this.#rest(pause);
        if (performance.now() >= this.#cutOff) {
          this.#shift.lose();
          this.#session = randomBytes(16);
          this.#cutOff = Number.POSITIVE_INFINITY;
        }
        if (signal?.aborted && this.#shift.holds.length === 0) break;
      }
    } finally {
      signal?.removeEventListener("abort", leave);
    }
    await Promise.race([this.#shift.end(), sleep(LAST_MOMENTS, undefined, { ref: false })]);
  }

  #complain(error: string): void {
    if (error === this.#said) return;
    this.#said = error;
    this.#log(`no connection to the node at ${this.#address}: ${error}`);
  }

  /** Waits about so long, and no longer than until the runs are lost or the worker is to end. */
  async #rest(pause: number): Promise<void> {
    const { signal } = this.#options;
    const wait = Math.min(pause / 2 + Math.random() * (pause / 2), Math.max(0, this.#cutOff - performance.now()));
    try {
      await sleep(wait, undefined, signal && !signal.aborted ? { signal } : {});
    } catch {
      // the signal
    }
  }

  /** Opens a connection, and runs tasks until it ends. */
  async #connect(): Promise<End> {
    let connection: Connection;
    try {
      connection = new Connection(targetOf(this.#address).target, this.#credentials(), OPTIONS);
    } catch (error) {
      return { welcomed: false, error: error instanceof Error ? error.message : String(error) };
    }
    try {
      return await this.#serve(connection);
    } finally {
      this.#stream = undefined;
      this.#shift.pause();
      connection.close();
    }
  }

  #credentials(): ChannelCredentials {
    const { tls } = this.#options;
    if (!targetOf(this.#address, tls !== undefined).isSecure) return credentials.createInsecure();
    return credentials.createSsl(pemOf(tls?.ca), pemOf(tls?.key), pemOf(tls?.cert));
  }

  /** Runs tasks on one stream until it ends. */
  #serve(connection: Connection): Promise<End> {
    return new Promise((resolve) => {
      const metadata = new Metadata();
      if (this.#token) metadata.set("authorization", `Bearer ${this.#token}`);
      const stream: Stream = connection.makeBidiStreamRequest(
        "/taskengine.handler.v1.Workers/Work",
        (frame: FromHandler) => Buffer.from(toBinary(FromHandlerSchema, frame)),
        (bytes: Buffer) => fromBinary(ToHandlerSchema, bytes),
        metadata,
      );
      let welcomed = false;
      let heard = false;
      let why: string | undefined; // of an end by this side
      let over = false; // what the library still has of the stream counts for nothing: another offer may be made
      let check: NodeJS.Timeout | undefined;
      const end = (error: string) => {
        why ??= error;
        stream.cancel();
      };
      const greeting = Math.max(1, Math.min(GREETING, this.#cutOff - performance.now()));
      const late = setTimeout(() => end(`the node did not answer within ${Math.ceil(greeting / 1000)} s`), greeting);
      stream.on("data", (frame: ToHandler) => {
        if (why !== undefined || over) return;
        heard = true;
        if (welcomed) return this.#shift.take(frame);
        clearTimeout(late);
        const problem = problemOfWelcome(frame.welcome);
        if (problem !== undefined) return end(problem);
        welcomed = true;
        const welcome = frame.welcome as Welcome;
        this.#begin(stream, welcome);
        check = checkLiveness(Number(welcome.liveness) / 1000, end, () => {
          const was = heard;
          heard = false;
          return was;
        });
      });
      stream.on("error", () => {}); // the status says it
      stream.on("status", ({ code, details }: StatusObject) => {
        over = true;
        clearTimeout(late);
        clearInterval(check);
        const isInOrder = code === status.OK && welcomed && why === undefined;
        resolve({
          welcomed,
          error: isInOrder ? undefined : (why ?? (details || `the stream ended with status ${code}`)),
        });
      });
      stream.write(this.#offer());
    });
  }

  /** Goes on with a stream that the node has welcomed. */
  #begin(stream: Stream, welcome: Welcome): void {
    this.#stream = stream;
    this.#reconnect = Number(welcome.reconnect) / 1000;
    this.#cutOff = Number.POSITIVE_INFINITY;
    this.#log(
      `connected to the node ${welcome.host} at ${this.#address} as handler ${welcome.name} with ${welcome.slots} slots` +
        (welcome.resumed ? ", with the runs of before" : ""),
    );
    this.#shift.resume(welcome, this.#offered, (frame, sent) => void stream.write(frame, sent));
    if (this.#options.signal?.aborted) this.#shift.leave();
  }

  /** The first frame of a stream. */
  #offer(): FromHandler {
    this.#offered = now();
    const offer = create(OfferSchema, {
      handler: this.#options.handler ?? "",
      labels: { ...this.#options.labels },
      session: this.#session,
      runs: this.#shift.holds,
      name: `${hostname()}:${process.pid}`,
    });
    const hello = helloOf(this.#program, this.#program.slots);
    return create(FromHandlerSchema, { hello, offer, clock: micros(Date.now()) });
  }
}

function problemOfWelcome(welcome: Welcome | undefined): string | undefined {
  if (welcome?.protocol !== PROTOCOL) {
    const theirs = welcome ? `version ${welcome.protocol} of the protocol` : "no welcome";
    return `the node speaks ${theirs}, this worker version ${PROTOCOL}`;
  }
  return welcome.slots === 0 ? "the node gives the worker no slot" : undefined;
}

/** Ends a connection when the node has been silent for `life` milliseconds; 0 is no bound. */
function checkLiveness(life: number, end: (why: string) => void, heard: () => boolean): NodeJS.Timeout | undefined {
  if (life <= 0) return undefined;
  let missed = 0;
  return setInterval(
    () => {
      missed = heard() ? 0 : missed + 1;
      if (missed > CHECKS) end(`the node was silent for ${life / 1000} s`);
    },
    Math.max(1, life / CHECKS),
  );
}

function pemOf(pem: Pem | undefined): Buffer | null {
  if (pem === undefined) return null;
  return Buffer.from(typeof pem === "function" ? pem() : pem);
}
