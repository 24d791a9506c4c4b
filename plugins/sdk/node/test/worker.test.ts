import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";
import { batch, type Handlers, type Task, type WorkOptions, work } from "taskengine-handler";
import { type FromHandler, FromHandlerSchema, ToHandlerSchema } from "../dist/gen/handler_pb.js";
import { clocks } from "../dist/lease.js";
import { optionsFrom } from "../dist/work.js";

type Frame = MessageInitShape<typeof ToHandlerSchema>;
type Welcome = NonNullable<Frame["welcome"]>;

/** A stream of a worker, as a node has it. */
class Line {
  readonly frames: FromHandler[] = [];
  readonly #stream: ServerDuplexStream<FromHandler, Frame>;

  constructor(stream: ServerDuplexStream<FromHandler, Frame>) {
    this.#stream = stream;
    stream.on("data", (frame: FromHandler) => this.frames.push(frame));
    stream.on("error", () => {});
  }

  send(frame: Frame): void {
    this.#stream.write(frame);
  }

  welcome(welcome: Omit<Welcome, "$typeName"> = {}): void {
    this.send({ welcome: { protocol: 1, slots: 2, reconnect: 60_000_000n, ...welcome } as Welcome });
  }

  run(...runIds: number[]): void {
    this.send({
      runs: runIds.map((id) => ({
        runId: BigInt(id),
        type: "x",
        taskId: new Uint8Array(16),
        version: BigInt(10 + id),
      })),
    });
  }

  /** Ends the stream in order, or with an error. */
  end(error?: string): void {
    if (error === undefined) this.#stream.end();
    else this.#stream.emit("error", { code: status.UNAVAILABLE, details: error });
  }

  get finishes(): number[] {
    return this.frames.flatMap(({ finishes }) => finishes.filter((f) => !f.earlier).map(({ runId }) => Number(runId)));
  }

  /** Answers to attempts of sessions before. */
  get earlier(): string[] {
    const all = this.frames.flatMap(({ finishes }) => finishes.filter((f) => f.earlier));
    return all.map(({ runId, earlier }) => `${runId} ${earlier?.version} ${earlier?.type}`);
  }

  get credits(): number {
    return this.frames.reduce((sum, frame) => sum + frame.credits, 0);
  }

  get isLeaving(): boolean {
    return this.frames.some(({ leaving }) => leaving);
  }
}

/** A node of a few lines, which says what a test has it say. */
class FakeNode {
  readonly lines: Line[] = [];
  readonly workers: (() => Promise<void>)[] = []; // end those that a test has started
  readonly address: string;

  private constructor(address: string) {
    this.address = address;
  }

  static async start(t: TestContext): Promise<FakeNode> {
    const directory = await mkdtemp(join(tmpdir(), "te-"));
    const node = new FakeNode(`unix:${join(directory, "s")}`);
    const server = new Server();
    const method = {
      path: "/taskengine.handler.v1.Workers/Work",
      requestStream: true,
      responseStream: true,
      requestDeserialize: (bytes: Buffer) => fromBinary(FromHandlerSchema, bytes),
      requestSerialize: (frame: FromHandler) => Buffer.from(toBinary(FromHandlerSchema, frame)),
      responseDeserialize: (bytes: Buffer) => fromBinary(ToHandlerSchema, bytes),
      responseSerialize: (frame: Frame) => Buffer.from(toBinary(ToHandlerSchema, create(ToHandlerSchema, frame))),
    } as const;
    server.addService(
      { work: method },
      { work: (stream: ServerDuplexStream<FromHandler, Frame>) => node.lines.push(new Line(stream)) },
    );
    await new Promise<void>((resolve, reject) => {
      server.bindAsync(node.address, ServerCredentials.createInsecure(), (error) =>
        error ? reject(error) : resolve(),
      );
    });
    t.after(async () => {
      for (const end of node.workers) await end();
      server.forceShutdown();
      await rm(directory, { recursive: true });
    });
    return node;
  }

  /** The n-th stream, once its offer has come. */
  async line(n: number): Promise<Line> {
    await until(() => (this.lines[n]?.frames.length ?? 0) > 0);
    return this.lines[n] as Line;
  }
}

async function until(holds: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !holds(); await sleep(1)) {
    if (Date.now() > end) throw new Error("it does not happen");
  }
}

/** A handler whose tasks return when the test says so. */
class Gate {
  readonly tasks: Task[] = [];
  readonly #open: (() => void)[] = [];
  readonly #fail: ((why: unknown) => void)[] = [];
  readonly handle = (task: Task): Promise<void> => {
    this.tasks.push(task);
    return new Promise((resolve, reject) => {
      this.#open.push(resolve);
      this.#fail.push(reject);
    });
  };

  fail(n: number): void {
    this.#fail[n]?.(new Error("cancelled"));
  }

  open(n: number): void {
    this.#open[n]?.();
  }
}

/** A worker of a node, until the test ends. */
function start(node: FakeNode, handlers: Handlers, options: Partial<WorkOptions> = {}) {
  const ending = new AbortController();
  const said: string[] = [];
  const log = (message: string) => void said.push(message);
  const over = work(handlers, { addresses: node.address, slots: 2, signal: ending.signal, log, ...options });
  node.workers.push(async () => {
    ending.abort();
    for (const line of node.lines) line.end();
    await over;
  });
  return { over, said, leave: () => ending.abort() };
}

suite("a worker", () => {
  test("offers what it is, takes runs and leaves when it is asked to", async (t) => {
    const node = await FakeNode.start(t);
    const options = { handler: "h", labels: { region: "eu" }, version: "1.2" };
    const { over, leave, said } = start(node, { x: (task) => task.type }, options);
    const line = await node.line(0);
    const { hello, offer, credits } = line.frames[0] as FromHandler;
    assert.deepEqual([hello?.sdk, hello?.types, hello?.slots, hello?.version], ["node", ["x"], 2, "1.2"]);
    assert.deepEqual(
      [offer?.handler, offer?.labels, offer?.session.length, offer?.runs],
      ["h", { region: "eu" }, 16, []],
    );
    assert.match(String(offer?.name), new RegExp(`:${process.pid}$`));
    assert.equal(credits, 0);
    line.welcome({ host: "node 1", name: "h" });
    await until(() => line.credits === 2);
    line.run(1);
    await until(() => line.finishes.length === 1);
    assert.equal(line.credits, 3);
    assert.match(said.join(), /connected to the node node 1 at unix:\S+ as handler h with 2 slots/);
    leave();
    await until(() => line.isLeaving);
    line.end();
    await over;
  });

  test("sends again what may not have arrived, and goes on with what runs", async (t) => {
    const node = await FakeNode.start(t);
    const gate = new Gate();
    start(node, { x: gate.handle });
    const first = await node.line(0);
    first.welcome({ features: ["checkpoint"] });
    first.run(1, 2);
    await until(() => gate.tasks.length === 2);
    gate.tasks[1]?.saveCheckpoint("page 7");
    gate.open(0);
    await until(() => first.finishes.length === 1 && first.frames.some(({ checkpoints }) => checkpoints.length > 0));
    first.run(3);
    await until(() => gate.tasks.length === 3);
    first.send({ received: 1n });
    gate.open(2);
    await until(() => first.finishes.length === 2);
    first.end("the network is gone");
    const second = await node.line(1);
    const { offer } = second.frames[0] as FromHandler;
    assert.deepEqual(offer?.session, first.frames[0]?.offer?.session);
    assert.deepEqual([...(offer?.runs ?? [])].sort(), [2n, 3n]);
    second.welcome({ resumed: true, received: 1n, runs: [2n, 3n], features: ["checkpoint"] });
    await until(() => second.finishes.length === 1 && second.credits === 1);
    assert.deepEqual(second.finishes, [3]);
    const [checkpoint] = second.frames.flatMap(({ checkpoints }) => checkpoints);
    assert.deepEqual([checkpoint?.runId, String(Buffer.from(checkpoint?.data ?? []))], [2n, "page 7"]);
    gate.open(1);
    await until(() => second.finishes.length === 2);
    assert.deepEqual(second.finishes, [3, 2]);
    assert.equal(gate.tasks[1]?.signal.aborted, false);
  });

  test("sends the checkpoint of an answer before it, if neither has arrived", async (t) => {
    const node = await FakeNode.start(t);
    start(node, { x: (task) => void task.saveCheckpoint("done") });
    const first = await node.line(0);
    first.welcome({ features: ["checkpoint"] });
    first.run(1);
    await until(() => first.finishes.length === 1);
    first.end("the network is gone");
    const second = await node.line(1);
    second.welcome({ resumed: true, runs: [1n], features: ["checkpoint"] });
    await until(() => second.finishes.length === 1);
    const sent = second.frames.filter(({ checkpoints, finishes }) => checkpoints.length + finishes.length > 0);
    assert.deepEqual([sent[0]?.checkpoints.length, sent[0]?.finishes.length], [1, 1]); // in a frame checkpoints come first
  });

  test("stops what runs elsewhere, and says nothing of it", async (t) => {
    for (const welcome of [{ resumed: true, runs: [2n] }, { resumed: false }]) {
      const node = await FakeNode.start(t);
      const gate = new Gate();
      const { over, leave } = start(node, { x: gate.handle });
      const first = await node.line(0);
      first.welcome();
      first.run(1, 2);
      await until(() => gate.tasks.length === 2);
      first.end("the network is gone");
      const second = await node.line(1);
      second.welcome({ ...welcome, features: ["checkpoint", "progress"] });
      const stray = gate.tasks[0] as Task;
      await until(() => stray.signal.aborted);
      assert.match(String(stray.signal.reason), /runs elsewhere/);
      await assert.rejects(stray.saveCheckpoint("x"), /too late/);
      stray.progress(1);
      assert.equal(second.credits, 0); // its handler has not returned
      gate.open(0);
      await until(() => second.credits === 1);
      gate.open(1);
      await until(() => second.credits === 2);
      assert.deepEqual(second.finishes, welcome.resumed ? [2] : []);
      assert.equal(second.frames.flatMap(({ checkpoints, progress }) => [...checkpoints, ...progress]).length, 0);
      leave();
      await until(() => second.isLeaving);
      second.end();
      await over;
    }
  });

  test("begins anew when the node has given its runs to others", async (t) => {
    const node = await FakeNode.start(t);
    const gate = new Gate();
    start(node, { x: gate.handle });
    const first = await node.line(0);
    first.welcome({ reconnect: 1n });
    first.run(1);
    await until(() => gate.tasks.length === 1);
    first.end("the network is gone");
    const second = await node.line(1);
    const { offer } = second.frames[0] as FromHandler;
    assert.notDeepEqual(offer?.session, first.frames[0]?.offer?.session);
    assert.deepEqual(offer?.runs, []);
    await until(() => gate.tasks[0]?.signal.aborted === true);
    gate.open(0);
    second.welcome();
    await until(() => second.credits === 2);
    assert.deepEqual(second.finishes, []);
  });

  test("gives its answers to the node that comes after theirs", async (t) => {
    for (const reconnect of [60_000_000n, 1n]) {
      const node = await FakeNode.start(t);
      const gate = new Gate();
      const { over, leave } = start(node, { x: gate.handle }, { slots: 3 });
      const first = await node.line(0);
      first.welcome({ slots: 3, reconnect });
      first.run(1, 2, 3);
      await until(() => gate.tasks.length === 3);
      gate.open(0);
      await until(() => first.finishes.length === 1);
      first.end("the node has died");
      const second = await node.line(1);
      assert.equal(second.frames[0]?.offer?.runs.length, reconnect === 1n ? 0 : 3);
      second.welcome({ slots: 3, features: ["earlier"] });
      await until(() => second.earlier.length === 1 && gate.tasks[2]?.signal.aborted === true);
      gate.open(1); // its handler does not care
      await until(() => second.earlier.length === 2);
      gate.fail(2);
      await until(() => second.credits === 3);
      assert.deepEqual(second.earlier, ["0 11 x", "0 12 x"]);
      second.end("this one, too");
      const third = await node.line(2);
      assert.deepEqual(third.frames[0]?.offer?.runs, []);
      third.welcome({ slots: 3, resumed: true, received: 1n }); // it has not got the other one
      await until(() => third.credits === 3);
      assert.deepEqual(third.earlier, ["0 12 x"]);
      third.send({ received: 2n });
      third.end("and this one");
      const fourth = await node.line(3);
      fourth.welcome({ slots: 3, features: ["earlier"] });
      await until(() => fourth.credits === 3);
      assert.deepEqual([fourth.earlier, fourth.finishes], [[], []]);
      leave();
      await until(() => fourth.isLeaving);
      fourth.end();
      await over;
    }
  });

  test("connects again to a node that is silent, or speaks another protocol", async (t) => {
    const node = await FakeNode.start(t);
    const { said } = start(node, { x: () => {} });
    (await node.line(0)).welcome({ protocol: 9 });
    (await node.line(1)).welcome({ slots: 0 });
    (await node.line(2)).welcome({ liveness: 200_000n });
    await node.line(3);
    assert.match(said.join("\n"), /version 9 of the protocol[\s\S]*no slot[\s\S]*silent for 0.2 s/);
  });

  test("that was not heard begins nothing", async (t) => {
    let awake = 1_000_000;
    t.mock.method(clocks, "awake", () => awake);
    for (const isBatch of [false, true]) {
      const node = await FakeNode.start(t);
      let begun = 0;
      const count = (tasks: number) => {
        begun += tasks;
      };
      const many = batch({ size: 2, wait: 1 }, (tasks) => {
        count(tasks.length);
        return tasks.map(() => undefined);
      });
      start(node, { x: isBatch ? many : () => count(1) });
      const line = await node.line(0);
      line.welcome({ lease: 3_600_000_000n });
      line.send({ ping: 1n });
      line.send({ ping: 2n, heard: 1n });
      line.run(1);
      await until(() => begun === 1 && line.finishes.length === 1);
      awake += 3_601_000; // it stood still
      line.send({ ping: 3n });
      line.run(2, 3);
      line.send({ ping: 4n });
      await until(() => line.finishes.length === 3);
      assert.equal(begun, 1);
      const [, refused] = line.frames.flatMap(({ finishes }) => finishes).map(({ outcome }) => outcome);
      assert.match(refused?.case === "refused" ? refused.value.message : "", /may not have heard this worker/);
      line.send({ ping: 5n, heard: 4n });
      line.run(4);
      await until(() => begun === 2);
    }
  });

  test("answers pings, and ends when the node drains it", async (t) => {
    const node = await FakeNode.start(t);
    const { over } = start(node, { x: () => {} });
    const line = await node.line(0);
    line.welcome();
    line.send({ ping: 7n });
    await until(() => line.frames.some(({ pong }) => pong === 7n));
    line.send({ drain: {} });
    line.end();
    await over;
  });

  test("that waits for a node ends at once when it is asked to", async (t) => {
    const node = await FakeNode.start(t);
    const { over, leave, said } = start(node, { x: () => {} }, { addresses: `${node.address}.none` });
    await until(() => said.length > 0);
    leave();
    await over;
    assert.match(said.join(), /no connection to the node at unix:/);
  });

  test("divides its slots among nodes", async (t) => {
    const nodes = [await FakeNode.start(t), await FakeNode.start(t)];
    const [one, other] = nodes as [FakeNode, FakeNode];
    const ending = new AbortController();
    const addresses = [one.address, other.address];
    const over = work({ x: () => {} }, { addresses, slots: 5, signal: ending.signal, log: () => {} });
    const lines = [await one.line(0), await other.line(0)];
    assert.deepEqual(
      lines.map(({ frames }) => frames[0]?.hello?.slots),
      [3, 2],
    );
    for (const line of lines) line.welcome();
    await until(() => lines.every(({ credits }) => credits > 0));
    ending.abort();
    await until(() => lines.every(({ isLeaving }) => isLeaving));
    for (const line of lines) line.end();
    await over;
  });
});

suite("the options of a worker", () => {
  test("come from the environment", () => {
    const { tls, ...options } = optionsFrom({
      TASKENGINE_ADDRESS: "a:1, unix:/s, http://b:2,",
      TASKENGINE_WORKER_HANDLER: "h",
      TASKENGINE_WORKER_LABELS: "region=eu, disk = fast,",
      TASKENGINE_TOKEN: "te_x",
      TASKENGINE_CA: "/no/such/file",
    });
    const labels = { region: "eu", disk: "fast" };
    assert.deepEqual(options, { addresses: ["a:1", "unix:/s", "http://b:2"], handler: "h", labels, token: "te_x" });
    assert.throws(tls?.ca as () => void, /TASKENGINE_CA: .*\/no\/such\/file/);
  });

  test("that cannot be are refused", async () => {
    const x = { x: () => {} };
    for (const [handlers, options, says] of [
      [{}, { addresses: "a:1" }, /no handler/],
      [x, { addresses: [] }, /no address/],
      [x, { addresses: "" }, /no address/],
      [x, { addresses: "ftp://a" }, /no URL/],
      [x, { addresses: "http://a", tls: {} }, /write https/],
      [x, { addresses: ["a:1", "a b"] }, /"a b" is no address/],
      [x, { addresses: "a:1", slots: 0 }, /0 slots/],
    ] as const) {
      await assert.rejects(work(handlers, options as WorkOptions), says);
    }
    assert.throws(() => optionsFrom({ TASKENGINE_WORKER_LABELS: "eu" }), /"eu": give NAME=value/);
    assert.throws(() => optionsFrom({ TASKENGINE_CLIENT_KEY: "k" }), /belong together/);
  });
});
