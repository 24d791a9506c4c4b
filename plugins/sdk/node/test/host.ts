// A host of a few lines, and programs to be its handlers.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { create, fromBinary, type Message, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Client, type ClientDuplexStream, credentials } from "@grpc/grpc-js";
import { type Finish, type FromHandler, FromHandlerSchema, type Run, ToHandlerSchema } from "../dist/gen/handler_pb.js";

const CONFORMANCE = fileURLToPath(new URL("./conformance.js", import.meta.url));

type Frame = MessageInitShape<typeof ToHandlerSchema>;
type RunInit = Omit<Partial<Run>, keyof Message> & { type: string };

/** A process of the conformance program, or of the source of another one. */
export class Program {
  readonly process: ChildProcess;
  readonly exited: Promise<number | string>;
  stdout = "";
  stderr = "";

  private constructor(process: ChildProcess) {
    this.process = process;
    this.exited = once(process, "close").then(([code, signal]) => code ?? signal);
    process.stdout?.on("data", (text) => {
      this.stdout += text;
    });
    process.stderr?.on("data", (text) => {
      this.stderr += text;
    });
  }

  /** Starts a program in a directory of its own; both end with the test. */
  static async start(t: TestContext, { source = "", env = {} } = {}): Promise<Program> {
    const directory = await mkdtemp(join(tmpdir(), "te-"));
    const args = source ? ["--input-type=module", "--eval", source] : [CONFORMANCE];
    const program = new Program(
      spawn(process.execPath, args, {
        cwd: fileURLToPath(new URL(".", import.meta.url)),
        env: {
          PLUGIN_UNIX_SOCKET_DIR: directory,
          PLUGIN_PROTOCOL_VERSIONS: "1",
          TASKENGINE_HANDLER: "1f0d6bb2-handler",
          ...env,
        },
        stdio: ["ignore", "pipe", "pipe"],
      }),
    );
    t.after(async () => {
      program.process.kill("SIGKILL");
      await program.exited;
      await rm(directory, { recursive: true });
    });
    return program;
  }

  /** The first line of its output. */
  async handshake(): Promise<string> {
    if (!this.process.stdout) throw new Error("its output is no pipe");
    const { value } = await createInterface({ input: this.process.stdout })[Symbol.asyncIterator]().next();
    return value ?? "";
  }
}

/** The other end of the stream. */
export class Host {
  readonly frames: FromHandler[] = []; // all that came
  stores = true; // it answers checkpoints
  readonly #client: Client;
  readonly #stream: ClientDuplexStream<Frame, FromHandler>;
  readonly #ended: Promise<number>; // with the status of the stream
  readonly #finishes = new Map<bigint, Finish>();
  #waiting: (() => void)[] = []; // for a frame, or the end
  #over = false;
  #lastRun = 0n;

  constructor(address: string) {
    this.#client = new Client(`unix:${address}`, credentials.createInsecure(), {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
    });
    this.#stream = this.#client.makeBidiStreamRequest<Frame, FromHandler>(
      "/taskengine.handler.v1.Handler/Work",
      (frame) => Buffer.from(toBinary(ToHandlerSchema, create(ToHandlerSchema, frame))),
      (bytes) => fromBinary(FromHandlerSchema, bytes),
    );
    this.#stream.on("data", (frame: FromHandler) => {
      this.frames.push(frame);
      if (this.stores) {
        const stored = frame.checkpoints.filter(({ number }) => number !== 0n);
        if (stored.length > 0) this.send({ stored: stored.map(({ runId, number }) => ({ runId, number })) });
      }
      for (const finish of frame.finishes) this.#finishes.set(finish.runId, finish);
      this.#came();
    });
    this.#stream.on("error", () => {}); // the status tells
    this.#ended = new Promise((resolve) => {
      this.#stream.once("status", ({ code }) => {
        this.#over = true;
        this.#came();
        resolve(code);
      });
    });
  }

  /** A program and a host that have greeted each other. */
  static async of(t: TestContext, welcome: Frame["welcome"] = {}, source = ""): Promise<[Host, Program]> {
    const program = await Program.start(t, { source });
    const host = new Host((await program.handshake()).split("|")[3] ?? "");
    t.after(() => host.close());
    host.send({ welcome: { protocol: 1, ...welcome } });
    await host.until(() => host.frames[0]?.hello);
    return [host, program];
  }

  send(frame: Frame): void {
    this.#stream.write(frame);
  }

  /** Sends runs in one frame and returns their ids. */
  run(...runs: RunInit[]): bigint[] {
    const numbered = runs.map((run) => ({ ...run, runId: ++this.#lastRun }));
    this.send({ runs: numbered });
    return numbered.map((run) => run.runId);
  }

  /** What a run answers. */
  finish(runId: bigint): Promise<Finish> {
    return this.until(() => this.#finishes.get(runId));
  }

  /** Runs a task, and returns what it answers. */
  async answer(run: RunInit | string, payload = ""): Promise<Finish["outcome"]> {
    const [runId] = this.run(typeof run === "string" ? { type: run, payload: Buffer.from(payload) } : run);
    return (await this.finish(runId as bigint)).outcome;
  }

  /** All messages of a list of the frames that came. */
  all<L extends "finishes" | "logs" | "progress" | "checkpoints">(list: L): FromHandler[L] {
    return this.frames.flatMap((frame) => frame[list] as unknown[]) as FromHandler[L];
  }

  /** What `find` finds, now or once more frames have come. */
  async until<T>(find: () => T | undefined): Promise<T> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (this.#over) throw new Error("the stream has ended");
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  #came(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Ends the stream as a host does that is done, and returns the stream's status. */
  end(): Promise<number> {
    this.#stream.end();
    return this.#ended;
  }

  /** Breaks the connection, as the end of the host would. */
  close(): void {
    this.#client.close();
    this.#stream.cancel();
  }

  get ended(): Promise<number> {
    return this.#ended;
  }
}
