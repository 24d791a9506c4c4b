// Logs of tasks, types, ordering keys, alerts and configurations, against real nodes.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import * as client from "../dist/client/index.js";
import { Client, type LogEntry } from "../dist/client/index.js";
import { PATIENCE, skip, TestNode } from "./node.js";

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** The message of a line. */
function textOf(entry: LogEntry): string {
  assert.ok(entry.kind === "line");
  return entry.line.message;
}

describe("with a node", { skip }, () => {
  let c: Client;
  const ends: (() => Promise<void>)[] = [];
  before(async () => {
    const node = await TestNode.start({ after: (f) => ends.push(f) });
    c = new Client(node.address);
  });
  after(async () => {
    await c.close();
    for (const end of ends) await end();
  });

  test("the lines of a task are read", async () => {
    const { id } = await c.submit("talk");
    await c.wait(id, { timeout: PATIENCE });
    const entries = await all(c.logs(id));
    assert.deepEqual(entries.map(textOf), ["one", "two"]);
    const [first, last] = entries;
    assert.ok(first?.kind === "line" && last);
    const { attempt, level, attrs, dropped, cut, time, node } = first.line;
    assert.deepEqual([attempt, level, attrs, dropped, cut], [1, "INFO", '{"stream":"stderr"}', 0, false]);
    assert.ok(Math.abs(Date.now() - Number(time)) < 3_600_000);
    assert.equal(node, (await c.nodes()).nodes[0]?.name);
    assert.deepEqual(await all(c.logs(id, { cursor: last.cursor })), []);
    assert.deepEqual(await all(c.logs(id, { attempt: 2 })), []);
    await assert.rejects(all(c.logs(randomUUID())), client.NotFound);
    await assert.rejects(all(c.logs(id, { attempt: -1 })), client.Invalid);
  });

  test("the lines of a task are followed until it has ended", async () => {
    await c.pauseType("talk");
    const { id } = await c.submit("talk");
    assert.deepEqual(await all(c.logs(id)), []);
    await c.resumeType("talk");
    for (let i = 0; i < 2; i++) {
      assert.deepEqual((await all(c.logs(id, { follow: true }))).map(textOf), ["one", "two"]);
    }
    assert.equal((await c.get(id)).state, "done");
    const idle = await c.submit("idle");
    const ending = new AbortController();
    const following = all(c.logs(idle.id, { follow: true, signal: ending.signal }));
    ending.abort(new Error("enough"));
    await assert.rejects(following, /enough/);
  });

  test("logs go on when the node comes back", async (t) => {
    const restarted = await TestNode.start(t);
    const other = new Client(restarted.address);
    t.after(() => other.close());
    const { id } = await other.submit("twice");
    const texts: string[] = [];
    for await (const entry of other.logs(id, { follow: true })) {
      if (texts.push(textOf(entry)) !== 2) continue;
      await restarted.stop();
      await restarted.start();
    }
    assert.deepEqual(texts, ["one", "two", "one", "two"]);
  });

  test("types are paused and resumed", async () => {
    const echo = async () => {
      const { types, more } = await c.types();
      assert.equal(more, false);
      return types.find((type) => type.name === "echo");
    };
    const before = await echo();
    assert.deepEqual([before?.configured, before?.handled, before?.paused, before?.running], [true, true, false, 0]);
    await c.pauseType("echo");
    await c.pauseType("echo");
    assert.equal((await echo())?.paused, true);
    const { id } = await c.submit("echo", "x");
    await c.resumeType("echo");
    assert.equal((await echo())?.paused, false);
    assert.equal((await c.wait(id, { timeout: PATIENCE })).state, "done");
    await assert.rejects(c.pauseType(""), client.Invalid);
  });

  test("ordering keys are listed, resumed and skipped", async () => {
    const orderingKey = `acme-${randomUUID()}`;
    const ids: string[] = [];
    for (const type of ["fail", "idle", "idle"]) ids.push((await c.submit(type, undefined, { orderingKey })).id);
    const [first = ""] = ids;
    await c.wait(first, { timeout: PATIENCE });
    const found = (await all(c.orderingKeys({ states: ["error"], behind: true }))).find((k) => k.key === orderingKey);
    assert.deepEqual([found?.head?.id, found?.behind, found?.behindTruncated], [first, 2, false]);
    assert.ok(found?.oldestReadyAt);
    assert.ok(!(await all(c.orderingKeys({ states: ["processing"] }))).some((k) => k.key === orderingKey));
    assert.deepEqual(
      (await all(c.orderingKeyTasks(orderingKey))).map((task) => task.id),
      ids,
    );
    assert.equal((await c.resumeOrderingKey(orderingKey)).id, first);
    await c.wait(first, { timeout: PATIENCE });
    const skipped = await c.skipOrderingKey(orderingKey, { reason: "no use" });
    assert.deepEqual([skipped.id, skipped.state, skipped.error], [first, "failed", "no use"]);
    await assert.rejects(c.skipOrderingKey(orderingKey), client.NotAllowed);
    await assert.rejects(all(c.orderingKeyTasks(`none-${orderingKey}`)), client.NotFound);
    await assert.rejects(all(c.orderingKeys({ states: "error" as never })), client.Invalid);
  });

  test("all pages of ordering keys and their tasks are listed", async () => {
    const prefix = `page-${randomUUID()}-`;
    const keys = Array.from({ length: 130 }, (_, i) => `${prefix}${String(i).padStart(3, "0")}`);
    await c.submitAll(keys.map((orderingKey) => ({ type: "idle", orderingKey })));
    assert.deepEqual(
      (await all(c.orderingKeys())).map((one) => one.key).filter((key) => key.startsWith(prefix)),
      keys,
    );
    const receipts = await c.submitAll(keys.map(() => ({ type: "idle", orderingKey: prefix })));
    assert.deepEqual(
      (await all(c.orderingKeyTasks(prefix))).map((task) => task.id),
      receipts.map((receipt) => receipt.id),
    );
  });

  test("alerts are listed, silenced and tested", async () => {
    const silence = await c.silenceAlerts({
      ...{ rule: "late", labels: { type: "n*" }, lasting: 3_600_000 },
      ...{ comment: "known", by: "anna" },
    });
    assert.deepEqual([silence.rule, silence.labels, silence.comment], ["late", { type: "n*" }, "known"]);
    assert.equal(Number(silence.until) - Number(silence.at), 3_600_000);
    const { alerts, silences, unsent } = await c.alerts();
    assert.deepEqual([alerts, silences, unsent], [[], [silence], []]);
    await c.unsilenceAlerts(silence.id);
    assert.deepEqual((await c.alerts()).silences, []);
    await assert.rejects(c.unsilenceAlerts(silence.id), client.NotFound);
    await assert.rejects(c.silenceAlerts({ lasting: 1000 }), client.Invalid);
    const [tested] = await c.testAlerts(["hook"]);
    assert.equal(tested?.target, "hook");
    assert.match(tested?.problem ?? "", /refused/);
    await assert.rejects(c.testAlerts(["none"]), client.NotFound);
  });

  test("a node reads its configuration again", async () => {
    const { nodes, silent } = await c.applyConfig({ allNodes: true });
    assert.deepEqual([nodes.length, silent], [1, []]);
    assert.deepEqual([nodes[0]?.changes, nodes[0]?.problem, nodes[0]?.unchanged], [[], "", false]);
  });
});
