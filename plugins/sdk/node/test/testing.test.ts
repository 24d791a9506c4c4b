// The test kit, with a real node.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, type TestContext, test } from "node:test";
import { Again, steps, type Task } from "../dist/index.js";
import { TestEngine, type TestEngineOptions } from "../dist/testing.js";
import { skip } from "./node.js";

const NEW_YEAR = new Date("2030-01-01T00:00:00Z");
const HOUR = 3_600_000;

async function start(t: TestContext, options: TestEngineOptions): Promise<TestEngine> {
  const engine = await TestEngine.start({ now: NEW_YEAR, ...options });
  t.after(() => engine.close());
  return engine;
}

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

suite("the test kit", { skip }, () => {
  test("does what is due at its time", async (t) => {
    const engine = await start(t, {
      types: { mail: { retry: { backoff: { fixed: ["1h", "2h"], jitter: 0 }, max: 3 } }, tick: {} },
    });
    const calls: string[] = [];
    await engine.handle({
      mail: (task) => {
        calls.push(`mail ${task.attempt} ${task.text()}`);
        if (task.attempt < 3) throw new Error("no");
        return { sent: true };
      },
      tick: () => {
        calls.push("tick");
        return new Again(new Date(NEW_YEAR.getTime() + calls.length * HOUR));
      },
    });
    await engine.client.submit("mail", { to: "a" });
    await engine.advance();
    assert.deepEqual(calls, ['mail 1 {"to":"a"}']);
    assert.equal((await engine.only("mail")).state, "waiting");
    await engine.advance("59m");
    assert.equal(calls.length, 1);
    await engine.advance("1m");
    assert.equal(calls.length, 2);
    await engine.advance("2h");
    const task = await engine.only("mail");
    assert.deepEqual([task.state, task.attempt, text(task.result)], ["done", 3, '{"sent":true}']);
    assert.equal(engine.now.getTime(), NEW_YEAR.getTime() + 3 * HOUR);
    await engine.client.submit("tick", undefined, { at: new Date(NEW_YEAR.getTime() + 3.5 * HOUR) });
    await engine.advance("1h");
    assert.deepEqual(calls.slice(3), ["tick", "tick"]);
  });

  test("has steps sleep and wait by the time of the node", async (t) => {
    const engine = await start(t, { types: { order: {} } });
    const ran: string[] = [];
    await engine.handle({
      order: steps({ version: 1 }, async (task) => {
        await task.step("charge", () => ran.push("charge"));
        await task.sleep(HOUR);
        await task.step("ask", () => ran.push("ask"));
        const woken = await task.waitFor("paid", { timeout: 2 * HOUR });
        return task.step("ship", () => woken.by);
      }),
    });
    await engine.client.submit("order");
    await engine.advance("59m");
    assert.deepEqual(ran, ["charge"]);
    await engine.advance("1m");
    assert.deepEqual(ran, ["charge", "ask"]);
    await engine.advance("119m");
    assert.equal((await engine.only("order")).state, "waiting");
    await engine.advance("1m");
    const { state, result } = await engine.only("order");
    assert.deepEqual([ran, state, text(result)], [["charge", "ask"], "done", "timeout"]);
  });

  test("keeps tasks of types without a handler", async (t) => {
    const engine = await start(t, { types: { mail: {}, page: {} } });
    for (const [type, payload] of [
      ["mail", 1],
      ["page", 2],
      ["mail", 3],
    ] as const)
      await engine.client.submit(type, payload);
    assert.deepEqual(
      (await engine.tasks("mail")).map(({ payload }) => text(payload)),
      ["1", "3"],
    );
    assert.equal((await engine.tasks()).length, 3);
    await assert.rejects(engine.only("mail"), /there are 2 tasks of the type mail/);
  });

  test("has the types and schedules of a configuration", async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "te-"));
    t.after(() => rm(folder, { recursive: true }));
    const config = join(folder, "taskengine.yaml");
    await writeFile(
      config,
      "storage: {driver: postgres, url: 'postgres://nowhere/'}\nhandlers: {h: {plugin: [no-such-program]}}\n" +
        "types: {report: {handler: h}}\nschedules: {nightly: {cron: '0 3 * * *', type: report}}\n",
    );
    const engine = await start(t, { config });
    const ran: string[] = [];
    await engine.handle({ report: async ({ id }) => void ran.push(id) });
    await engine.advance("72h");
    assert.equal(ran.length, 3);
  });

  test("stands still while a handler runs", async (t) => {
    const engine = await start(t, { types: { slow: { timeout: { run: "1h" }, retry: { max: 1 } } } });
    let begun: (task: Task) => void;
    const running = new Promise<Task>((resolve) => (begun = resolve));
    const slow = (task: Task) => {
      begun(task);
      return new Promise((_, reject) => task.signal.addEventListener("abort", () => reject(task.signal.reason)));
    };
    await engine.handle({ slow });
    await engine.client.submit("slow");
    await running;
    await assert.rejects(engine.advance("1m", { patience: 50 }), /1 tasks run/);
    await engine.advance("1h", { whileRunning: true });
    assert.equal((await engine.only("slow")).state, "error");
  });

  test("says what cannot be", async (t) => {
    await assert.rejects(TestEngine.start({}), /either types or config/);
    await assert.rejects(TestEngine.start({ types: { mail: { retri: 1 } } }), /has ended with 3/);
    await assert.rejects(TestEngine.start({ types: {}, program: "/no/such/program" }), /ENOENT/);
    const engine = await start(t, { types: { mail: {} } });
    await assert.rejects(engine.advance("soon"), /no duration/);
  });
});
