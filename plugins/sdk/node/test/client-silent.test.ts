// Nodes that take requests and do not answer, and other addresses of no use before a healthy one.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { after, before, describe, type TestContext, test } from "node:test";
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServiceDefinition,
  status,
  type UntypedHandleCall,
} from "@grpc/grpc-js";
import { Client, DeadlineExceeded, NotFound, Unavailable } from "../dist/client/index.js";
import { freeAddress, Lossy, PATIENCE, skip, TestNode } from "./node.js";

const NONE = "01a2201c-d38d-75b7-b6fe-91647e560a93";

function open(t: TestContext, addresses: string[], timeout = 30_000): Client {
  const c = new Client(addresses, { timeout });
  t.after(() => c.close());
  return c;
}

/** Makes a call that is made once, and another one if it has failed. */
async function twice<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return await call();
  }
}

/** Makes calls of each kind. */
async function use(c: Client): Promise<void> {
  await c.count({ types: ["idle"] });
  const { id } = await c.submit("idle");
  await c.submitAll([{ type: "idle" }]);
  await twice(() => c.cancel(id));
  await c.wait(id, { timeout: PATIENCE });
}

async function listen(t: TestContext, serve: (socket: Socket) => void): Promise<string> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket.on("error", () => {}).resume());
    serve(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

type Call = ServerDuplexStream<Buffer, Buffer>;

/** Serves the methods of these tests in one way. */
async function serve(t: TestContext, answer: (method: string, call: Call) => void): Promise<string> {
  const identity = (bytes: Buffer) => bytes;
  const definition: Record<string, ServiceDefinition[string]> = {};
  const calls: Record<string, UntypedHandleCall> = {};
  for (const name of ["Version", "Count", "Submit", "SubmitStream", "Cancel", "Wait", "Get"]) {
    definition[name] = {
      path: `/taskengine.v1.TaskService/${name}`,
      requestStream: true,
      responseStream: true,
      requestSerialize: identity,
      requestDeserialize: identity,
      responseSerialize: identity,
      responseDeserialize: identity,
    };
    calls[name] = ((call: Call) => answer(name, call)) as UntypedHandleCall;
  }
  const server = new Server();
  server.addService(definition, calls);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (e, bound) => (e ? reject(e) : resolve(bound)));
  });
  t.after(() => server.forceShutdown());
  return `127.0.0.1:${port}`;
}

describe("a node that is of no use", { skip, concurrency: true }, () => {
  let node: TestNode;
  const ends: (() => Promise<void>)[] = [];
  before(async () => {
    node = await TestNode.start({ after: (f) => ends.push(f) });
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const unavailable = (_: string, call: Call) =>
    void call.emit("error", { code: status.UNAVAILABLE, details: "the store is away" });
  const kinds: Record<string, (t: TestContext) => Promise<string>> = {
    "refuses connections": () => freeAddress(),
    "accepts and says nothing": (t) => listen(t, () => {}),
    "ends connections": (t) => listen(t, (socket) => socket.destroy()),
    "is no node": (t) => listen(t, (socket) => socket.write("220 mail ready\r\n")),
    "never answers a request": (t) => serve(t, () => {}),
    "answers that it is not usable": (t) => serve(t, unavailable),
  };
  for (const [name, first] of Object.entries(kinds)) {
    test(`a healthy node is used if the first one ${name}`, async (t) => {
      await use(open(t, [await first(t), node.address]));
    });
  }

  const calls: Record<string, (c: Client, timeout: number) => Promise<unknown>> = {
    "a call that is made again": (c, timeout) => c.count({ types: ["idle"] }, { timeout }),
    "a submit": (c, timeout) => c.submit("idle", 1, { timeout }),
    "a call that is made once": (c, timeout) =>
      assert.rejects(
        twice(() => c.cancel(NONE, "", { timeout })),
        NotFound,
      ),
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const timeout of [7_000, PATIENCE]) {
      test(`a node that hangs is left by ${name} of ${timeout} ms`, async (t) => {
        const wire = await Lossy.start(t, node.address);
        const c = open(t, [wire.address, node.address]);
        await use(c);
        wire.stall();
        await call(c, timeout);
        await use(c);
      });
    }
  }

  test("a node is left after a call that ended at its deadline", async (t) => {
    const wire = await Lossy.start(t, node.address);
    const c = open(t, [wire.address, node.address]);
    await use(c);
    wire.stall();
    await assert.rejects(c.count({}, { timeout: 10 }), DeadlineExceeded);
    await use(c);
  });

  test("a node at which a call waits is not left", async (t) => {
    let used = 0;
    const other = await listen(t, () => used++);
    const c = open(t, [node.address, other]);
    const { id } = await c.submit("idle");
    // The less time a call has, the sooner a probe has to be answered: this one gives a busy node all that it may get.
    const signal = AbortSignal.timeout(3_000);
    await assert.rejects(c.wait(id, { timeout: PATIENCE, signal }), (e) => e === signal.reason);
    assert.equal(used, 0);
  });

  test("a submit that waits at a slow node is sent once", async (t) => {
    let used = 0;
    let sent = 0;
    let probed = 0;
    const abort = new AbortController();
    const address = await serve(t, (method, call) => {
      call.on("data", () => method === "SubmitStream" && sent++);
      if (method === "SubmitStream") return;
      if (method === "Version" && sent > 0 && ++probed === 3) abort.abort();
      call.write(Buffer.alloc(0));
      call.end();
    });
    const c = open(t, [address, await listen(t, () => used++)]);
    await c.count();
    const { signal } = abort;
    await assert.rejects(c.submit("idle", 1, { timeout: PATIENCE, signal }), (e) => e === signal.reason);
    assert.deepEqual([sent, used], [1, 0]);
  });

  test("the timeout of a wait bounds it", async (t) => {
    const address = await serve(t, (method, call) => {
      if (method === "Get") return;
      call.write(method === "Wait" ? Buffer.from([8, 1]) : Buffer.alloc(0));
      call.end();
    });
    const c = open(t, [address], 10 * PATIENCE);
    await c.count(); // connects, which takes no part of the second
    await assert.rejects(c.wait(NONE, { timeout: 1_000 }), DeadlineExceeded);
  });
});
