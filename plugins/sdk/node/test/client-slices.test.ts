// Time slices, filters and kinds of errors, against a real node.

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

  /** A platform, when something holds of it. */
  async function when(name: string, holds: (p: client.Platform) => boolean): Promise<client.Platform> {
    for (const end = Date.now() + PATIENCE; ; await sleep(20)) {
      const found = await c.platform("shops", name).catch((error) => {
        if (error instanceof client.NotFound) return undefined;
        throw error;
      });
      if (found && holds(found)) return found;
      assert.ok(Date.now() < end, JSON.stringify(found));
    }
  }

  test("kinds of errors are read, and tasks selected by a filter", async () => {
    const key = randomUUID();
    const failed: string[] = [];
    for (let i = 0; i < 3; i++) {
      const { id } = await c.submit("fail", undefined, { key: `${key}-${i}` });
      await c.wait(id, { timeout: PATIENCE });
      failed.push(id);
    }
    const found = await c.errorKinds({ types: ["fail"], where: `since=1h key=${key}-*` });
    assert.deepEqual([found.tasks, found.others, found.complete, found.read >= 3], [3, 0, true, true]);
    assert.deepEqual([found.index, typeof found.total], ["error.kind", "number"]);
    const [kind, ...others] = found.kinds;
    assert.ok(kind && others.length === 0);
    assert.deepEqual([kind.tasks, kind.types, kind.sample], [3, ["fail"], failed[2]]);
    assert.match(kind.error, /exit/);
    assert.ok(kind.first && kind.last && kind.first <= kind.last);
    const listed = await all(c.tasks({ where: `error.kind=${kind.kind} error~"exit" since=1h key=${key}-*` }));
    assert.deepEqual(
      listed.map((task) => task.id),
      failed.reverse(),
    );
    const type = `where-${randomUUID()}`;
    await c.submitAll(Array.from({ length: 250 }, () => ({ type })));
    assert.equal((await all(c.tasks({ where: `type=${type} since=1h` }))).length, 250);
    await assert.rejects(
      c.errorKinds({ where: "error.knd=5" }),
      (e) => e instanceof client.Invalid && /column 1/.test(e.message),
    );
    await assert.rejects(all(c.tasks({ where: "(" })), client.Invalid);
    await assert.rejects(c.errorKinds({ types: "fail" as unknown as string[] }), client.Invalid);
  });

  test("time slices are read and ordered", async () => {
    const start = new Date("2020-01-01T00:00:00Z");
    const found = await when("north", (p) => Boolean(p.slices[0]?.failedAt));
    assert.deepEqual([found.source, found.name, found.lowWater], ["shops", "north", start]);
    assert.deepEqual(found.slices[0]?.start, start);
    assert.ok(
      found.slices[0]?.failedAt && found.slices[0].taskId && found.taskId && Number(found.cursorLag) > 86_400_000,
    );
    assert.ok(found.settings.some((s) => s.name === "retries" && s.value === "0" && s.from === "file"));
    const why = { by: "anna", reason: randomUUID() };
    const platform = "north";
    const orders: [() => Promise<client.Platform | undefined>, string][] = [
      [() => c.setSlices("shops", { lag: "5m" }, { platform, ...why }), "set lag=5m"],
      [() => c.setSlices("shops", { lag: "" }, { platform, ...why }), "set lag="],
      [() => c.pauseSlices("shops", { platform, ...why }), "pause"],
      [() => c.resumeSlices("shops", { platform, ...why }), "resume"],
      [() => c.removePlatform("shops", platform, why), "remove"],
      [() => c.addPlatform("shops", platform, why), "add"],
      [() => c.retrySlices("shops", { platform, from: start, until: Date.now(), ...why }), "retry failed slices"],
      [() => c.resetPlatform("shops", platform, start, why), "reset the cursor to 2020-01-01T00:00:00Z"],
    ];
    for (const [give, what] of orders) {
      assert.equal((await give())?.name, platform);
      const said = `${what}: ${why.reason}`;
      await when(
        platform,
        (p) => p.orders === 0 && p.history.some((h) => h.by === "unknown (says anna)" && h.what === said),
      );
    }
    assert.equal(await c.setSlices("shops", { lag: "10m" }, why), undefined);
    assert.equal(await c.pauseSlices("shops", why), undefined);
    assert.equal((await when("south", (p) => p.paused !== undefined)).paused?.reason, why.reason);
    assert.equal(await c.resumeSlices("shops", why), undefined);
    assert.equal(await c.retrySlices("shops", why), undefined);
    await when("south", (p) => p.paused === undefined && p.orders === 0);
    const names = async (prefix?: string) => (await all(c.platforms("shops", prefix))).map((p) => p.name);
    assert.deepEqual([await names(), await names("s")], [["north", "south"], ["south"]]);
    const source = await c.sliceSource("shops");
    assert.deepEqual([source.type, source.platformCount], ["fetch", 2]);
    assert.ok(source.values.some((s) => s.name === "lag" && s.value === "10m0s" && s.from === "live"));
    assert.deepEqual(
      (await c.sliceSources()).map((s) => s.name),
      ["shops"],
    );
    assert.equal(await c.pauseSlices("shops", { prefix: "sou", ...why }), undefined);
    await when("south", (p) => p.paused !== undefined && p.orders === 0);
    assert.equal((await c.platform("shops", "north")).paused, undefined);
    assert.equal(await c.resumeSlices("shops", { prefix: "sou", ...why }), undefined);
    assert.equal(await c.retrySlices("shops", { prefix: "sou", ...why }), undefined);
    await when("south", (p) => p.paused === undefined && p.orders === 0);
    for (const wrong of [() => c.sliceSource("none"), () => c.platform("shops", "none"), () => c.pauseSlices("none")]) {
      await assert.rejects(wrong, client.NotFound);
    }
    await assert.rejects(c.resetPlatform("shops", platform, start, { from: +start + 7000 }), client.Conflict);
    await assert.rejects(c.setSlices("shops", { interval: "often" }, { platform }), client.Invalid);
    await assert.rejects(c.resetPlatform("shops", platform, Number.NaN), client.Invalid);
  });

  test("platforms are added, changed and removed by a list", async () => {
    const name = `p-${randomUUID()}`;
    const lags = (p: client.Platform) => p.own["lag"];
    assert.equal((await c.addPlatform("shops", name, { values: { lag: "3m" }, by: "anna" })).name, name);
    assert.equal(lags(await when(name, (p) => p.orders === 0)), "3m0s");
    const rows: client.PlatformRow[] = [
      { name, values: { lag: "4m" }, replace: true },
      { name: `${name}-2`, values: { lag: "5m" } },
    ];
    const effects = async (dryRun: boolean) =>
      (await c.applyPlatforms("shops", rows, { dryRun, by: "anna", reason: "more" })).map((p) => p.outcome);
    assert.deepEqual(await effects(true), ["updated", "created"]);
    assert.deepEqual(await effects(false), ["updated", "created"]);
    assert.equal(lags(await when(name, (p) => p.orders === 0)), "4m0s");
    await when(`${name}-2`, (p) => p.orders === 0);
    assert.deepEqual(await effects(false), ["unchanged", "unchanged"]);
    const [gone, other] = await c.applyPlatforms("shops", [
      { name, removed: true },
      { name: `${name}-2`, values: { lag: "6m" }, ifVersion: 99 },
    ]);
    assert.deepEqual([gone?.outcome, other?.outcome, other?.code], ["removed", "", "aborted"]);
    assert.ok(await when(name, (p) => p.removed && p.orders === 0));
    await c.removePlatform("shops", `${name}-2`);
    await when(`${name}-2`, (p) => p.removed && p.orders === 0);
    await assert.rejects(c.applyPlatforms("shops", [{ name, values: { interval: "often" } }]), client.Invalid);
  });
});
