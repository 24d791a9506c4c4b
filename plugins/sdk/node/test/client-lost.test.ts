// Answers that are lost, nodes that are killed, and addresses at which no node answers any longer.

import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";
import { after, before, describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, type Receipt } from "../dist/client/index.js";
import { freeAddress, Lossy, PATIENCE, skip, TestNode } from "./node.js";

function open(t: TestContext, address: string | string[]): Client {
  const c = new Client(address, { timeout: PATIENCE });
  t.after(() => c.close());
  return c;
}

async function idsOf(c: Client, types: string[]): Promise<string[]> {
  const ids: string[] = [];
  for await (const task of c.tasks({ types })) ids.push(task.id);
  return ids.sort();
}

describe("answers", { skip }, () => {
  let node: TestNode;
  let direct: Client;
  const ends: (() => Promise<void>)[] = [];
  before(async () => {
    node = await TestNode.start({ after: (f) => ends.push(f) });
    direct = new Client(node.address);
  });
  after(async () => {
    await direct.close();
    for (const end of ends) await end();
  });

  test("a submit whose answer is lost adds one task", async (t) => {
    const type = `lost-${randomUUID()}`;
    const limits = Array.from({ length: 20 }, () => randomInt(500, 4000));
    t.diagnostic(`limits ${limits}`);
    const wire = await Lossy.start(t, node.address, limits);
    const c = open(t, wire.address);
    const receipts: Receipt[] = [];
    const submit = async () => {
      for (let i = 0; i < 50; i++) receipts.push(await c.submit(type, i));
    };
    await Promise.all(Array.from({ length: 8 }, submit));
    assert.ok(receipts.every((r) => r.created));
    assert.ok(wire.lost > 0, "an answer was lost");
    assert.deepEqual(await idsOf(direct, [type]), receipts.map((r) => r.id).sort());
  });

  test("tasks that are added together are added once if the answer is lost", async (t) => {
    const type = `together-${randomUUID()}`;
    const wire = await Lossy.start(t, node.address, [300, 300]); // less than 100 receipts have
    const receipts = await open(t, wire.address).submitAll(Array.from({ length: 100 }, () => ({ type })));
    assert.ok(receipts.every((r) => r.created));
    assert.equal(wire.lost, 2);
    assert.deepEqual(await idsOf(direct, [type]), receipts.map((r) => r.id).sort());
  });

  test("a call that is not repeated is made where a node answers", async (t) => {
    const [first, second] = [await Lossy.start(t, node.address), await Lossy.start(t, node.address)];
    const c = open(t, [first.address, second.address]);
    const { id } = await c.submit("idle");
    first.stop();
    assert.equal((await c.cancel(id)).state, "cancelled");
  });

  test("another address is used when one no longer answers", async (t) => {
    const wires = [await Lossy.start(t, node.address), await Lossy.start(t, node.address)];
    const addresses = [await freeAddress(), ...wires.map((wire) => wire.address), node.address];
    const [submits, reads] = [open(t, addresses), open(t, addresses)];
    for (const wire of [...wires, undefined]) {
      const receipt = await submits.submit("idle");
      assert.ok(receipt.created);
      assert.equal((await reads.get(receipt.id)).state, "submitted");
      wire?.stop();
    }
  });
});

/** Submits until it is ended, and returns what was accepted. */
function load(c: Client, coroutines: number) {
  const accepted: string[] = [];
  let isOver = false;
  const submit = async () => {
    while (!isOver) {
      const receipt = await c.submit("idle");
      assert.ok(receipt.created);
      accepted.push(receipt.id);
    }
  };
  let failure: unknown;
  const running = Promise.all(Array.from({ length: coroutines }, submit)).catch((error) => {
    failure = error;
  });
  return {
    async more(count: number) {
      for (const before = accepted.length; accepted.length < before + count && !failure; ) await sleep(2);
    },
    async end() {
      isOver = true;
      await running;
      if (failure) throw failure;
      return accepted.sort();
    },
  };
}

test("a node that is killed under load loses and doubles nothing", { skip }, async (t) => {
  const node = await TestNode.start(t, await freeAddress());
  const c = open(t, node.address);
  const submits = load(c, 64);
  for (let i = 0; i < 4; i++) {
    await submits.more(200);
    await node.kill();
    await node.start();
  }
  const accepted = await submits.end();
  assert.deepEqual(await idsOf(c, ["idle"]), accepted);
});

test("a node that stops in order hands its submits over", { skip }, async (t) => {
  const addresses = [await freeAddress(), await freeAddress()];
  const node = await TestNode.start(t, addresses[0]);
  const c = open(t, addresses);
  const submits = load(c, 8);
  for (const next of [1, 0, 1]) {
    await submits.more(50);
    await node.stop();
    node.address = addresses[next] as string;
    await node.start();
  }
  await submits.more(50);
  const accepted = await submits.end();
  assert.deepEqual(await idsOf(c, ["idle"]), accepted);
});

test("a wait lasts over the death of its node", { skip }, async (t) => {
  const node = await TestNode.start(t, await freeAddress());
  const c = open(t, node.address);
  const { id } = await c.submit("idle");
  const waiting = c.wait(id, { timeout: PATIENCE });
  await node.kill();
  await node.start();
  await c.cancel(id);
  assert.equal((await waiting).state, "cancelled");
});
