import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { inspect } from "node:util";
import { Again, Cancelled, NotStored, Permanent, RetryIn, Snooze } from "../dist/answers.js";
import { newRun, turn } from "./fakes.js";

const ID = "00010203-0405-0607-0809-0a0b0c0d0e0f";
const taskId = Buffer.from(ID.replaceAll("-", ""), "hex");

suite("a task", () => {
  test("has the fields of its run", () => {
    const headers = { traceparent: "00-1", other: "x" };
    const wire = { taskId, version: 2n ** 64n - 1n, type: "t", attempt: 3, crashes: 2, priority: 9, key: "käy" };
    const { run } = newRun({ ...wire, orderingKey: "order", headers, timeLeft: 3_600_000_000n });
    assert.equal(run.id, ID);
    assert.equal(run.version, 2n ** 64n - 1n);
    assert.deepEqual([run.type, run.attempt, run.crashes, run.priority], ["t", 3, 2, 9]);
    assert.deepEqual([run.key, run.orderingKey, run.headers], ["käy", "order", headers]);
    assert.equal(run.traceparent, "00-1");
    const left = run.timeLeft ?? 0;
    assert.ok(left > 3_500_000 && left <= 3_600_000, `${left} ms are left`);
    assert.ok(Math.abs((run.deadline ?? 0) - Date.now() - left) < 100_000);
    assert.match(inspect(run), new RegExp(ID));
  });

  test("has no deadline and no trace context unless it is given them", () => {
    const { run } = newRun();
    assert.deepEqual(
      [run.deadline, run.timeLeft, run.traceparent, run.checkpoint.length],
      [undefined, undefined, undefined, 0],
    );
  });

  test("owns the memory of its payload", () => {
    const frame = Buffer.from("before payload after");
    const { run } = newRun({ payload: frame.subarray(7, 14) });
    structuredClone(run.payload, { transfer: [run.payload.buffer as ArrayBuffer] });
    assert.equal(frame.toString(), "before payload after");
    assert.equal(run.text(), "payload");
  });

  test("whose payload is no UTF-8, no JSON or not the right JSON fails for good", () => {
    const isBad = (error: unknown) => error instanceof Permanent && error.class === "bad_payload";
    for (const payload of ["ff", "7b", ""]) {
      const { run } = newRun({ payload: Buffer.from(payload, "hex") });
      assert.throws(() => run.json(), isBad, payload);
    }
    assert.throws(() => newRun({ payload: Buffer.from([0xff]) }).run.text(), isBad);
    const { run } = newRun({ payload: Buffer.from('{"a": 1}') });
    const refuse = () => {
      throw new TypeError("a must be a text");
    };
    assert.throws(() => run.json(refuse), isBad);
    assert.throws(() => run.json(refuse), /a must be a text/);
  });

  test("gives its JSON the type that parse makes of it", () => {
    const { run } = newRun({ payload: Buffer.from('{"a": 1}') });
    const a: number = run.json<{ a: number }>().a;
    const text: string = run.json((value) => JSON.stringify(value));
    assert.deepEqual([a, text], [1, '{"a":1}']);
  });
});

suite("a signal", () => {
  const why = new Cancelled("deadline", "too long");

  test("aborts with the reason, whether the signal was read before or not", () => {
    for (const lookBefore of [true, false]) {
      const { run } = newRun();
      if (lookBefore) assert.equal(run.signal.aborted, false);
      run.cancel(why);
      run.cancel(new Cancelled("host gone", "gone"));
      assert.equal(run.signal.reason, why);
      assert.throws(() => run.signal.throwIfAborted(), why);
    }
  });
});

suite("what a task says while it runs", () => {
  test("is not sent to a host that lacks the feature", async () => {
    const { run, frames } = newRun();
    run.progress(1, 2);
    run.saveCheckpoint("so far");
    await turn();
    assert.deepEqual(frames, []);
  });

  test("is not sent once it has its answer", async () => {
    const { run, frames } = newRun({}, ["progress", "checkpoint"]);
    run.over = true;
    run.progress(1, 2);
    await assert.rejects(run.saveCheckpoint("so far"), NotStored);
    await turn();
    assert.deepEqual(frames, []);
  });

  test("is sent to a host with the features", async () => {
    const { run, frames } = newRun({ runId: 5n }, ["progress", "checkpoint"]);
    const bytes = Buffer.from("so far");
    run.progress(1, 2, "half");
    run.saveCheckpoint(bytes);
    bytes.fill(0); // the handler's own, to be used again
    await turn();
    assert.equal(frames.length, 1);
    const { progress, checkpoints } = frames[0] ?? assert.fail();
    assert.deepEqual(
      progress.map((p) => [p.runId, p.done, p.total, p.message]),
      [[5n, 1n, 2n, "half"]],
    );
    assert.deepEqual(
      checkpoints.map((c) => [c.runId, Buffer.from(c.data).toString()]),
      [[5n, "so far"]],
    );
  });

  test("is an error if no host could keep it, and the newest if there is more than one", async () => {
    const { run, frames } = newRun({}, ["checkpoint"]);
    assert.throws(() => run.saveCheckpoint("x".repeat((1 << 20) + 1)), RangeError);
    for (let page = 0; page < 10; page++) run.saveCheckpoint({ page });
    await turn();
    run.saveCheckpoint("after");
    await turn();
    const kept = frames.map((frame) => frame.checkpoints.map((c) => Buffer.from(c.data).toString()));
    assert.deepEqual(kept, [['{"page":9}'], ["after"]]);
  });

  test("goes to the log with its level and fields", async () => {
    const { run, frames } = newRun({ runId: 5n });
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    run.log.debug("a");
    run.log.info("b", { text: "x", number: 1, none: undefined, big: 2n, object: { a: [1] }, circle });
    run.log.warn("c", { error: new RangeError("too far") });
    run.log.error("ü".repeat(10_000));
    await turn();
    const lines = frames.flatMap((frame) => frame.logs);
    assert.deepEqual(
      lines.map((line) => [line.runId, line.level]),
      [-4, 0, 4, 8].map((level) => [5n, level]),
    );
    const { text, number, none, big, object, circle: cut } = lines[1]?.fields ?? assert.fail();
    assert.deepEqual([text, number, none, big, object], ["x", "1", "undefined", "2n", '{"a":[1]}']);
    assert.match(cut ?? "", /Circular/);
    assert.match(lines[2]?.fields["error"] ?? "", /^RangeError: too far\n.*task\.test/s);
    assert.equal(lines[3]?.message, "ü".repeat(4096));
  });
});

test("progress beyond what 64 bits hold is an error of the task, and not the stream's", () => {
  const { run } = newRun({}, ["progress"]);
  for (const n of [2 ** 64, Number.POSITIVE_INFINITY, Number.NaN]) {
    assert.throws(() => run.progress(n), RangeError);
    assert.throws(() => run.progress(0, n), RangeError);
  }
  run.progress(-1.5, 2 ** 63);
});

suite("children", () => {
  test("are what the handler asked for", () => {
    const { run } = newRun();
    const payload = Buffer.from("one");
    run.spawn({ type: "a", payload });
    payload.write("two");
    run.spawn({ type: "b", key: "k", orderingKey: "o", payload, headers: { h: "v" }, runAt: new Date(5), priority: 0 });
    const [first, second] = run.added;
    assert.deepEqual([first?.type, Buffer.from(first?.payload ?? []).toString()], ["a", "one"]);
    assert.deepEqual([first?.runAt, first?.priority], [0n, undefined]);
    assert.deepEqual([second?.key, second?.orderingKey, second?.headers], ["k", "o", { h: "v" }]);
    assert.deepEqual([second?.runAt, second?.priority], [5000n, 0]);
  });

  test("that no host could take are errors at once", () => {
    const { run } = newRun();
    const wrong = { key: 5 } as unknown as { key: string };
    assert.throws(() => run.spawn({ type: "" }), TypeError);
    assert.throws(() => run.spawn({ type: "a", ...wrong }), TypeError);
    assert.throws(() => run.spawn({ type: "a", headers: wrong }), TypeError);
    assert.throws(() => run.spawn({ type: "a", payload: () => 1 }), Permanent);
    assert.throws(() => run.spawn({ type: "a", priority: 10 }), RangeError);
    assert.throws(() => run.spawn({ type: "a", runAt: new Date("never") }), RangeError);
    assert.deepEqual(run.added, []);
  });

  test("that come too late to be sent are errors, not lost", () => {
    const { run } = newRun();
    run.over = true;
    assert.throws(() => run.spawn({ type: "a" }), /has its answer already/);
  });
});

test("delays and times must be numbers", () => {
  for (const n of [Number.NaN, Number.POSITIVE_INFINITY]) {
    assert.throws(() => new Snooze(n), RangeError);
    assert.throws(() => new RetryIn(n, "no"), RangeError);
    assert.throws(() => new Again(n), RangeError);
  }
  assert.throws(() => new Again(new Date("never")), RangeError);
});
