// Real nodes for the tests of the client.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

export const PROGRAM = process.env["TASKENGINE_PROGRAM"] ?? "";
export const skip = PROGRAM ? false : "TASKENGINE_PROGRAM does not name the program of a node";
/** Milliseconds in which what a test waits for must have happened. */
export const PATIENCE = 60_000;

/** People log in at a provider that does not answer. */
const LOGIN = `
ui: {oidc: {issuer: "http://127.0.0.1:1", client_id: te, client_secret: te, grants: {ops: {roles: view}}}}
`;

const config = (data: string, address: string, tokens: string) => `
node: {log: {format: json}}
storage: {driver: pebble, path: ${data}}
api: {listen: "${address}"${tokens && `, tokens: ${tokens}`}}
${tokens && LOGIN}
admin: {listen: "127.0.0.1:0"}
handlers:
  echo: {exec: [cat]}
  fail: {exec: ["false"]}
  talk: {exec: [sh, -c, "echo one >&2; echo two >&2"]}
  twice: {exec: [sh, -c, "echo one >&2; echo two >&2; exit 1"]}
types:
  echo: {handler: echo}
  fail: {handler: fail, retry: {max: 1}}
  full: {handler: echo, max_backlog: 1}
  strict: {handler: echo, unique: {on_conflict: reject}}
  prompt: {handler: echo, max_lateness: 10s}
  limited: {handler: echo, limits: [partner]}
  fetch: {handler: fail}
  talk: {handler: talk}
  twice: {handler: twice, retry: {max: 2}}
  brief: {handler: echo, retention: {done: 0s}, unique: {remember: 1h}}
limits:
  partner: {max: 2, per: key}
alerts:
  targets: {hook: {webhook: {url: "http://127.0.0.1:1"}}}
  rules: {late: {when: queue_age, match: never, older_than: 1h}}
kafka: {main: {brokers: ["127.0.0.1:1"]}}
sources:
  orders: {kafka: {topics: [orders]}, type: echo}
  shops:
    type: fetch
    slices: {interval: 1h, start: 2020-01-01T00:00:00Z, retries: 0, max_open: 4, platforms: [north, south]}
`;

/** A node in a process of its own, with a store that outlives it. */
export class TestNode {
  address: string;
  /** Of a node with tokens: one that may do everything. */
  token = "";
  #tokens = ""; // the file with it
  readonly #directory: string;
  #process: ChildProcess | undefined;

  private constructor(directory: string, address: string) {
    this.#directory = directory;
    this.address = address;
  }

  static async start(t: { after(f: () => Promise<void>): void }, address = "127.0.0.1:0"): Promise<TestNode> {
    const node = new TestNode(await mkdtemp(join(tmpdir(), "te-")), address);
    t.after(async () => {
      await node.kill();
      await rm(node.#directory, { recursive: true, force: true });
    });
    await node.start();
    return node;
  }

  /** A node whose clients need tokens. */
  static async guarded(t: { after(f: () => Promise<void>): void }): Promise<TestNode> {
    const node = await TestNode.start(t);
    await node.stop();
    node.#tokens = join(node.#directory, "tokens.json");
    const create = ["token", "create", "boss", "--role", "admin", "--file", node.#tokens];
    node.token = execFileSync(PROGRAM, create).toString().trim();
    await node.start();
    return node;
  }

  /** Runs the node, at the address that it had before, and returns when it is ready. */
  async start(): Promise<void> {
    const file = join(this.#directory, "taskengine.yaml");
    const log = join(this.#directory, "log");
    await writeFile(file, config(join(this.#directory, "data"), this.address, this.#tokens));
    const child = spawn(PROGRAM, ["run", "-c", file], { stdio: ["ignore", "ignore", openSync(log, "w")] });
    this.#process = child;
    for (const end = performance.now() + PATIENCE; ; await sleep(5)) {
      const said = readFileSync(log, "utf8");
      const ready = said.split("\n").find((line) => line.includes('"msg":"ready"') && line.endsWith("}"));
      if (ready) {
        this.address = JSON.parse(ready).api;
        return;
      }
      if (child.exitCode !== null || performance.now() > end) throw new Error(`the node did not start:\n${said}`);
    }
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  }

  /** Has the node end in order. */
  stop(): Promise<void> {
    return this.kill("SIGTERM");
  }
}

/** An address at which nothing listens. */
export async function freeAddress(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return `127.0.0.1:${port}`;
}

/**
 * Passes connections on to a node. Of each it passes some bytes of the answers. What the node says then is lost, and
 * ends the connection.
 */
export class Lossy {
  lost = 0;
  address = "";
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isStalled = false;

  private constructor(target: string, limits: number[]) {
    this.#server = createServer((near) => {
      const [host = "", port] = target.split(":");
      const far = connect(Number(port), host);
      let left = limits.shift() ?? Number.POSITIVE_INFINITY; // bytes of answers
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(socket);
        socket.on("error", () => {}).on("close", () => other.destroy());
      }
      near.on("data", (bytes) => {
        if (!this.#isStalled) far.write(bytes);
      });
      far.on("data", (bytes) => {
        if (this.#isStalled) return;
        near.write(bytes.subarray(0, left));
        left -= bytes.length;
        if (left >= 0) return;
        this.lost++;
        far.destroy();
      });
    });
  }

  static async start(t: TestContext, target: string, limits: number[] = []): Promise<Lossy> {
    const wire = new Lossy(target, limits);
    wire.#server.listen(0, "127.0.0.1");
    await once(wire.#server, "listening");
    wire.address = `127.0.0.1:${(wire.#server.address() as AddressInfo).port}`;
    t.after(() => wire.stop());
    return wire;
  }

  /** Has nothing arrive any more. Connections stay open. */
  stall(): void {
    this.#isStalled = true;
  }

  /** Ends all connections, and takes no more. */
  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
