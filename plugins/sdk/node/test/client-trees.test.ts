// Children, trees, signals and workflows, against a real node.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import * as client from "../dist/client/index.js";
import { Client } from "../dist/client/index.js";
import { CancelRequestSchema, CancelResponseSchema } from "../dist/gen/taskengine_pb.js";
import { Lossy, PATIENCE, skip, TestNode } from "./node.js";

const HOUR = 3_600_000;

/** The first value that holds. */
async function until<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  for (const end = Date.now() + PATIENCE; ; await sleep(5)) {
    const value = await read();
    if (holds(value)) return value;
    assert.ok(Date.now() < end, JSON.stringify(value));
  }
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe("with a node", { skip }, () => {
  let node: TestNode;
  let c: Client;
  const ends: (() => Promise<void>)[] = [];
  before(async () => {
    node = await TestNode.start({ after: (f) => ends.push(f) });
    c = new Client(node.address);
  });
  after(async () => {
    await c.close();
    for (const end of ends) await end();
  });

  /** A client over connections of which each ends after so many bytes of answers. */
  async function lossy(t: TestContext): Promise<{ wire: Lossy; lossy: Client }> {
    const limits = [160, 180, 200, 220, 240, 260]; // the node has carried out the request, and its answer is larger
    const wire = await Lossy.start(t, node.address, limits);
    const lossy = new Client(wire.address, { timeout: PATIENCE });
    t.after(() => lossy.close());
    return { wire, lossy };
  }

  test("a task is submitted with its children", async () => {
    const task = { type: "echo", payload: { all: 1 }, key: randomUUID() };
    const children = [1, 2].map((payload) => ({ type: "echo", payload }));
    const receipt = await c.submitWithChildren(task, children, { name: "page" });
    assert.deepEqual([receipt.created, receipt.outcome], [true, "created"]);
    const again = await c.submitWithChildren(task, children, { name: "page" });
    assert.deepEqual([again.id, again.created], [receipt.id, false]);
    assert.deepEqual(await c.result(receipt.id, undefined, { timeout: PATIENCE }), { all: 1 });
    assert.ok((await c.submitWithChildren({ type: "echo" }, [])).created);
    for (const wrong of [{ key: "k" }, { id: randomUUID() }, { priority: 10 }]) {
      await assert.rejects(c.submitWithChildren({ type: "echo" }, [{ type: "echo", ...wrong }]), client.Invalid);
    }
    for (const wrong of [{ count: 2 }, { count: -1 }, { until: Number.NaN }]) {
      await assert.rejects(c.submitWithChildren({ type: "echo" }, [{ type: "echo" }], wrong), client.Invalid);
    }
  });

  test("a task shows its wait, its parent and its children", async () => {
    const children = [{ type: "idle" }, { type: "echo" }];
    const { id } = await c.submitWithChildren({ type: "idle" }, children, { name: "page", count: 1 });
    const woken = await until(
      () => c.get(id),
      (task) => task.wokenBy !== "",
    );
    assert.deepEqual([woken.state, woken.wokenBy, woken.awaits], ["submitted", "children", []]);
    const counts = {
      name: "page",
      added: 2,
      done: 1,
      failed: 0,
      cancelled: 0,
      awaits: 0,
      orFailed: false,
      open: false,
    };
    assert.deepEqual(woken.children, [counts]);
    const [, child] = await all(c.tree(id));
    assert.deepEqual(child?.task.parent, { id, name: "page", index: 0 });
    const other = await c.submitWithChildren({ type: "idle" }, [{ type: "idle" }]);
    const waiting = await c.get(other.id);
    assert.deepEqual([waiting.state, waiting.awaits, waiting.parent], ["waiting", ["taskengine.children"], undefined]);
    await c.cancelTree(other.id);
  });

  test("more children than a request may have are added in several", async () => {
    const task = { type: "echo", key: randomUUID() };
    const children = [{ type: "echo" }, ...Array.from({ length: 10_001 }, () => ({ type: "idle" }))];
    const receipt = await c.submitWithChildren(task, children, { name: "page", count: 1 });
    const again = await c.submitWithChildren(task, children, { name: "page", count: 1 });
    assert.deepEqual([receipt.created, again.created, again.id], [true, false, receipt.id]);
    const { state, children: sets } = await c.wait(receipt.id, { timeout: PATIENCE });
    assert.deepEqual([state, sets[0]?.added, sets[0]?.open], ["done", 10_002, false]);
    assert.equal((await c.cancelTree(receipt.id)).cancelled, 10_001);
  });

  test("children are left open, added and closed", async () => {
    const task = { type: "echo", payload: { all: 1 }, key: randomUUID() };
    const of = (length: number, type = "echo") => Array.from({ length }, () => ({ type }));
    const name = "page";
    const opened = await c.submitOpen(task, of(2), { name });
    const again = await c.submitOpen(task, of(2), { name });
    assert.deepEqual([opened.created, again.created, again.id], [true, false, opened.id]);
    const steps: [from: number, n: number, added: number][] = [
      [2, 0, 2],
      [0, 0, 2],
      [2, 3, 5],
      [2, 3, 5],
      [4, 2, 6],
      [6, 10_001, 10_007],
    ];
    for (const [from, n, added] of steps) {
      assert.deepEqual(await c.addChildren(opened.id, from, of(n, from < 6 ? "echo" : "idle"), { name }), {
        added,
        open: true,
      });
    }
    assert.equal((await c.get(opened.id)).children[0]?.open, true);
    for (let i = 0; i < 2; i++) {
      const closed = await c.closeChildren(opened.id, 10_006, of(2, "idle"), { name, count: 6 });
      assert.deepEqual(closed, { added: 10_008, open: false });
      assert.deepEqual(await c.result(opened.id, undefined, { timeout: PATIENCE }), { all: 1 }); // then it is done
    }
    await c.cancelTree(opened.id);
    const many = await c.submitOpen({ type: "idle" }, of(10_001, "idle"), { until: Date.now() + HOUR });
    assert.equal((await c.addChildren(many.id, 0)).added, 10_001);
    assert.equal((await c.closeChildren(many.id, 10_001, [], { orFailed: true })).open, false);
    await c.cancelTree(many.id);
  });

  test("why children are refused is an error of its own", async () => {
    const open = async () => (await c.submitOpen({ type: "echo" })).id;
    const [closed, ended, other] = [await open(), await open(), await open()];
    await c.closeChildren(closed, 0, [{ type: "idle" }]);
    await c.cancelTree(ended);
    for (const [id, from, kind, parent] of [
      [closed, 1, client.ChildrenClosed, client.NotAllowed],
      [ended, 0, client.TaskEnded, client.NotAllowed],
      [other, 2 ** 20, client.TooManyChildren, client.Invalid],
      [other, 1, client.NotAllowed, client.NotAllowed],
      [randomUUID(), 0, client.NotFound, client.NotFound],
    ] as const) {
      await assert.rejects(c.addChildren(id, from, [{ type: "idle" }]), (e) => {
        return e instanceof kind && e instanceof parent && e.constructor === kind;
      });
    }
    await assert.rejects(c.addChildren(other, -1), client.Invalid);
    await c.cancelTree(other);
  });

  test("a list that fits into one request closes open children", async () => {
    const task = { type: "echo", key: randomUUID() };
    const children = Array.from({ length: 10_000 }, () => ({ type: "idle" }));
    const more = [...children, { type: "idle", key: "k" }];
    await assert.rejects(c.submitWithChildren(task, more), client.Invalid);
    const receipt = await c.submitWithChildren(task, children, { count: 7 });
    const { children: sets, state } = await c.get(receipt.id);
    assert.deepEqual(
      [receipt.created, state, sets[0]?.added, sets[0]?.open, sets[0]?.awaits],
      [false, "waiting", 10_000, false, 7],
    );
    assert.equal((await c.cancelTree(receipt.id)).cancelled, 10_001);
  });

  test("a tree is read and cancelled", async () => {
    const children = Array.from({ length: 1001 }, (_, payload) => ({ type: "idle", payload }));
    const how = { count: 7, orFailed: true, until: Date.now() + HOUR };
    const root = await c.submitWithChildren({ type: "echo" }, children, how);
    const tree = await all(c.tree(root.id));
    assert.deepEqual(
      tree.map((one) => one.depth),
      [0, ...children.map(() => 1)],
    );
    assert.deepEqual(
      tree.slice(1).map(({ task }) => task.parent?.index),
      children.map((child) => child.payload),
    );
    const [of] = tree[0]?.task.children ?? [];
    assert.deepEqual([of?.name, of?.added, of?.awaits, of?.orFailed], ["child", 1001, 7, true]);
    assert.deepEqual(tree[0]?.task.nextEventAt, new Date(how.until));
    const cancelled = await c.cancelTree(root.id, "no need");
    assert.deepEqual([cancelled.task.state, cancelled.task.error], ["cancelled", "no need"]);
    assert.deepEqual([cancelled.cancelled, cancelled.missing], [1002, 0]);
    assert.equal((await c.cancelTree(root.id)).cancelled, 0);
    await assert.rejects(all(c.tree(randomUUID())), client.NotFound);
    await assert.rejects(c.cancelTree(randomUUID()), client.NotFound);
  });

  test("a signal is sent once", async () => {
    const [key, requestId] = [randomUUID(), randomUUID()];
    const { id } = await c.submit("idle", undefined, { key });
    assert.equal((await c.signal("paid", undefined, { id })).outcome, "dropped");
    for (const outcome of ["kept", "repeated"]) {
      const got = await c.signal("paid", { cents: 5 }, { type: "idle", key, keep: true, requestId });
      assert.deepEqual([got.outcome, got.task.id], [outcome, id]);
    }
    const [kept, ...others] = (await c.get(id)).keptSignals;
    assert.deepEqual([kept?.name, Buffer.from(kept?.data ?? []).toString(), others], ["paid", '{"cents":5}', []]);
    await assert.rejects(c.signal("paid"), client.Invalid);
    await assert.rejects(c.signal("\ud800", undefined, { id }), client.Invalid);
    await assert.rejects(c.signal("paid", 1n, { id }), client.Invalid);
    await assert.rejects(c.signal("paid", undefined, { id: randomUUID() }), client.NotFound);
  });

  test("a workflow is submitted, read and retried", async () => {
    const key = randomUUID();
    const definition = {
      steps: {
        say: { type: "echo", payload: { $input: "" }, compensate: { type: "echo" } },
        wait: { after: ["say"], wait: { signal: "go", timeout: "1h" } },
      },
      output: { $result: "say" },
    };
    const receipt = await c.submitWorkflow({ definition, input: [7], key, headers: { h: "v" }, priority: 3 });
    assert.deepEqual([receipt.created, receipt.outcome], [true, "created"]);
    const again = await c.submitWorkflow({ definition: JSON.stringify(definition), input: "[8]", key });
    assert.deepEqual([again.id, again.created], [receipt.id, false]);
    const waits = await until(
      () => c.workflowOf(key),
      (w) => w.steps[1]?.state === "running",
    );
    assert.deepEqual([waits.task.id, waits.task.priority, waits.task.headers], [receipt.id, 3, { h: "v" }]);
    const [say, wait] = waits.steps;
    assert.deepEqual([say?.type, say?.state, say?.done, say?.taskIds.length], ["echo", "done", 1, 1]);
    assert.ok(say?.ended instanceof Date && say.compensation === undefined);
    assert.deepEqual([wait?.after, wait?.signal], [["say"], "go"]);
    assert.ok(wait?.until && wait.until.getTime() > Date.now());
    await assert.rejects(c.retryWorkflow(receipt.id), client.NotAllowed);
    assert.equal((await c.cancelTree(receipt.id, "no need")).cancelled, 1);
    await assert.rejects(c.retryWorkflow(receipt.id, { version: 1 }), client.Conflict);
    await assert.rejects(c.retryWorkflow(receipt.id, { from: "none" }), client.Invalid);
    assert.equal((await c.retryWorkflow(receipt.id, { from: "say" })).retries, 1);
    await c.signal("go", undefined, { type: "taskengine.workflow", key, keep: true });
    const done = await until(
      () => c.workflow(receipt.id),
      (w) => w.task.state === "done",
    );
    assert.deepEqual([done.output, done.steps.map((step) => step.state)], ["[7]", ["done", "done"]]);
    await assert.rejects(c.workflow(randomUUID()), client.NotFound);
    await assert.rejects(c.workflowOf(randomUUID()), client.NotFound);
    for (const wrong of [{}, { definition: "{" }, { definition: Buffer.from([255]) }]) {
      await assert.rejects(c.submitWorkflow(wrong), client.Invalid);
    }
    await assert.rejects(c.submitWorkflow({ name: "none" }), client.NotFound);
    await assert.rejects(c.submitWorkflow({ definition, key: "\ud800" }), client.Invalid);
  });

  test("a workflow starts when it is to", async () => {
    const definition = { steps: { say: { type: "echo" } } };
    const at = new Date("2100-01-01T00:00:00Z");
    const [late, id] = [await c.submitWorkflow({ definition, at }), randomUUID()];
    assert.deepEqual((await c.workflow(late.id)).task.nextEventAt, at);
    assert.equal((await c.submitWorkflow({ definition, id, delay: HOUR })).id, id);
    assert.equal((await c.submitWorkflow({ definition, id })).created, false);
    assert.equal((await c.workflow(id)).task.state, "waiting");
  });

  test("a task is added with its children once if the answer is lost", async (t) => {
    const { wire, lossy: over } = await lossy(t);
    for (let i = 0; i < 3; i++) {
      const type = `children-${randomUUID()}`;
      const receipt = await over.submitWithChildren({ type }, [{ type }, { type }]);
      assert.deepEqual([receipt.created, receipt.outcome], [true, "created"]);
      assert.deepEqual(await c.count({ types: [type] }), [
        { state: "submitted", type, count: 2 },
        { state: "waiting", type, count: 1 },
      ]);
    }
    assert.ok(wire.lost > 0, "an answer was lost");
  });

  test("a workflow is added once if the answer is lost", async (t) => {
    const { wire, lossy: over } = await lossy(t);
    for (let i = 0; i < 3; i++) {
      const receipt = await over.submitWorkflow({ definition: { steps: { say: { type: "echo" } } }, delay: HOUR });
      assert.deepEqual([receipt.created, receipt.outcome], [true, "created"]);
    }
    assert.ok(wire.lost > 0, "an answer was lost");
  });

  test("a signal arrives once if the answer is lost", async (t) => {
    const { wire, lossy: over } = await lossy(t);
    const { id } = await c.submit("idle");
    for (let i = 0; i < 3; i++) await over.signal(`s${i}`, undefined, { id, keep: true });
    const names = (await c.get(id)).keptSignals.map((signal) => signal.name);
    assert.deepEqual(names, ["s0", "s1", "s2"]);
    assert.ok(wire.lost > 0, "an answer was lost");
  });
});

test("a tree is cancelled in parts until there is no more", async (t) => {
  const parts: MessageInitShape<typeof CancelResponseSchema>[] = [
    { cancelled: 3n, missing: 2n, more: true },
    { cancelled: 4n, more: true },
    { task: { id: "t", state: "cancelled" }, cancelled: 5n, missing: 1n },
  ];
  const requests: unknown[] = [];
  const identity = (bytes: Buffer) => bytes;
  const codec = {
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
  const path = "/taskengine.v1.TaskService/Cancel";
  const server = new Server();
  server.addService(
    { Cancel: { path, requestStream: false, responseStream: false, ...codec } },
    {
      Cancel: (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) => {
        const { id, reason, tree } = fromBinary(CancelRequestSchema, call.request);
        requests.push([id, reason, tree]);
        const part = create(CancelResponseSchema, parts[requests.length - 1] ?? {});
        answer(null, Buffer.from(toBinary(CancelResponseSchema, part)));
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("localhost:0", ServerCredentials.createInsecure(), (e, bound) => (e ? reject(e) : resolve(bound)));
  });
  t.after(() => server.forceShutdown());
  const c = new Client(`localhost:${port}`, { timeout: PATIENCE });
  t.after(() => c.close());
  const { task, cancelled, missing } = await c.cancelTree("t", "no need");
  assert.deepEqual([task.id, task.state, cancelled, missing], ["t", "cancelled", 12, 1]);
  assert.deepEqual(
    requests,
    parts.map(() => ["t", "no need", true]),
  );
});
