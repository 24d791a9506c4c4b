// Bulk jobs, events, histories, tokens and nodes, against real nodes.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as client from "../dist/client/index.js";
import { Client } from "../dist/client/index.js";
import { PATIENCE, skip, TestNode } from "./node.js";

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

  /** A bulk job, when something holds of it. */
  async function when(name: string, holds: (job: client.BulkJob) => boolean): Promise<client.BulkJob> {
    for (const end = Date.now() + PATIENCE; ; await sleep(20)) {
      const job = await c.bulkJob(name);
      if (holds(job)) return job;
      assert.ok(Date.now() < end, JSON.stringify(job));
    }
  }

  test("a bulk job changes the tasks of a filter", async () => {
    const type = `bulk-${randomUUID()}`;
    const receipts = await c.submitAll(Array.from({ length: 7 }, () => ({ type, headers: { old: "1", kept: "2" } })));
    const order: client.BulkOrder = {
      ...{ verb: "set", where: `type=${type}` },
      values: { priority: 2, payload: { a: 1 }, headers: { who: "anna" }, removeHeaders: ["old"] },
    };
    const preview = await c.previewBulkJob(order);
    assert.deepEqual([preview.tasks, preview.complete, preview.states], [7, true, { submitted: 7 }]);
    assert.deepEqual([preview.samples.length, preview.read >= 7, preview.index, preview.total], [7, true, "state", 0]);
    const name = `n-${randomUUID()}`;
    const started = await c.startBulkJob(order, { name, by: "anna" });
    assert.deepEqual([started.name, started.verb, started.total], [name, "set", 7]);
    const job = await when(name, ({ phase }) => phase === "done");
    assert.deepEqual([job.changed, job.refused, job.skipped], [7, 0, 0]);
    assert.match(job.by, /anna/);
    const id = receipts[0]?.id ?? "";
    const task = await c.get(id);
    assert.deepEqual([task.priority, task.headers], [2, { kept: "2", who: "anna" }]);
    assert.equal(Buffer.from(task.payload).toString(), '{"a":1}');
    assert.deepEqual(
      task.history.map((h) => [h.outcome, h.job]),
      [["edited", name]],
    );
    assert.ok((await all(c.bulkJobs())).some((one) => one.name === name));
    await assert.rejects(c.bulkJob("none"), client.NotFound);
    await assert.rejects(c.previewBulkJob({ verb: "cancel", where: "(" }), client.Invalid);
  });

  test("a bulk job is paused, continued and stopped", async () => {
    const type = `slow-${randomUUID()}`;
    await c.submitAll(Array.from({ length: 50 }, () => ({ type })));
    const name = `p-${randomUUID()}`;
    await c.startBulkJob({ verb: "cancel", types: [type], reason: "no use" }, { name, rate: 0.5 });
    const paused = await c.pauseBulkJob(name, { by: "anna", reason: "wait" });
    assert.equal(paused.phase, "paused");
    assert.equal((await c.setBulkJobRate(name, 0.25, { by: "anna" })).rate, 0.25);
    assert.equal((await c.continueBulkJob(name, { by: "anna" })).phase, "running");
    await c.stopBulkJob(name, { by: "anna", reason: "enough" });
    const stopped = await when(name, ({ phase }) => phase === "stopped");
    assert.ok(stopped.changed < 50 && stopped.history.some((h) => h.reason === "enough"));
  });

  test("one task is set and deleted", async () => {
    const { id } = await c.submit(`one-${randomUUID()}`, undefined, { delay: 3_600_000 });
    const at = new Date("2100-01-01T00:00:00Z");
    const set = await c.setTask(id, { priority: 1 }, { at, by: "anna" });
    assert.deepEqual([set.priority, set.nextEventAt, set.history[0]?.outcome], [1, at, "edited"]);
    await assert.rejects(c.setTask(id, { priority: 1 }, { version: 1 }), client.Conflict);
    await assert.rejects(c.deleteTask(id), client.NotAllowed);
    await c.cancel(id);
    assert.equal((await c.deleteTask(id)).id, id);
    await assert.rejects(c.get(id), client.NotFound);
    const ids = await c.submitAll([{ type: "idle" }, { type: "idle" }]);
    const where = client.whereIds(...ids.map((r) => r.id));
    assert.equal((await all(c.tasks({ where }))).length, 2);
  });

  test("events come until the loop ends, and go on at a cursor", async () => {
    const type = `seen-${randomUUID()}`;
    await c.submit(type, undefined, { key: "before", delay: 3_600_000 });
    const filter: client.EventFilter = { where: `type=${type}`, cursor: "1h", catchUp: true };
    const seen: string[] = [];
    let cursor = "";
    for await (const event of c.events(filter)) {
      if (event.kind === "gap") {
        assert.ok(event.text && event.from && event.until && event.from < event.until);
        seen.push("gap");
        continue;
      }
      assert.ok(event.kind === "task");
      seen.push(`${event.task.key}${event.fromStore ? " of the store" : ""}`);
      assert.ok(event.at);
      cursor = event.cursor;
      if (event.task.key === "live") break;
      await c.submit(type, undefined, { key: "live", delay: 3_600_000 });
    }
    assert.deepEqual(seen, ["gap", "before of the store", "live"]);
    const live = await c.find(type, "live");
    await c.cancel(live.id);
    for await (const event of c.events({ types: [type], cursor })) {
      assert.ok(event.kind === "task" && event.task.id === live.id && event.task.state === "cancelled");
      break;
    }
    await assert.rejects(all(c.events({ where: "stat=x" })), client.Invalid);
    const signal = AbortSignal.timeout(50);
    await assert.rejects(all(c.events({ types: [type] }, { signal })), (e) => e === signal.reason);
    const other = new Client(node.address);
    setTimeout(() => other.close(), 50);
    await assert.rejects(all(other.events({ types: [type] })), client.Closed);
  });

  test("events go on when the node comes back", async (t) => {
    const restarted = await TestNode.start(t);
    const other = new Client(restarted.address);
    t.after(() => other.close());
    const type = `back-${randomUUID()}`;
    await other.submit(type, undefined, { key: "1" });
    const seen: string[] = [];
    for await (const event of other.events({ types: [type], cursor: "1h", catchUp: true })) {
      if (event.kind !== "task") continue;
      const key = event.task.key;
      if (seen.includes(key)) continue;
      seen.push(key);
      if (key === "2") break;
      await restarted.kill();
      await restarted.start();
      await other.submit(type, undefined, { key: "2" });
    }
    assert.deepEqual(seen, ["1", "2"]);
  });

  test("the history of waiting is read", async () => {
    const { id } = await c.submit(`none-${randomUUID()}`);
    const history = await c.waitHistory(id);
    assert.ok(history.node !== "" && history.notedSince && history.silent.length === 0);
    assert.ok(history.waits.length > 0 && history.waits.every((w) => w.code !== "" && typeof w.total === "number"));
    await assert.rejects(c.waitHistory(randomUUID()), client.NotFound);
  });

  test("nodes and workers are listed", async () => {
    const { nodes, silent } = await c.nodes();
    assert.deepEqual([nodes.length, silent.length], [1, 0]);
    const [own] = nodes;
    assert.ok(own?.here && own.status && (own.status.uptime ?? 0) > 0 && own.types.includes("echo"));
    assert.equal((await c.nodes({ node: own.id })).nodes[0]?.name, own.name);
    assert.deepEqual(await c.workers(), { workers: [], silent: [] });
    await assert.rejects(c.drainWorker("none"), client.NotFound);
    await assert.rejects(c.drainNode("none"), client.NotFound);
    await assert.rejects(c.nodes({ node: "none" }), client.NotFound);
    await assert.rejects(c.tokens(), client.NotAllowed); // the node wants none
  });

  test("a node is drained", async (t) => {
    const drained = await TestNode.start(t);
    const other = new Client(drained.address, { timeout: 1000 });
    t.after(() => other.close());
    const { nodes } = await other.nodes();
    assert.equal((await other.drainNode(nodes[0]?.id ?? "", { by: "anna" })).id, nodes[0]?.id);
    for (const end = Date.now() + PATIENCE; ; await sleep(20)) {
      if (await other.nodes().catch((e) => e instanceof client.Unavailable)) break;
      assert.ok(Date.now() < end);
    }
  });

  test("tokens are made, listed, rotated and revoked", async (t) => {
    const guarded = await TestNode.guarded(t);
    const boss = new Client(guarded.address, { token: guarded.token });
    t.after(() => boss.close());
    const { token, secret } = await boss.addToken({
      ...{ name: "shop", roles: ["submit"], types: ["echo"] },
      ...{ expiresIn: 3_600_000, by: "anna" },
    });
    assert.deepEqual([token.state, token.by, token.types], ["valid", "boss (says anna)", ["echo"]]);
    assert.equal(Number(token.expiresAt) - Number(token.createdAt), 3_600_000);
    const shop = new Client(guarded.address, { token: secret });
    t.after(() => shop.close());
    await shop.submit("echo");
    await assert.rejects(shop.tokens(), client.NotAllowed);
    await assert.rejects(boss.addToken({ name: "shop", roles: ["submit"] }), client.AlreadyExists);
    const rotated = await boss.rotateToken("shop", { grace: 60_000, by: "anna" });
    assert.ok(rotated.secret !== secret && rotated.token.earlierUntil);
    assert.equal((await boss.revokeToken("shop", { by: "anna" })).state, "revoked");
    const names = async (revoked: boolean) => (await boss.tokens({ revoked })).map((one) => one.name);
    assert.deepEqual([await names(false), await names(true)], [["boss"], ["shop", "boss"]]);
    await assert.rejects(boss.revokeToken("none"), client.NotFound);
    const before = await boss.revokeSessions("ann@example.com", { by: "anna" });
    assert.ok(Math.abs(Number(before) - Date.now()) < 3_600_000);
    await assert.rejects(boss.revokeSessions("a b"), client.Invalid);
  });
});
