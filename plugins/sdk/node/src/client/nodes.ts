// The nodes of a client, of which it uses one at a time.

import { setTimeout as sleep } from "node:timers/promises";
import {
  type ChannelCredentials,
  type ClientDuplexStream,
  Client as Connection,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { tokenOf } from "../access.js";
import { ClientError, codeOf, errorOfCall, Internal, Invalid, Unavailable } from "./errors.js";
import { MOST_PROBE, type Patience, Watch } from "./silent.js";

const SERVICE = "/taskengine.v1.TaskService/";

/** A method that changes nothing, and that shows whether a node answers. */
const PROBE = "Version";

const OPTIONS = {
  "grpc.max_receive_message_length": 256 << 20,
  "grpc.max_send_message_length": -1,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.use_local_subchannel_pool": 1, // the failed attempts of another client do not delay those of this one
  "grpc.enable_http_proxy": 0,
  "grpc.primary_user_agent": "taskengine-client",
};

/** How a client shows who it is, and how it knows a node. What is in PEM may be left out. */
export interface Access {
  token?: string | undefined;
  ca?: Pem | undefined;
  cert?: Pem | undefined;
  key?: Pem | undefined;
}

type Pem = Uint8Array | string;

/** An access as it is used. Throws Invalid if it cannot be. */
function checked(access: Access): Access {
  let token: string | undefined;
  try {
    token = tokenOf(access.token);
  } catch (error) {
    throw new Invalid((error as Error).message);
  }
  for (const name of ["ca", "cert", "key"] as const) {
    const pem = access[name];
    if (
      pem !== undefined &&
      !(typeof pem === "string" ? pem : Buffer.from(pem).toString("latin1")).includes("-----BEGIN ")
    ) {
      throw new Invalid(`${name} is not in PEM: give the contents of a file with a line -----BEGIN`);
    }
  }
  if (!access.cert !== !access.key) {
    throw new Invalid("a certificate needs its key, and a key its certificate: give both");
  }
  return { token, ca: access.ca, cert: access.cert, key: access.key };
}

function credentialsOf({ ca, cert, key }: Access): ChannelCredentials {
  const [authority, privateKey, chain] = [ca, key, cert].map((pem) => (pem === undefined ? null : Buffer.from(pem)));
  try {
    return credentials.createSsl(authority, privateKey, chain);
  } catch (error) {
    throw new Invalid(`the certificates cannot be used: ${(error as Error).message}`, "", "", { cause: error });
  }
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
  readonly #open: () => Connection;
  readonly #metadata = new Metadata();
  #connection: Connection;
  #hasAnswered = false; // over this connection
  #probing: Promise<boolean> | undefined;
  #isClosed = false;

  /** When it has answered last, by performance.now. */
  heard = Number.NEGATIVE_INFINITY;
  /** It has to answer a probe before it is used. */
  isSuspect = false;
  /** A probe had no answer, and the node has not answered since. */
  isSilent = false;
  /** Why there was no connection last. */
  reason = "";

  /** The access is a checked one. */
  constructor(address: string, access: Access) {
    this.address = address;
    const { target, isSecure } = targetOf(address, needsTls(access));
    const how = isSecure ? credentialsOf(access) : credentials.createInsecure();
    this.#open = () => new Connection(target, how, OPTIONS);
    this.#connection = this.#open();
    if (access.token) this.#metadata.set("authorization", `Bearer ${access.token}`);
  }

  /** Makes a call. Throws a ClientError, or the reason of the signal. */
  call(method: string, request: Uint8Array, timeout: number, signal?: AbortSignal): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const begin = performance.now();
      const options = Number.isFinite(timeout) ? { deadline: Date.now() + timeout } : {};
      const done = (error: ServiceError | null, answer?: Uint8Array) => {
        signal?.removeEventListener("abort", abort);
        if (!error || isAnswer(errorOfCall(this.address, error))) this.hear();
        else if (error.code === status.DEADLINE_EXCEEDED && this.heard < begin) this.suspect();
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

  /** Does what call does. Throws Unavailable if the node is silent. */
  async attempt(
    method: string,
    request: Uint8Array,
    timeout: number,
    patience: Patience,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const silence = new AbortController();
    const watch = new Watch(
      this,
      () => patience,
      () => silence.abort(this.silent()),
    );
    watch.arm();
    try {
      const either = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
      return await this.call(method, request, timeout, either);
    } finally {
      watch.stop();
    }
  }

  /** Has a node that does not answer probed before it is used again, and returns the error. */
  silent(): Unavailable {
    this.isSilent = true;
    this.suspect();
    return new Unavailable("it takes requests and does not answer", "unavailable", this.address);
  }

  suspect(): void {
    this.isSuspect = true;
    if (!this.#probing) void this.#probe();
  }

  /** Notes that the node has answered. */
  hear(): void {
    this.heard = performance.now();
    this.isSilent = false;
    this.#hasAnswered = true;
  }

  stream(method: string): Stream {
    return this.#connection.makeBidiStreamRequest(SERVICE + method, asBuffer, asBytes, this.#metadata);
  }

  /** The answers to one request, until the node ends them. Throws a ClientError, or the reason of the signal. */
  async *follow(method: string, request: Uint8Array, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    signal.throwIfAborted();
    const call = this.#connection.makeServerStreamRequest(SERVICE + method, asBuffer, asBytes, request, this.#metadata);
    const abort = () => call.cancel();
    signal.addEventListener("abort", abort);
    try {
      for await (const bytes of call) {
        this.hear();
        yield bytes as Uint8Array;
      }
    } catch (error) {
      signal.throwIfAborted();
      throw errorOfStream(this.address, error as Error);
    } finally {
      signal.removeEventListener("abort", abort);
      call.on("error", () => {}).cancel();
    }
  }

  /** Probes the node, and returns whether it answers something within so many milliseconds. */
  async isAlive(wait: number, signal?: AbortSignal): Promise<boolean> {
    const begin = performance.now();
    const over = new AbortController();
    const either = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
    const late = sleep(wait, false, { signal: either }).catch(() => false);
    try {
      return (await Promise.race([this.#probe(), late])) || this.heard >= begin;
    } finally {
      over.abort();
    }
  }

  /** Asks for the version, unless it is being asked for. Returns whether the node has answered. */
  #probe(): Promise<boolean> {
    this.#probing ??= this.#ask().finally(() => {
      this.#probing = undefined;
    });
    return this.#probing;
  }

  async #ask(): Promise<boolean> {
    if (this.#isClosed) return false; // a request over a closed connection throws
    const begin = performance.now();
    const connection = this.#connection;
    const error = await new Promise<ServiceError | null>((resolve) => {
      const options = { deadline: Date.now() + MOST_PROBE };
      connection.makeUnaryRequest(
        SERVICE + PROBE,
        asBuffer,
        asBytes,
        new Uint8Array(),
        this.#metadata,
        options,
        resolve,
      );
    });
    if (!error || isAnswer(errorOfCall(this.address, error))) {
      this.hear();
      this.isSuspect = false;
      return true;
    }
    this.reason = reasonOf(error);
    const isHanging = error.code === status.DEADLINE_EXCEEDED && this.heard < begin;
    if (isHanging && !this.#isClosed && this.#hasAnswered && connection === this.#connection) {
      this.#connection = this.#open(); // what is under way is watched
      this.#hasAnswered = false;
      connection.close();
    }
    return false;
  }

  /** Ends the connection, and the calls under way. */
  close(): void {
    this.#isClosed = true;
    this.#connection.close();
  }
}

/** The nodes of a client. */
export class Nodes {
  readonly all: readonly Node[];
  #current = 0; // the node that is used
  #connected: Node | undefined; // the node that has answered last

  constructor(addresses: string | readonly string[], access: Access) {
    const given = typeof addresses === "string" ? addresses.split(",").map((address) => address.trim()) : addresses;
    if (!Array.isArray(given) || given.length === 0)
      throw new Invalid("no address of a node is given; give host:port, unix:PATH or a URL");
    const used = checked(access);
    for (const address of given) targetOf(address, needsTls(used)); // before a connection is made
    this.all = given.map((address) => new Node(address, used));
  }

  /** Whether there is more than one node. */
  get hasOthers(): boolean {
    return this.all.length > 1;
  }

  /**
   * A node that answers, or undefined if none does. Unless it has to be sure, a node is taken that has answered before,
   * and may have stopped since.
   */
  async pick(deadline: Deadline, patience: Patience, isSure: boolean, signal?: AbortSignal): Promise<Node | undefined> {
    if (!isSure && this.#connected && !this.#connected.isSuspect) return this.#connected;
    const inTurn = [...this.all.slice(this.#current), ...this.all.slice(0, this.#current)];
    for (const node of inTurn) {
      const isAlive = await node.isAlive(Math.min(patience.probe, deadline.left), signal);
      signal?.throwIfAborted();
      if (isAlive) {
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
    const addresses = this.all.map(({ address, reason }) => (reason ? `${address} (${reason})` : address)).join(", ");
    return new Unavailable(`no node answers at ${addresses}; is it running?`, "unavailable");
  }

  close(): void {
    for (const node of this.all) node.close();
  }
}

/** Whether an error is the answer of a node. */
function isAnswer(error: ClientError): boolean {
  return !["unavailable", "deadline_exceeded", "canceled"].includes(error.code);
}

/** Why a node has not answered, for people. */
function reasonOf(error: ServiceError): string {
  if (error.code === status.DEADLINE_EXCEEDED) return "it does not answer";
  return (error.details ?? error.message).replace(/^No connection established\. Last error: (Error: )?/, "");
}

/** Whether connections to host:port are encrypted, too. */
function needsTls({ ca, cert }: Access): boolean {
  return ca !== undefined || cert !== undefined;
}

/** The error of a stream that has ended; undefined if the node has ended it in order. */
export function errorOfStream(address: string, error: ServiceError | Error | undefined): ClientError | undefined {
  if (error === undefined || error instanceof ClientError) return error;
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

/** The address as grpc-js writes it, and whether it needs TLS, which host:port does if wantsTls says so. */
export function targetOf(address: string, wantsTls = false): { target: string; isSecure: boolean } {
  if (typeof address !== "string") throw new Invalid(`an address is a string, not ${String(address)}`);
  if (address.startsWith("unix:")) {
    if (address === "unix:") throw new Invalid("the address unix: has no path");
    return { target: address, isSecure: false };
  }
  let host = address;
  let isSecure = wantsTls;
  if (address.includes("://")) {
    const url = URL.canParse(address) ? new URL(address) : undefined;
    const isPlain = url && !url.username && !url.password && !url.search && !url.hash && url.pathname === "/";
    if (!isPlain || (url.protocol !== "http:" && url.protocol !== "https:")) {
      throw new Invalid(`${JSON.stringify(address)} is no URL of http or https without a path and a user`);
    }
    isSecure = url.protocol === "https:";
    if (wantsTls && !isSecure) {
      throw new Invalid(`${JSON.stringify(address)} is a URL of http, and there are options of TLS: write https`);
    }
    host = `${url.hostname}:${url.port || (isSecure ? 443 : 80)}`;
  }
  if (!/^[^\s/@:][^\s/@]*$|^\[[^\s/@]+$/.test(host)) {
    throw new Invalid(`${JSON.stringify(address)} is no address; give host:port, unix:PATH or a URL`);
  }
  return { target: `dns:///${host}`, isSecure };
}
