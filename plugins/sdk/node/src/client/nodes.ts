// The nodes of a client, of which it uses one at a time.

import {
  type ClientDuplexStream,
  Client as Connection,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { ClientError, codeOf, errorOfCall, Internal, Invalid, Unavailable } from "./errors.js";

const SERVICE = "/taskengine.v1.TaskService/";

/** Milliseconds for a connection to one node, before another one is tried. */
const CONNECT = 5000;
/** A method that changes nothing, and that shows whether a node answers. */
const PROBE = "Version";

const OPTIONS = {
  "grpc.max_receive_message_length": 256 << 20,
  "grpc.max_send_message_length": -1,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.use_local_subchannel_pool": 1, // the failed attempts of another client do not delay those of this one
  "grpc.keepalive_time_ms": 30_000, // a node whose machine is gone is noticed
  "grpc.keepalive_timeout_ms": 10_000,
  "grpc.primary_user_agent": "taskengine-client",
};

/** How a client shows who it is, and how it knows a node. */
export interface Access {
  token?: string | undefined;
  ca?: Uint8Array | string | undefined;
}

/** When a call has to be over. */
export class Deadline {
  readonly #end: number;

  constructor(timeout: number) {
    this.#end = performance.now() + timeout;
  }

  /** Milliseconds until then, at least 0. */
  get left(): number {
    return Math.max(0, this.#end - performance.now());
  }

  get isOver(): boolean {
    return this.left === 0;
  }
}

export type Stream = ClientDuplexStream<Uint8Array, Uint8Array>;

/** One node. */
export class Node {
  readonly address: string;
  readonly #connection: Connection;
  readonly #metadata = new Metadata();

  constructor(address: string, access: Access) {
    this.address = address;
    const { target, isSecure } = targetOf(address);
    const ca = access.ca === undefined ? null : Buffer.from(access.ca);
    this.#connection = new Connection(
      target,
      isSecure ? credentials.createSsl(ca) : credentials.createInsecure(),
      OPTIONS,
    );
    if (access.token) this.#metadata.set("authorization", `Bearer ${access.token}`);
  }

  /** Makes a call. Throws a ClientError, or the reason of the signal. */
  call(method: string, request: Uint8Array, timeout: number, signal?: AbortSignal): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      const options = Number.isFinite(timeout) ? { deadline: Date.now() + timeout } : {};
      const done = (error: ServiceError | null, answer?: Uint8Array) => {
        signal?.removeEventListener("abort", abort);
        if (signal?.aborted) reject(signal.reason);
        else if (error) reject(errorOfCall(this.address, error));
        else resolve(answer ?? new Uint8Array());
      };
      const path = SERVICE + method;
      const call = this.#connection.makeUnaryRequest(path, asBuffer, asBytes, request, this.#metadata, options, done);
      const abort = () => call.cancel();
      signal?.addEventListener("abort", abort);
    });
  }

  stream(method: string): Stream {
    return this.#connection.makeBidiStreamRequest(SERVICE + method, asBuffer, asBytes, this.#metadata);
  }

  /** Whether the node answers. */
  async answers(timeout: number, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.call(PROBE, new Uint8Array(), timeout, signal);
    } catch (error) {
      signal?.throwIfAborted();
      return error instanceof ClientError && !["unavailable", "deadline_exceeded", "canceled"].includes(error.code);
    }
    return true;
  }

  /** Ends the connection, and the calls under way. */
  close(): void {
    this.#connection.close();
  }
}

/** The nodes of a client. */
export class Nodes {
  readonly all: readonly Node[];
  #current = 0; // the node that is used
  #connected: Node | undefined; // the node that has answered last

  constructor(addresses: string | readonly string[], access: Access) {
    const given = typeof addresses === "string" ? [addresses] : addresses;
    if (!Array.isArray(given) || given.length === 0)
      throw new Invalid("no address of a node is given; give host:port, unix:PATH or a URL");
    for (const address of given) targetOf(address); // before a connection is made
    this.all = given.map((address) => new Node(address, access));
  }

  /**
   * A node that answers, or undefined if none does. Unless it has to be sure, a node is taken that has answered before,
   * and may have stopped since.
   */
  async pick(deadline: Deadline, isSure: boolean, signal?: AbortSignal): Promise<Node | undefined> {
    if (!isSure && this.#connected) return this.#connected;
    const inTurn = [...this.all.slice(this.#current), ...this.all.slice(0, this.#current)];
    for (const node of inTurn) {
      if (await node.answers(Math.min(CONNECT, deadline.left), signal)) {
        this.#current = this.all.indexOf(node);
        this.#connected = node;
        return node;
      }
      if (deadline.isOver) break;
    }
    return undefined;
  }

  /** Has another node used than the one that has failed. */
  leave(failed: Node): void {
    if (this.#connected === failed) this.#connected = undefined;
    if (this.all[this.#current] === failed) this.#current = (this.#current + 1) % this.all.length;
  }

  /** The error of a client that no node answers. */
  absent(): Unavailable {
    const addresses = this.all.map((node) => node.address).join(", ");
    return new Unavailable(`no node answers at ${addresses}; is it running?`, "unavailable");
  }

  close(): void {
    for (const node of this.all) node.close();
  }
}

/** The error of a stream that has ended; undefined if the node has ended it in order. */
export function errorOfStream(address: string, error: ServiceError | Error | undefined): ClientError | undefined {
  if (error === undefined) return undefined;
  if ("code" in error) return errorOfCall(address, error);
  return new Internal(`the answer of the node is not valid: ${error.message}`, "internal", address, { cause: error });
}

/** Whether a stream was cancelled by the client. */
export function isCancelled(error: ServiceError | Error | undefined): boolean {
  return error !== undefined && "code" in error && error.code === status.CANCELLED && codeOf(error) === "canceled";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function asBytes(bytes: Buffer): Uint8Array {
  return bytes;
}

/** The address as grpc-js writes it, and whether it needs TLS. */
export function targetOf(address: string): { target: string; isSecure: boolean } {
  if (typeof address !== "string") throw new Invalid(`an address is a text, not ${String(address)}`);
  if (address.startsWith("unix:")) {
    if (address === "unix:") throw new Invalid("the address unix: has no path");
    return { target: address, isSecure: false };
  }
  let host = address;
  let isSecure = false;
  if (address.includes("://")) {
    const url = URL.canParse(address) ? new URL(address) : undefined;
    const isPlain = url && !url.username && !url.password && !url.search && !url.hash && url.pathname === "/";
    if (!isPlain || (url.protocol !== "http:" && url.protocol !== "https:")) {
      throw new Invalid(`${JSON.stringify(address)} is no URL of http or https without a path and a user`);
    }
    isSecure = url.protocol === "https:";
    host = `${url.hostname}:${url.port || (isSecure ? 443 : 80)}`;
  }
  if (!/^[^\s/@:][^\s/@]*$|^\[[^\s/@]+$/.test(host)) {
    throw new Invalid(`${JSON.stringify(address)} is no address; give host:port, unix:PATH or a URL`);
  }
  return { target: `dns:///${host}`, isSecure };
}
