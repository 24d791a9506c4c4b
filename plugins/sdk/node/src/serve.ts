// The life of a handler program, from the handshake to the exit.

import { writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import {
  type FromHandler,
  FromHandlerSchema,
  type ToHandler,
  ToHandlerSchema,
  type Welcome,
} from "./gen/handler_pb.js";
import { helloOf, PROTOCOL, type Program, problemOf, programOf, type ServeOptions } from "./program.js";
import { Shift } from "./shift.js";
import type { Handlers } from "./task.js";
import { workFromEnvironment } from "./work.js";

const COOKIE = ["TASKENGINE_HANDLER", "1f0d6bb2-handler"] as const; // no secret: it distinguishes a host from a person
const FIRST_CONTACT = 60_000; // milliseconds within which a host must connect
const LAST_MOMENTS = 2_000; // milliseconds for the program to end once the host is gone

type Stream = ServerDuplexStream<ToHandler, FromHandler>;

/**
 * Serves handlers until the host ends the process or is gone, and returns when the last of
 * them has returned. Two seconds after the end of the host the process exits in any case. If no host
 * has started the program, it prints what to do and exits with status 1.
 *
 * If no host has started the program and TASKENGINE_ADDRESS has addresses of nodes, separated by commas, the program is a
 * worker of these nodes until it gets SIGTERM or SIGINT: see {@link work}. The variables TASKENGINE_WORKER_HANDLER,
 * TASKENGINE_WORKER_LABELS (such as region=eu,disk=fast), TASKENGINE_TOKEN, TASKENGINE_CA, TASKENGINE_CLIENT_CERT and
 * TASKENGINE_CLIENT_KEY are the other options of that.
 *
 * The standard output belongs to the host until this is called; afterwards
 * `console.log` goes to the host's log.
 */
export async function serve(handlers: Handlers, options: ServeOptions = {}): Promise<void> {
  const program = programOf(handlers, options);
  const isHosted = process.env[COOKIE[0]] === COOKIE[1];
  const problem = problemOf(program) ?? (isHosted ? problemOfHost() : problemAlone());
  if (problem) return leave(problem);
  if (!isHosted) return workFromEnvironment(handlers, options, leave);
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

/** Why a program cannot serve the host that has started it, for people. */
function problemOfHost(): string | undefined {
  const theirs = process.env["PLUGIN_PROTOCOL_VERSIONS"] ?? "";
  if (theirs.split(",").includes(String(PROTOCOL))) return undefined;
  return `it speaks version ${PROTOCOL} of the handler protocol, the host ${JSON.stringify(theirs)}`;
}

/** Why a program cannot run that no host has started, for people. */
function problemAlone(): string | undefined {
  if (process.env["TASKENGINE_ADDRESS"]) return undefined;
  return (
    "this program handles tasks: name it as a handler's command in the configuration of taskengine, which starts it, " +
    "or set TASKENGINE_ADDRESS to the address of a node, host:port, to run as its worker"
  );
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
  const slots = welcome.slots || program.slots;
  stream.write(create(FromHandlerSchema, { hello: helloOf(program, slots), credits: slots }));
  const shift = new Shift(program.handlers, (frame, sent) => void stream.write(frame, sent));
  shift.agree(welcome, slots);
  return shift;
}

function refuse(stream: Stream, why: string): void {
  stream.emit("error", { code: status.FAILED_PRECONDITION, details: why });
}
