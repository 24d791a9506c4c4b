// The client against a real node.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { type Metadata, Server, ServerCredentials, status, type UntypedHandleCall } from "@grpc/grpc-js";
import * as client from "../dist/client/index.js";
import { type CallOptions, Client, ClientError, type ClientOptions } from "../dist/client/index.js";
import { Nodes } from "../dist/client/nodes.js";
import { PATIENCE, skip, TestNode } from "./node.js";

const SIGNAL = { timeout: PATIENCE };

function open(t: TestContext, address: string | string[], options: ClientOptions = {}): Client {
  const c = new Client(address, options);
  t.after(() => c.close());
  return c;
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

  test("a task is submitted and its result is read", async () => {
    const key = randomUUID();
    const expiresAt = new Date(Date.now() + 3_600_000);
    const options = { key, orderingKey: key, headers: { h: "v" }, priority: 3, expiresAt };
    const receipt = await c.submit("echo", { to: "ä" }, options);
    assert.deepEqual([receipt.created, receipt.outcome], [true, "created"]);
    assert.deepEqual(await c.result(receipt.id, undefined, SIGNAL), { to: "ä" });
    assert.equal(await c.result(receipt.id, (v) => (v as { to: string }).to), "ä");
    const again = await c.submit("echo", "x", { key, orderingKey: key });
    assert.deepEqual(again, { id: receipt.id, created: false, outcome: "existing" });
    const task = await c.find("echo", key, { orderingKey: key });
    assert.deepEqual([task.id, task.state, task.priority, task.headers], [receipt.id, "done", 3, { h: "v" }]);
    assert.deepEqual(task.expiresAt, expiresAt);
    assert.equal(Buffer.from(task.payload).toString(), '{"to":"ä"}');
  });

  test("the result of a task that fails is an error", async () => {
    const { id } = await c.submit("fail");
    await assert.rejects(c.result(id, undefined, SIGNAL), (e: client.NotDone) => {
      assert.ok(e instanceof client.NotDone && e instanceof ClientError);
      assert.deepEqual([e.id, e.state, e.name], [id, "error", "NotDone"]);
      return /exit/.test(e.reason);
    });
  });

  test("a removed result is no empty one", async () => {
    const key = randomUUID();
    const { id } = await c.submit("brief", { to: "a" }, { key });
    await assert.rejects(c.result(id, undefined, SIGNAL), (e: client.ResultRemoved) => {
      assert.ok(e instanceof client.ResultRemoved && e instanceof ClientError);
      return e.id === id && e.name === "ResultRemoved";
    });
    assert.deepEqual(await c.submit("brief", { to: "a" }, { key }), { id, created: false, outcome: "already_done" });
    const task = await c.find("brief", key);
    assert.deepEqual([task.id, task.state, task.result.length, task.tombstone], [id, "done", 0, true]);
    const empty = await c.submit("echo");
    assert.equal(await c.result(empty.id, undefined, SIGNAL), undefined);
    assert.equal((await c.get(empty.id)).tombstone, false);
  });

  test("tasks are managed", async () => {
    const { id } = await c.submit("idle", undefined, { delay: 3_600_000 });
    assert.equal((await c.why(id))[0]?.code, "scheduled");
    const at = new Date("2100-01-01T00:00:00Z");
    assert.deepEqual((await c.reschedule(id, { at })).nextEventAt, at);
    const sooner = (await c.reschedule(id, { delay: 60_000 })).nextEventAt;
    assert.ok(sooner && sooner < at);
    await assert.rejects(c.cancel(id, "", { version: 1 }), client.Conflict);
    assert.equal((await c.resume(id)).state, "submitted");
    assert.equal((await c.cancel(id, "no need")).error, "no need");
    await assert.rejects(c.cancel(id), client.NotAllowed);
    assert.equal((await c.resume(id)).state, "submitted");
    assert.equal((await c.fail(id, "no")).state, "failed");
    assert.equal((await c.wait(id)).state, "failed");
  });

  test("tasks are listed by pages and counted", async () => {
    const type = `list-${randomUUID()}`;
    const each = await c.submitEach(Array.from({ length: 1107 }, (_, i) => ({ type, payload: i, key: `k${i % 7}` })));
    const ids = new Set(each.map((r) => (r as client.Receipt).id));
    assert.equal(ids.size, 7);
    for (const r of await c.submitAll(Array.from({ length: 250 }, () => ({ type })))) {
      assert.ok(r.created);
      ids.add(r.id);
    }
    const found = await all(c.tasks({ types: [type], states: ["submitted"] }));
    assert.deepEqual(new Set(found.map((task) => task.id)), ids);
    const [third] = await all(c.tasks({ types: [type], key: "k3" }));
    assert.equal(third?.id, (each[3] as client.Receipt).id);
    assert.deepEqual(await c.count({ types: [type] }), [{ state: "submitted", type, count: 257 }]);
  });

  test("limits are changed", async () => {
    const value = randomUUID();
    const { limits, silent } = await c.limits();
    assert.deepEqual(silent, []);
    assert.deepEqual(
      limits.filter((one) => !one.value && !one.name.startsWith("shops")).map((one) => one.name),
      ["partner"],
    );
    const rate = { count: 20, per: 1000, burst: 0 };
    const changed = await c.setLimit("partner", { value, max: 0, rate, paused: true, by: "eve" });
    assert.deepEqual(
      [changed.setting?.max, changed.setting?.rate, changed.setting?.by],
      [0, rate, "unknown (says eve)"],
    );
    const ifVersion = (changed.setting?.version ?? 0) + 1;
    await assert.rejects(c.setLimit("partner", { value, max: 5, ifVersion }), client.Conflict);
    assert.ok((await c.limit("partner", value)).paused);
    assert.equal((await c.unsetLimit("partner", { value })).setting, undefined);
    await assert.rejects(c.limit("nothing"), client.NotFound);
  });

  test("the tasks that wait for a limit are counted", async () => {
    const value = randomUUID();
    await c.setLimit("partner", { value, paused: true });
    const { id } = await c.submit("limited", undefined, { key: value });
    const why = await c.whyLimit("partner", value);
    assert.deepEqual([why.limit.name, why.limit.value, why.limit.paused, why.limit.used], ["partner", value, true, 0]);
    assert.deepEqual(
      why.queued.map(({ type, tasks, node }) => [type, tasks, node !== ""]),
      [["limited", 1, true]],
    );
    assert.deepEqual([why.tasks, why.nodes, why.nodesProblem, why.silent, why.nextStart], [[], [], "", [], undefined]);
    await c.unsetLimit("partner", { value });
    await c.wait(id, { timeout: PATIENCE });
    assert.deepEqual((await c.whyLimit("partner", value)).queued, []);
    await assert.rejects(c.whyLimit("nothing"), client.NotFound);
  });

  test("sources are ordered", async () => {
    const carriedOut = async () => {
      for (const end = Date.now() + PATIENCE; ; await sleep(50)) {
        const found = await c.source("orders");
        if (found.orders === 0) return found;
        assert.ok(Date.now() < end, JSON.stringify(found));
      }
    };
    assert.deepEqual(
      (await c.sources()).map((source) => source.name),
      ["orders"],
    );
    const found = await c.source("orders");
    assert.deepEqual([found.topics, found.lag, found.partitions], [["orders"], undefined, []]);
    assert.equal((await c.pauseSource("orders", "holiday")).name, "orders");
    assert.equal((await carriedOut()).paused?.reason, "holiday");
    await c.resumeSource("orders");
    assert.equal((await carriedOut()).paused, undefined);
    assert.deepEqual(await c.seekSource("orders", { time: new Date("2026-03-28T00:00:00Z"), dryRun: true }), []);
    await c.seekSource("orders", { begin: true });
    await assert.rejects(c.source("order"), client.NotFound);
    await assert.rejects(c.pauseSource("order"), client.NotFound);
    for (const wrong of [{}, { begin: true, end: true }, { offset: 1 }, { end: true, topic: "other" }]) {
      await assert.rejects(c.seekSource("orders", wrong), client.Invalid);
    }
  });

  test("schedules are managed", async () => {
    const name = `nightly-${randomUUID()}`;
    const task = { type: "report", payload: '"{{date}}"', headers: { a: "b" }, expires: 60_000 };
    const definition = { cron: "30 2 * * *", timezone: "Europe/Berlin", task };
    assert.equal(await c.applySchedule(name, definition), "created");
    assert.equal(await c.applySchedule(name, definition), "unchanged");
    const found = await c.schedule(name);
    assert.equal(found.definition?.cron, definition.cron);
    assert.deepEqual({ ...found.definition?.task }, { ...task, priority: undefined, workflow: "" });
    const times = await c.previewSchedule(name, { from: new Date("2026-03-28T00:00:00Z"), count: 2 });
    assert.deepEqual(
      times.map((time) => time.movedFrom),
      ["", "2026-03-29T02:30:00"],
    );
    assert.ok((await all(c.schedules())).some((one) => one.name === name));
    assert.equal((await c.pauseSchedule(name, "holiday")).paused?.reason, "holiday");
    assert.equal((await c.resumeSchedule(name)).paused, undefined);
    assert.match(await c.triggerSchedule(name), /^[0-9a-f-]{36}$/);
    const [from, to] = [new Date("2026-01-01T00:00:00Z"), new Date("2026-01-11T00:00:00Z")];
    assert.equal(await c.backfillSchedule(name, from, to, { dryRun: true }), 10);
    await c.deleteSchedule(name);
    await assert.rejects(c.schedule(name), client.NotFound);
    await assert.rejects(c.applySchedule(name, { crom: "30 2 * * *" } as never), client.Invalid);
  });

  test("many schedules are managed", async () => {
    const prefix = `tenant-${randomUUID()}/`;
    const definition = { cron: "30 2 29 2 *", task: { type: "report" } };
    const names = Array.from({ length: 101 }, (_, i) => prefix + String(i).padStart(3, "0"));
    const done = await c.applySchedules([
      ...names.map((name) => ({ name, definition, ifVersion: 0 })),
      { name: "wrong", definition: { ...definition, cron: "x" } },
    ]);
    assert.deepEqual({ ...done[0] }, { name: names[0], outcome: "created", version: 1, code: "", error: "" });
    assert.equal(done[101]?.code, "invalid_argument");
    const other = { name: names[0] ?? "", definition: { ...definition, cron: "30 3 29 2 *" }, ifVersion: 7 };
    assert.equal((await c.applySchedules([other]))[0]?.code, "aborted");
    const listed = async (filter = {}) => (await all(c.schedules({ prefix, ...filter }))).map(({ name }) => name);
    assert.deepEqual(await listed(), names);
    assert.equal((await c.pauseSchedules({ prefix, dryRun: true })).changed, 101);
    assert.equal((await c.pauseSchedules({ prefix: `${prefix}00`, reason: "late" })).changed, 10);
    assert.deepEqual(await listed({ paused: true }), names.slice(0, 10));
    assert.deepEqual(await listed({ failing: true }), []);
    assert.deepEqual(await c.resumeSchedules({ prefix }), { changed: 10, unchanged: 91, failed: [] });
    assert.equal((await c.deleteSchedules({ prefix })).changed, 101);
    assert.deepEqual(await listed(), []);
    await assert.rejects(c.deleteSchedules({}), client.Invalid);
  });

  test("errors have classes of their own", async () => {
    await assert.rejects(c.get(randomUUID()), client.NotFound);
    await assert.rejects(c.wait(randomUUID()), client.NotFound);
    await assert.rejects(c.get("nonsense"), client.Invalid);
    await assert.rejects(c.submit(""), client.Invalid);
    await assert.rejects(c.submit("idle", Buffer.alloc(40 << 20)), client.TooLarge);
    await assert.rejects(c.submitAll([{ type: "idle" }, { type: "idle", id: "nonsense" }]), client.Invalid);
    await assert.rejects(c.submitAll(Array.from({ length: 1001 }, () => ({ type: "idle" }))), client.Invalid);
    const { id } = await c.submit("idle");
    await assert.rejects(c.wait(id, { timeout: 100 }), client.DeadlineExceeded);
    await assert.rejects(c.reschedule(id, { at: new Date("no") }), client.Invalid);
    await assert.rejects(c.setLimit("partner", { max: -1 }), client.Invalid);
  });

  test("of many tasks those are added that can be", async () => {
    const large = { type: "idle", payload: Buffer.alloc(40 << 20) };
    const wrong = [
      { type: "idle", id: "nonsense" },
      { type: "idle", payload: 1n },
      large,
      { type: "idle", priority: 10 },
    ];
    const got = await c.submitEach([{ type: "idle" }, ...wrong, { type: "idle", key: "\ud800" }, { type: "idle" }]);
    const kinds = got.map((one) => (one instanceof ClientError ? one.name : one.outcome));
    assert.deepEqual(kinds, ["created", "Invalid", "Invalid", "TooLarge", "Invalid", "Invalid", "created"]);
    assert.deepEqual(await c.submitEach([]), []);
    assert.deepEqual(await c.submitAll([]), []);
  });

  test("a request is rejected whose key is taken", async () => {
    const strict = { type: "strict", key: randomUUID(), delay: 3_600_000 };
    const first = await c.submit("strict", undefined, strict);
    await assert.rejects(c.submit("strict", undefined, strict), client.AlreadyExists);
    const other = { type: "strict", delay: 3_600_000 };
    await assert.rejects(c.submitAll([strict, other]), (e: client.AlreadyExists) => {
      const [rejected, created] = e.receipts;
      assert.deepEqual([rejected?.id, rejected?.outcome, created?.created], [first.id, "rejected", true]);
      return e instanceof client.AlreadyExists;
    });
    const each = await c.submitEach([strict, other]);
    assert.ok(each[0] instanceof client.AlreadyExists);
    assert.ok((each[1] as client.Receipt).created);
  });

  test("a request is refused that is late", async () => {
    const late = { type: "prompt", at: Date.now() - 3_600_000 };
    await assert.rejects(c.submit("prompt", undefined, late), client.Late);
    const other = { type: "prompt", delay: 3_600_000 };
    await assert.rejects(c.submitAll([late, other]), (e: client.Late) => {
      const [refused, created] = e.receipts;
      assert.deepEqual([refused?.outcome, created?.created], ["late", true]);
      return e instanceof client.Late;
    });
    const each = await c.submitEach([late, other]);
    assert.ok(each[0] instanceof client.Late);
    assert.ok((each[1] as client.Receipt).created);
  });

  test("a full backlog is an error of its own, and what was refused is not sent again", async () => {
    const full = { type: "full", delay: 3_600_000 };
    const got = await c.submitEach([full, full, full]);
    assert.ok(got.slice(1).every((one) => one instanceof client.BacklogFull));
    await assert.rejects(c.submitAll([full]), client.BacklogFull);
    await c.cancel((got[0] as client.Receipt).id);
    assert.ok((await c.submit("full", undefined, full)).created);
    assert.deepEqual(await c.count({ types: ["full"], states: ["waiting"] }), [
      { state: "waiting", type: "full", count: 1 },
    ]);
  });

  test("an id of the caller is used once", async () => {
    const id = randomUUID();
    const { created, warning } = await c.submit("idle", undefined, { id });
    assert.ok(created);
    assert.match(warning ?? "", /no live node has a handler for type idle/);
    assert.deepEqual(await c.submit("idle", undefined, { id }), { id, created: false, outcome: "existing", warning });
    assert.equal((await c.submitAll([{ type: "idle", id }]))[0]?.warning, warning);
  });

  test("tasks of one caller are added in their order, and each gets its own receipt", async () => {
    const type = `order-${randomUUID()}`;
    const tasks = Array.from({ length: 3000 }, (_, n) => ({ type, orderingKey: "o", headers: { n: String(n) } }));
    const receipts = (await c.submitEach(tasks)) as client.Receipt[];
    const found = new Map((await all(c.tasks({ types: [type] }))).map((task) => [task.id, task]));
    assert.deepEqual(
      receipts.map((r) => found.get(r.id)?.headers["n"]),
      tasks.map((task) => task.headers.n),
    );
    const times = receipts.map((r) => found.get(r.id)?.readyAt?.getTime() ?? 0);
    assert.deepEqual(times, [...times].sort());
  });

  test("a call that is aborted ends no other", async () => {
    const abort = new AbortController();
    const reason = new Error("enough");
    const { id } = await c.submit("idle");
    const ones = Array.from({ length: 500 }, (_, i) => c.submit("idle", i, i === 7 ? { signal: abort.signal } : {}));
    const settled = Promise.allSettled(ones);
    const waiting = assert.rejects(c.wait(id, { signal: abort.signal }), (e) => e === reason);
    abort.abort(reason);
    await waiting;
    const got = await settled;
    assert.deepEqual(got[7], { status: "rejected", reason });
    assert.ok(got.every((one, i) => i === 7 || (one.status === "fulfilled" && one.value.created)));
    const aborted: CallOptions = { signal: abort.signal };
    await assert.rejects(c.submit("idle", undefined, aborted), (e) => e === reason);
    await assert.rejects(c.get(id, aborted), (e) => e === reason);
  });

  test("many calls may have the same signal", async (t) => {
    const warnings: string[] = [];
    const listen = (warning: Error) => warnings.push(warning.message);
    process.on("warning", listen);
    t.after(() => process.off("warning", listen));
    const { signal } = new AbortController();
    const receipts = await Promise.all(Array.from({ length: 100 }, () => c.submit("idle", undefined, { signal })));
    await Promise.all(receipts.map(({ id }) => c.get(id, { signal })));
    await sleep(0);
    assert.deepEqual(warnings, []);
  });

  test("what decorate returns is added", async (t) => {
    const decorating = open(t, node.address, {
      decorate: (task) => ({ ...task, type: "idle", priority: 2, headers: { by: "decorate", ...task.headers } }),
    });
    const task = { type: "none", headers: { a: "task" } };
    const { type, ...options } = task;
    const receipts = [
      await decorating.submit(type, undefined, options),
      ...(await decorating.submitEach([task])),
      ...(await decorating.submitAll([task])),
    ];
    for (const receipt of receipts) {
      const got = await c.get((receipt as client.Receipt).id);
      assert.deepEqual([got.type, got.priority, got.headers], ["idle", 2, { by: "decorate", a: "task" }]);
    }
  });

  test("a task whose decorate throws is invalid, and no other", async (t) => {
    const why = new RangeError("no tenant");
    const decorating = open(t, node.address, {
      decorate: (task) => {
        if (task.key === "bad") throw why;
        return task;
      },
    });
    const tasks = [{ type: "idle" }, { type: "idle", key: "bad" }];
    const [good, bad] = await decorating.submitEach(tasks);
    assert.ok(!(good instanceof Error));
    assert.ok(bad instanceof client.Invalid && bad.cause === why && bad.message.includes("no tenant"), String(bad));
    await assert.rejects(decorating.submit("idle", undefined, { key: "bad" }), client.Invalid);
    await assert.rejects(decorating.submitAll(tasks), client.Invalid);
    await assert.rejects(c.find("idle", "bad"), client.NotFound);
  });

  test("a closed client says so", async (t) => {
    const closed = open(t, node.address);
    const { id } = await closed.submit("idle");
    await closed.close();
    for (const call of [
      () => closed.get(id),
      () => closed.submit("idle"),
      () => closed.cancel(id),
      () => closed.wait(id),
    ]) {
      await assert.rejects(call(), client.Closed);
    }
  });

  test("a program ends once its client is closed", async () => {
    const source = `import { Client } from "./dist/client/index.js";
      const c = new Client(${JSON.stringify(node.address)});
      await c.cancel((await c.submit("idle")).id);
      await c.close();`;
    const args = ["--input-type=module", "--eval", source];
    const { stderr } = await promisify(execFile)(process.execPath, args, { timeout: PATIENCE });
    assert.equal(stderr, "");
  });
});

/** A server that only records what a node is shown. */
async function record(t: TestContext, keys?: { key: Buffer; certificate: Buffer; authority?: Buffer }) {
  const seen: unknown[] = [];
  const note = (metadata: Metadata) => seen.push(metadata.get("authorization")[0]);
  let waits = () => {};
  const waiting = new Promise<void>((resolve) => {
    waits = resolve;
  });
  const server = new Server();
  const answered = (call: { metadata: Metadata }, answer: (e: null, bytes: Buffer) => void) => {
    note(call.metadata);
    answer(null, Buffer.alloc(0));
  };
  const refuse = (call: { metadata: Metadata; emit(event: string, e: object): void }) => {
    note(call.metadata);
    call.emit("error", { code: status.UNAUTHENTICATED, details: "who are you" });
  };
  const definition = {
    Version: method("Version", false),
    Get: method("Get", false),
    Wait: method("Wait", false),
    Cancel: method("Cancel", false),
    SubmitStream: method("SubmitStream", true),
  };
  let cancels = 0;
  const lose = (_: unknown, answer: (e: object) => void) => {
    cancels++;
    answer({ code: status.UNAVAILABLE, details: "the answer is lost" });
  };
  server.addService(definition, {
    Cancel: lose as unknown as UntypedHandleCall,
    Version: answered as UntypedHandleCall,
    Get: answered as UntypedHandleCall,
    Wait: (() => waits()) as UntypedHandleCall,
    SubmitStream: refuse as unknown as UntypedHandleCall,
  });
  const credentials = keys
    ? ServerCredentials.createSsl(
        keys.authority ?? null,
        [{ private_key: keys.key, cert_chain: keys.certificate }],
        keys.authority !== undefined,
      )
    : ServerCredentials.createInsecure();
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("localhost:0", credentials, (e, bound) => (e ? reject(e) : resolve(bound)));
  });
  t.after(() => server.forceShutdown());
  return { address: `localhost:${port}`, seen, waiting, cancels: () => cancels };
}

function method(name: string, isStream: boolean) {
  const identity = (bytes: Buffer) => bytes;
  return {
    path: `/taskengine.v1.TaskService/${name}`,
    requestStream: isStream,
    responseStream: isStream,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
}

test("the token is sent with every request", async (t) => {
  const { address, seen } = await record(t);
  const c = open(t, address, { token: "secret" });
  await c.get("x");
  await assert.rejects(
    c.submit("idle"),
    (e: ClientError) => e instanceof client.NotAllowed && /who are you/.test(e.message),
  );
  assert.ok(seen.length >= 3);
  assert.deepEqual(new Set(seen), new Set(["Bearer secret"]));
});

test("a call that changes something is made once", async (t) => {
  const { address, cancels } = await record(t);
  await assert.rejects(open(t, address).cancel("x"), client.Unavailable);
  assert.equal(cancels(), 1);
});

test("close ends the calls under way", async (t) => {
  const { address, waiting } = await record(t);
  const c = open(t, address, { timeout: 10 * PATIENCE });
  const wait = assert.rejects(c.wait("x"), client.Closed);
  await waiting;
  await c.close();
  await wait;
});

function selfSigned(t: TestContext, host = "localhost"): { key: Buffer; certificate: Buffer } {
  const directory = mkdtempSync(join(tmpdir(), "te-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const arguments_ = `req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=${host} -addext subjectAltName=DNS:${host}`;
  const files = ["-keyout", "key.pem", "-out", "certificate.pem"];
  execFileSync("openssl", [...arguments_.split(" "), ...files], { cwd: directory, stdio: "ignore" });
  return {
    key: readFileSync(join(directory, "key.pem")),
    certificate: readFileSync(join(directory, "certificate.pem")),
  };
}

/** Waits until the errors of a client have a reason: a call may end before the handshake has. */
async function says(c: client.Client, reason: RegExp): Promise<void> {
  for (const end = performance.now() + PATIENCE; ; ) {
    const error: unknown = await c.get("x", { timeout: 1000 }).catch((e: unknown) => e);
    assert.ok(error instanceof client.Unavailable, String(error));
    if (reason.test(error.message)) return;
    assert.ok(performance.now() < end, error.message);
  }
}

test("https trusts the certificates that are given and no other", async (t) => {
  const { key, certificate } = selfSigned(t);
  const { address } = await record(t, { key, certificate });
  for (const at of [`https://${address}`, address]) {
    assert.equal((await open(t, at, { ca: certificate }).get("x")).id, "");
  }
  await says(open(t, `https://${address}`), /self-signed certificate/);
});

test("an expired certificate is called that", async (t) => {
  const read = (name: string) => readFileSync(new URL(`../../expired/${name}.pem`, import.meta.url));
  const { address } = await record(t, { key: read("key"), certificate: read("certificate") });
  await says(open(t, address, { ca: read("authority") }), /expired/);
});

test("the reason why a certificate is not good is in the error", async (t) => {
  const { key, certificate } = selfSigned(t, "elsewhere");
  const { address } = await record(t, { key, certificate });
  await says(open(t, address, { ca: certificate }), /does not match certificate's altnames/);
});

test("a client shows its certificate", async (t) => {
  const { key, certificate } = selfSigned(t);
  const { address } = await record(t, { key, certificate, authority: certificate });
  const c = open(t, address, { ca: certificate.toString(), cert: certificate, key: key.toString() });
  assert.equal((await c.get("x")).id, "");
  await assert.rejects(open(t, address, { ca: certificate }).get("x", { timeout: 1000 }), client.Unavailable);
});

test("with options of TLS nothing is sent in clear", async (t) => {
  const { certificate } = selfSigned(t);
  let take = (_: Buffer) => {};
  const seen = new Promise<Buffer>((resolve) => {
    take = resolve;
  });
  const server = createServer((socket) => {
    socket
      .on("error", () => {})
      .once("data", (bytes) => {
        take(bytes);
        socket.destroy();
      });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const c = open(t, address, { ca: certificate, token: "secret" });
  await assert.rejects(c.get("x", { timeout: 500 }), ClientError);
  assert.equal((await seen)[0], 0x16); // the first byte of a handshake
  for (const bad of [{ ca: "no PEM" }, { cert: certificate }, { key: certificate }]) {
    assert.throws(() => new Client(address, bad), client.Invalid);
  }
  assert.throws(() => new Client("http://a:1", { ca: certificate }), client.Invalid);
});

test("white space around a token is not sent", async (t) => {
  const { address, seen } = await record(t);
  await open(t, address, { token: " secret\r\n" }).get("x");
  assert.deepEqual(new Set(seen), new Set(["Bearer secret"]));
});

test("a token that cannot be sent is refused and not shown", () => {
  for (const bad of [
    " \n",
    "te_secr\net",
    "te_secr et",
    "te_secr\u00e9t",
    "te_secr\u0000et",
    Buffer.from("te_secret"),
  ]) {
    assert.throws(
      () => new Client("127.0.0.1:1", { token: bad as string }),
      (e: ClientError) => e instanceof client.Invalid && e.message.includes("token") && !e.stack?.includes("secr"),
    );
  }
});

test("the environment has addresses and the token", async (t) => {
  const { address, seen } = await record(t);
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  Object.assign(process.env, { TASKENGINE_ADDRESS: `127.0.0.1:1, ${address}`, TASKENGINE_TOKEN: "secret\n" });
  Object.assign(process.env, { http_proxy: "http://127.0.0.1:1", grpc_proxy: "http://127.0.0.1:1" });
  const c = new Client();
  t.after(() => c.close());
  const task = await c.get("x");
  assert.deepEqual(new Set(seen), new Set(["Bearer secret"]));
  assert.equal(JSON.parse(JSON.stringify(task)).version, 0);
  delete process.env["TASKENGINE_ADDRESS"];
  assert.throws(() => new Client(), /TASKENGINE_ADDRESS/);
});

test("a filter that is a text is refused", async (t) => {
  const c = open(t, "127.0.0.1:1");
  await assert.rejects(c.count({ types: "idle" as unknown as string[] }), client.Invalid);
  await assert.rejects(c.tasks({ states: "error" as unknown as string[] }).next(), client.Invalid);
});

test("an address that is none is invalid", () => {
  for (const bad of [
    [],
    "",
    ":80",
    "unix:",
    "http://a/b",
    "ftp://a:1",
    "http://u@a:1",
    "a b:1",
    "http://a:x",
    5,
    [5],
  ]) {
    assert.throws(() => new Client(bad as string), client.Invalid, JSON.stringify(bad));
  }
});

test("a call that ends after the client was closed has no node probed", async () => {
  const [node] = new Nodes("127.0.0.1:1", {}).all;
  assert.ok(node);
  node.close();
  node.suspect();
  assert.equal(await node.isAlive(PATIENCE), false);
});

test("without a node a call says so when its time is over", async (t) => {
  const c = open(t, ["127.0.0.1:1", "unix:/nowhere"], { timeout: 2_000 });
  for (const call of [
    () => c.get("x"),
    () => c.cancel("x"),
    () => c.submit("idle"),
    () => c.wait("x", { timeout: 2_000 }),
  ]) {
    await assert.rejects(call(), (e: ClientError) => {
      assert.match(e.message, /no node answers at 127.0.0.1:1 \(.*ECONNREFUSED.*\), unix:\/nowhere \(.*ENOENT.*\)/);
      return e instanceof client.Unavailable;
    });
  }
});
