// The life of a handler program, from the handshake to the exit.

import { writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import {
  type FromHandler,
  FromHandlerSchema,
  HelloSchema,
  type ToHandler,
  ToHandlerSchema,
  type Welcome,
} from "./gen/handler_pb.js";
import { Shift } from "./shift.js";
import type { Handlers } from "./task.js";
import { VERSION } from "./version.js";

/** Settings of a program besides its handlers. */
export interface ServeOptions {
  /** The program's own version, for people. */
  version?: string;
  /**
   * How many tasks to run at once unless the host says so, 1 to 65536; by default 64, or as
   * many as go into the largest batch.
   */
  slots?: number;
}

const COOKIE = ["TASKENGINE_HANDLER", "1f0d6bb2-handler"] as const; // no secret: it distinguishes a host from a person
const PROTOCOL = 1;
const FEATURES = ["checkpoint", "children", "ended", "heartbeat", "progress", "rerun", "signals"];
const DEFAULT_SLOTS = 64;
const MAX_SLOTS = 1 << 16;
const FIRST_CONTACT = 60_000; // milliseconds within which a host must connect
const LAST_MOMENTS = 2_000; // milliseconds for the program to end once the host is gone

/** What is served. */
interface Program {
  handlers: Handlers;
  version: string;
  slots: number;
}

type Stream = ServerDuplexStream<ToHandler, FromHandler>;

/**
 * Serves handlers until the host ends the process or is gone, and returns when the last of
 * them has returned. Two seconds after the end of the host the process exits in any case. If no host
 * has started the program, it prints what to do and exits with status 1.
 *
 * The standard output belongs to the host until this is called; afterwards
 * `console.log` goes to the host's log.
 */
export async function serve(handlers: Handlers, options: ServeOptions = {}): Promise<void> {
  const program = { handlers, version: options.version ?? "", slots: options.slots ?? slotsFor(handlers) };
  const problem = problemOf(program);
  if (problem) return leave(problem);
  const contact = setTimeout(() => leave(`no host connected within ${FIRST_CONTACT / 1000} s`), FIRST_CONTACT);
  let taken = false;
  let over = (): void => {};
  const ended = new Promise<void>((resolve) => {
    over = resolve;
  });
  const path = join(process.env["PLUGIN_UNIX_SOCKET_DIR"] ?? tmpdir(), `s${process.pid}`);
  const server = await listen(path, (stream) => {
    if (taken) return refuse(stream, "a handler process has one stream, and it is open");
    taken = true;
    clearTimeout(contact);
    void work(stream, program).finally(over);
  });
  shakeHands(path);
  await ended;
  server.tryShutdown(() => {});
}

function slotsFor(handlers: Handlers): number {
  const batches = Object.values(handlers).map((handler) => (typeof handler === "function" ? 1 : (handler?.size ?? 1)));
  return Math.min(MAX_SLOTS, Math.max(DEFAULT_SLOTS, ...batches));
}

/** Why a program cannot run, for people. */
function problemOf({ handlers, slots }: Program): string | undefined {
  const entries = Object.entries(handlers);
  if (entries.length === 0) return 'the program has no handler: serve({ "some.type": (task) => ... })';
  for (const [type, handler] of entries) {
    if (type === "") return "a handler has no task type: its key is empty";
    if (typeof handler !== "function" && typeof handler?.handle !== "function") {
      return `the handler of ${JSON.stringify(type)} is neither a function nor a batch`;
    }
  }
  if (!Number.isInteger(slots) || slots < 1 || slots > MAX_SLOTS) {
    return `the program has ${slots} slots: give 1 to ${MAX_SLOTS}`;
  }
  if (process.env[COOKIE[0]] !== COOKIE[1]) {
    return "this program handles tasks and is started by taskengine: name it as a handler's command in the configuration";
  }
  const theirs = process.env["PLUGIN_PROTOCOL_VERSIONS"] ?? "";
  if (!theirs.split(",").includes(String(PROTOCOL))) {
    return `it speaks version ${PROTOCOL} of the handler protocol, the host ${JSON.stringify(theirs)}`;
  }
  return undefined;
}

function leave(why: string): never {
  process.stderr.write(`taskengine: ${why}\n`);
  process.exit(1);
}

async function listen(path: string, work: (stream: Stream) => void): Promise<Server> {
  const server = new Server({
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.enable_channelz": 0,
  });
  const method = {
    path: "/taskengine.handler.v1.Handler/Work",
    requestStream: true,
    responseStream: true,
    requestDeserialize: (bytes: Buffer) => fromBinary(ToHandlerSchema, bytes),
    requestSerialize: (frame: ToHandler) => Buffer.from(toBinary(ToHandlerSchema, frame)),
    responseDeserialize: (bytes: Buffer) => fromBinary(FromHandlerSchema, bytes),
    responseSerialize: (frame: FromHandler) => bufferOf(toBinary(FromHandlerSchema, frame)),
  } as const;
  server.addService({ work: method }, { work });
  await new Promise<void>((resolve) => {
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) => {
      if (error) leave(`it cannot listen on ${path}: ${error.message}`);
      resolve();
    });
  });
  return server;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * Prints for the host where the program listens. Later output goes to the standard error, so
 * that it cannot be mixed with this line. Node.js cannot redirect the descriptor: the host
 * also logs what child processes write to it.
 */
function shakeHands(path: string): void {
  writeSync(1, `1|${PROTOCOL}|unix|${path}|grpc|\n`);
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
}

/** Serves the one stream of the process to its end. */
async function work(stream: Stream, program: Program): Promise<void> {
  let shift: Shift | undefined;
  stream.on("data", (frame: ToHandler) => {
    if (shift) shift.take(frame);
    else shift = greet(stream, frame.welcome, program);
  });
  await new Promise((resolve) => stream.once("end", resolve).once("cancelled", resolve));
  const end = setTimeout(() => process.exit(0), LAST_MOMENTS);
  await shift?.end();
  end.unref(); // from here on it ends only what keeps the process from ending by itself
  setImmediate(() => stream.end()); // after the last answers
}

/** Answers the welcome of the host, and begins to accept runs. */
function greet(stream: Stream, welcome: Welcome | undefined, program: Program): Shift | undefined {
  if (welcome?.protocol !== PROTOCOL) {
    const theirs = welcome ? `version ${welcome.protocol} of the protocol` : "no welcome";
    refuse(stream, `the host speaks ${theirs}, this handler version ${PROTOCOL}`);
    return undefined;
  }
  const { handlers, version } = program;
  const slots = welcome.slots || program.slots;
  const hello = create(HelloSchema, {
    protocol: PROTOCOL,
    sdk: "node",
    sdkVersion: VERSION,
    version,
    types: Object.keys(handlers).sort(),
    slots,
    features: FEATURES,
  });
  stream.write(create(FromHandlerSchema, { hello, credits: slots }));
  return new Shift(handlers, slots, welcome, (frame, sent) => void stream.write(frame, sent));
}

function refuse(stream: Stream, why: string): void {
  stream.emit("error", { code: status.FAILED_PRECONDITION, details: why });
}
