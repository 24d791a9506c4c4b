// Real handler processes, seen by a host of a few lines.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Cancel_Reason, type Error as ErrorMessage, type Finish } from "../dist/gen/handler_pb.js";
import { Host, Program } from "./host.js";

const ALL = { features: ["progress", "checkpoint", "children"] };

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}

function resultOf(outcome: Finish["outcome"]): string {
  if (outcome.case === "error") assert.fail(outcome.value.message);
  assert.equal(outcome.case, "result");
  return text(outcome.value);
}

function errorOf(outcome: Finish["outcome"]): ErrorMessage {
  assert.equal(outcome.case, "error");
  return outcome.value;
}

suite("a program", { timeout: 600_000 }, () => {
  test("started by a person explains itself", async (t) => {
    const program = await Program.start(t, { env: { TASKENGINE_HANDLER: "" } });
    assert.equal(await program.exited, 1);
    assert.equal(program.stdout, "");
    assert.match(program.stderr, /set TASKENGINE_ADDRESS to the address of a node/);
  });

  test("that speaks another protocol than its host says so", async (t) => {
    const program = await Program.start(t, { env: { PLUGIN_PROTOCOL_VERSIONS: "2,3" } });
    assert.equal(await program.exited, 1);
    assert.match(program.stderr, /speaks version 1 .* the host "2,3"/);
  });

  test("without handlers, or with what is none, says what it should be", async (t) => {
    for (const handlers of ["{}", '{ "": () => 1 }', '{ a: "b" }', "{ a: () => 1 }, { slots: 0 }"]) {
      const program = await Program.start(t, {
        source: `import { serve } from "taskengine-handler"; await serve(${handlers});`,
      });
      assert.equal(await program.exited, 1, handlers);
      assert.match(program.stderr, /^taskengine: [^\n]+\n$/, handlers);
    }
  });

  test("shakes hands, says hello and answers pings", async (t) => {
    const [host, program] = await Host.of(t, { slots: 3 });
    assert.match(program.stdout, /^1\|1\|unix\|[^|]+\|grpc\|\n$/);
    const [first] = host.frames;
    assert.deepEqual([first?.hello?.protocol, first?.hello?.sdk, first?.hello?.version], [1, "node", "conformance"]);
    assert.deepEqual([first?.hello?.slots, first?.credits], [3, 3]);
    assert.equal(first?.hello?.types.length, 31);
    host.run({ type: "hang" });
    host.send({ ping: 2n ** 64n - 1n });
    await host.until(() => host.frames.find((frame) => frame.pong === 2n ** 64n - 1n));
  });

  test("has the slots it wants if the host leaves them to it", async (t) => {
    const source = 'import { serve } from "taskengine-handler"; await serve({ a: () => 1 }, { slots: 7 });';
    const [host] = await Host.of(t, { slots: 0 }, source);
    assert.deepEqual([host.frames[0]?.hello?.slots, host.frames[0]?.credits], [7, 7]);
    const large = `import { batch, serve } from "taskengine-handler"; await serve({ a: batch({ size: 100, wait: 1 }, () => []) });`;
    const [other] = await Host.of(t, { slots: 0 }, large);
    assert.equal(other.frames[0]?.hello?.slots, 100);
  });

  test("refuses what it does not serve and what it has no slot for", async (t) => {
    const [host] = await Host.of(t, { slots: 2 });
    const [, , third] = host.run({ type: "hang" }, { type: "hang" }, { type: "hang" }) as [bigint, bigint, bigint];
    const full = (await host.finish(third)).outcome;
    assert.match(full.case === "refused" ? full.value.message : "", /runs 2 tasks already/);
    const unknown = await host.answer("constructor");
    assert.match(unknown.case === "refused" ? unknown.value.message : "", /does not serve the type "constructor"/);
  });

  test("takes no second stream", async (t) => {
    const [, program] = await Host.of(t);
    const second = new Host(program.stdout.split("|")[3] ?? "");
    second.send({ welcome: { protocol: 1 } });
    assert.equal(await second.ended, 9); // FAILED_PRECONDITION
    second.close();
  });

  test("ends when the host speaks another protocol", async (t) => {
    const program = await Program.start(t);
    const host = new Host((await program.handshake()).split("|")[3] ?? "");
    host.send({ welcome: { protocol: 2 } });
    assert.equal(await host.ended, 9);
    host.close();
    assert.equal(await program.exited, 0);
  });

  test("ends when the host ends the stream", async (t) => {
    const [host, program] = await Host.of(t);
    assert.equal(await host.end(), 0);
    assert.equal(await program.exited, 0);
    assert.equal(program.stderr, "");
  });

  test("ends when the host is gone, though a task hangs", async (t) => {
    const [host, program] = await Host.of(t);
    host.run({ type: "hang" });
    host.send({ ping: 1n });
    await host.until(() => host.frames.find((frame) => frame.pong));
    host.close();
    assert.equal(await program.exited, 0);
  });

  test("may clean up after it has served, and not for ever", async (t) => {
    const source = `import { serve } from "taskengine-handler";
      setInterval(() => {}, 1000);
      await serve({ wait: ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => {
        console.log(String(signal.reason.reason));
        resolve();
      })) });
      console.log("cleaned up");`;
    const [host, program] = await Host.of(t, {}, source);
    host.run({ type: "wait" });
    host.send({ ping: 1n });
    await host.until(() => host.frames.find((frame) => frame.pong));
    await host.end();
    assert.equal(await program.exited, 0);
    assert.equal(program.stderr, "host gone\ncleaned up\n");
  });

  test("prints to the log and never into the handshake", async (t) => {
    const [host, program] = await Host.of(t);
    await host.answer("print", "hello");
    await host.end();
    await program.exited;
    assert.match(program.stdout, /^[^\n]+\n$/);
    assert.equal(program.stderr, "hello\nhello\n");
  });

  test("dies with the status that a task gives it", async (t) => {
    const [host, program] = await Host.of(t);
    host.run({ type: "exit", payload: Buffer.from("3") });
    assert.equal(await program.exited, 3);
  });

  test("goes on answering pings while many tasks compute", async (t) => {
    const source = `import { serve } from "taskengine-handler";
      await serve({ compute: () => { const end = performance.now() + 5; while (performance.now() < end); } });`;
    const [host] = await Host.of(t, { slots: 200 }, source);
    host.run(...Array.from({ length: 200 }, () => ({ type: "compute" })));
    host.send({ ping: 1n });
    await host.until(() => host.frames.find((frame) => frame.pong));
    assert.ok(host.all("finishes").length < 200, "the ping waited for every task");
  });
});

suite("a handler", { timeout: 600_000 }, () => {
  test("sees its task and answers with bytes, JSON, or the wish to be called again", async (t) => {
    const [host] = await Host.of(t);
    const bytes = Uint8Array.of(0, 1, 0xff);
    const echo = await host.answer({ type: "echo", payload: bytes });
    assert.deepEqual([...(echo.value as Uint8Array)], [...bytes]);
    assert.equal(resultOf(await host.answer("json", '{"a":1,"b":2}')), '{"sum":3}');
    const run = { type: "describe", taskId: Buffer.alloc(16, 0xfe), version: 5n, timeLeft: 3_600_000_000n };
    const seen = JSON.parse(resultOf(await host.answer({ ...run, checkpoint: Buffer.from("so far") })));
    assert.equal(seen.id, "fefefefe-fefe-fefe-fefe-fefefefefefe");
    assert.deepEqual([seen.version, seen.checkpoint], [5, "c28gZmFy"]);
    assert.ok(
      seen.time_left_us > 3_000_000_000 && seen.time_left_us <= 3_600_000_000,
      `${seen.time_left_us} us are left`,
    );
    const snooze = await host.answer("snooze", '{"delay_ms":2500}');
    assert.equal(snooze.case === "snooze" && snooze.value.delay, 2_500_000n);
    const again = await host.answer("again", '{"at_ms":1900000000123,"result":"so far"}');
    assert.ok(again.case === "again");
    assert.deepEqual([again.value.at, text(again.value.result)], [1_900_000_000_123_000n, "so far"]);
  });

  test("fails as it says", async (t) => {
    const [host] = await Host.of(t);
    const permanent = errorOf(await host.answer("error", '{"message":"no","class":"funds","permanent":true}'));
    assert.deepEqual([permanent.message, permanent.class, permanent.permanent], ["no", "funds", true]);
    const retry = errorOf(await host.answer("error", '{"message":"no","class":"funds","retry_delay_ms":0}'));
    assert.deepEqual([retry.class, retry.permanent, retry.retryDelay], ["funds", false, 0n]);
    const thrown = errorOf(await host.answer("throw", "boom"));
    assert.match(thrown.message, /^boom\n\s+at throw/);
    assert.deepEqual([thrown.class, thrown.permanent, thrown.retryDelay], ["Error", false, undefined]);
    assert.equal(errorOf(await host.answer("json", "{")).class, "bad_payload");
  });

  test("learns of its cancellation, and answers", async (t) => {
    const [host] = await Host.of(t);
    const [runId] = host.run({ type: "wait" }) as [bigint];
    host.send({ ping: 1n });
    await host.until(() => host.frames.find((frame) => frame.pong));
    host.send({ cancels: [{ runId, reason: Cancel_Reason.DEADLINE, message: "too long" }, { runId: 99n }] });
    const { class: errorClass, message } = errorOf((await host.finish(runId)).outcome);
    assert.deepEqual([errorClass, message], ["cancelled", "cancelled: too long"]);
  });

  test("is not called if its task is cancelled before", async (t) => {
    const source = `import { batch, serve } from "taskengine-handler";
      await serve({ never: batch({ size: 10, wait: 3_600_000 }, () => console.log("called") ?? []) });`;
    const [host, program] = await Host.of(t, {}, source);
    const [runId] = host.run({ type: "never" }) as [bigint];
    host.send({ cancels: [{ runId, reason: Cancel_Reason.CANCELLED }] });
    assert.equal(errorOf((await host.finish(runId)).outcome).class, "cancelled");
    await host.end();
    await program.exited;
    assert.equal(program.stderr, "");
  });

  test("says how far it is, keeps checkpoints and logs before its answer arrives", async (t) => {
    const [host] = await Host.of(t, ALL);
    await host.answer("progress", '{"done":1,"total":2,"message":"half"}');
    const [progress] = host.all("progress");
    assert.deepEqual([progress?.done, progress?.total, progress?.message], [1n, 2n, "half"]);
    const kept = errorOf(await host.answer("checkpoint", "so far"));
    assert.deepEqual([kept.class, kept.permanent], ["Error", false]);
    assert.equal(text(host.all("checkpoints")[0]?.data ?? new Uint8Array()), "so far");
    await host.answer("log", '{"level":"warn","message":"low","fields":{"left":"5"}}');
    const [line] = host.all("logs");
    assert.deepEqual([line?.runId, line?.level, line?.message, line?.fields], [3n, 4, "low", { left: "5" }]);
  });

  test("has its last progress sent before its answer, however often it tells", async (t) => {
    const source = `import { serve } from "taskengine-handler";
      await serve({ count: (task) => { for (let n = 1; n <= 1000; n++) task.progress(n, 1000); } });`;
    const [host] = await Host.of(t, ALL, source);
    await host.answer("count");
    assert.deepEqual(
      host.all("progress").map((progress) => progress.done),
      [1n, 1000n],
    );
  });

  test("adds children, if the host takes them", async (t) => {
    const child = '{"type":"a","key":"k","payload":"p"}';
    const [host] = await Host.of(t, ALL);
    assert.equal(resultOf(await host.answer("children", child)), "spawned");
    const [parent] = host.all("finishes");
    assert.deepEqual([parent?.children[0]?.type, parent?.children[0]?.key], ["a", "k"]);
    const [without] = await Host.of(t);
    const { class: errorClass, permanent } = errorOf(await without.answer("children", child));
    assert.deepEqual([errorClass, permanent], ["unsupported", true]);
  });

  test("of batches gets tasks together, and answers each", async (t) => {
    const [host] = await Host.of(t);
    const payloads = ["fail", ...Array.from({ length: 11 }, () => "")];
    const ids = host.run(...payloads.map((payload) => ({ type: "batch", payload: Buffer.from(payload) })));
    const [first, ...others] = await Promise.all(ids.map(async (id) => (await host.finish(id)).outcome));
    assert.match(errorOf(first as Finish["outcome"]).message, /^asked to/);
    assert.deepEqual(others.map(resultOf), [...Array(9).fill("10"), "2", "2"]);
  });

  test("of batches that throws or answers too little fails all, each to be tried again", async (t) => {
    const source = `import { batch, Permanent, serve } from "taskengine-handler";
      await serve({
        throws: batch({ size: 2, wait: 3_600_000 }, async () => { throw new Permanent("no", { class: "funds" }); }),
        short: batch({ size: 2, wait: 3_600_000 }, () => [1]),
      });`;
    const [host] = await Host.of(t, {}, source);
    for (const [type, errorClass] of [
      ["throws", "funds"],
      ["short", "TypeError"],
    ] as const) {
      for (const id of host.run({ type }, { type })) {
        const error = errorOf((await host.finish(id)).outcome);
        assert.deepEqual([error.class, error.permanent], [errorClass, false]);
      }
    }
  });

  test("of batches waits for no more than there are slots, or will come", async (t) => {
    const source = `import { batch, serve } from "taskengine-handler";
      const many = batch({ size: 10, wait: 3_600_000 }, (tasks) => tasks.map(() => tasks.length));
      await serve({ many, others: many });`;
    const [host] = await Host.of(t, { slots: 2 }, source);
    const [first] = host.run({ type: "many" }, { type: "many" }) as [bigint];
    assert.equal(resultOf((await host.finish(first)).outcome), "2");
    for (const runId of host.run({ type: "many" }, { type: "others" })) {
      assert.equal(resultOf((await host.finish(runId)).outcome), "1");
    }
    const [last] = host.run({ type: "many" }) as [bigint];
    host.send({ drain: {} });
    assert.equal(resultOf((await host.finish(last)).outcome), "1");
  });

  test("gets and gives megabytes, up to what the host takes", async (t) => {
    const [host] = await Host.of(t, { maxResultBytes: 8n << 20n });
    const size = 5 << 20;
    const [big, echo, tooBig] = host.run(
      { type: "big", payload: Buffer.from(String(size)) },
      { type: "echo", payload: Buffer.alloc(size) },
      { type: "big", payload: Buffer.from(String(9 << 20)) },
    ) as [bigint, bigint, bigint];
    assert.equal(resultOf((await host.finish(big)).outcome).length, size);
    assert.equal(resultOf((await host.finish(echo)).outcome).length, size);
    assert.equal(errorOf((await host.finish(tooBig)).outcome).class, "result_too_large");
  });

  test("each of many gets its own answer", async (t) => {
    const [host] = await Host.of(t, { slots: 2000 });
    const ids = host.run(
      ...Array.from({ length: 2000 }, (_, n) => ({ type: "echo", payload: Buffer.from(`task ${n}`) })),
    );
    const answers = await Promise.all(ids.map(async (id) => resultOf((await host.finish(id)).outcome)));
    assert.deepEqual(
      answers,
      Array.from({ length: 2000 }, (_, n) => `task ${n}`),
    );
  });
});
