import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { fail, succeed } from "../dist/finish.js";
import {
  ChildSetSchema,
  type Finish,
  type RunSchema,
  StoredSchema,
  Woken_By,
  WokenSchema,
} from "../dist/gen/handler_pb.js";
import {
  Again,
  Cancelled,
  Ended,
  InDoubt,
  NotStored,
  Permanent,
  Retry,
  RetryIn,
  Snooze,
  StepError,
  type StepOptions,
  type StepTask,
  steps,
  WaitFor,
} from "../dist/index.js";
import type { Run } from "../dist/run.js";
import { newRun, turn } from "./fakes.js";
import { Host } from "./host.js";

const FEATURES = ["checkpoint", "children", "ended", "family", "progress", "rerun", "signals", "wait"];
const ID = Uint8Array.from({ length: 16 }, (_, n) => n);
const HOUR = 3_600_000;

type Wire = MessageInitShape<typeof RunSchema>;

interface End {
  finish: Finish["outcome"];
  children: Finish["children"];
  /** The checkpoints that the host has stored. */
  stored: string[];
}

interface Attempt {
  checkpoint?: string | Uint8Array;
  woken?: MessageInitShape<typeof WokenSchema>;
  options?: StepOptions;
  features?: string[];
  /** Why the host stores no checkpoint. */
  fault?: string;
  before?: (run: Run) => void;
  wire?: Wire;
}

/** Calls a handler in steps once. Its host stores checkpoints at once. */
async function attempt(handle: (task: StepTask) => unknown, given: Attempt = {}): Promise<End> {
  const { checkpoint = "", woken, options = { version: 1 }, features = FEATURES, fault = "", before, wire } = given;
  const init: Wire = {
    runId: 1n,
    taskId: ID,
    type: "order",
    checkpoint: new Uint8Array(Buffer.from(checkpoint)),
    ...wire,
    ...(woken && { woken: create(WokenSchema, woken) }),
  };
  const { run, frames } = newRun(init, features);
  before?.(run);
  const stored: string[] = [];
  let over = false;
  const host = (async () => {
    for (let seen = 0; !over; await turn()) {
      for (const frame of frames.slice(seen)) {
        for (const { runId, number, data } of frame.checkpoints) {
          if (!fault) stored.push(Buffer.from(data).toString());
          run.stored(create(StoredSchema, { runId, number, error: fault }));
        }
      }
      seen = frames.length;
    }
  })();
  let finish: Finish;
  try {
    finish = succeed(run, await steps(options, handle)(run)).finish;
  } catch (error) {
    finish = fail(run, error).finish;
  }
  over = true;
  await host;
  return { finish: finish.outcome, children: finish.children, stored };
}

function errorOf({ finish }: Omit<End, "children">): { message: string; class: string; permanent: boolean } {
  if (finish.case !== "error") return assert.fail(`instead of an error came ${finish.case}`);
  const { message, class: errorClass, permanent } = finish.value;
  return { message, class: errorClass, permanent };
}

function resultOf({ finish }: Omit<End, "children">): string {
  if (finish.case === "error") assert.fail(finish.value.message);
  assert.equal(finish.case, "result");
  return Buffer.from(finish.value).toString();
}

function againOf({ finish }: Omit<End, "children">) {
  if (finish.case === "error") assert.fail(finish.value.message);
  assert.equal(finish.case, "again");
  const { at, delay, wait, checkpoint } = finish.value;
  const waits = wait?.children.map(({ name }) => name);
  return { at, delay, names: wait?.names, waits, checkpoint: Buffer.from(checkpoint ?? []).toString() };
}

interface Failure {
  message: string;
  class?: string;
  permanent?: boolean;
}

interface WokenVector {
  by: "signal" | "timeout" | "user" | "children";
  id?: string;
  name?: string;
  at_us?: number;
  data?: string;
}

interface StepVector {
  step?: string;
  result?: unknown;
  error?: Failure;
  fails?: Failure;
  wait?: string[];
  woken?: WokenVector;
  sleep?: boolean;
  run?: string;
  count?: number;
  ended?: object;
  ids?: string[];
}

interface Vector {
  name: string;
  record?: unknown;
  text?: string;
  woken?: WokenVector;
  family?: MessageInitShape<typeof ChildSetSchema>[];
  flow?: StepVector[];
  then?: { step: string; result: unknown };
  key?: string;
  after?: unknown;
  class?: string;
}

const vectors: Vector[] = JSON.parse(readFileSync(new URL("../../steps.json", import.meta.url), "utf8"));

function wireOf(w: WokenVector): MessageInitShape<typeof WokenSchema> {
  const by = { signal: Woken_By.SIGNAL, timeout: Woken_By.TIMEOUT, user: Woken_By.USER, children: Woken_By.CHILDREN }[
    w.by
  ];
  const id = new Uint8Array(Buffer.from((w.id ?? "").replaceAll("-", ""), "hex"));
  return {
    by,
    id,
    name: w.name ?? "",
    at: BigInt(w.at_us ?? 0),
    data: new Uint8Array(Buffer.from(w.data ?? "", "base64")),
  };
}

function fails({ message, class: errorClass = "", permanent }: Failure): never {
  throw permanent ? new Permanent(message, { class: errorClass }) : new Retry(message, { class: errorClass });
}

/** Does one step of a vector, and compares what it returns. */
async function go(task: StepTask, s: StepVector): Promise<void> {
  if (s.sleep) return task.sleep(HOUR);
  if (s.wait) {
    const woken = await task.waitFor(s.wait, { timeout: HOUR });
    const { by, id = "", name = "", at_us, data = "" } = s.woken as WokenVector;
    assert.deepEqual(
      [woken.by, woken.id, woken.name, woken.at?.getTime(), Buffer.from(woken.data).toString("base64")],
      [by, id, name, at_us && Math.floor(at_us / 1000), data],
    );
    return;
  }
  if (s.run !== undefined) {
    const requests = Array.from({ length: s.count ?? 0 }, () => ({ type: "a" }));
    const { id, ...ended } = await task.runChildren(s.run, requests);
    assert.deepEqual(ended, { done: 0, failed: 0, cancelled: 0, ...s.ended });
    assert.deepEqual(
      requests.map((_, number) => id(number)),
      s.ids,
    );
    return;
  }
  const ran = () => assert.fail("it ran");
  if (s.fails) return assert.rejects(task.step(String(s.step), () => fails(s.fails as Failure)));
  if (s.error) {
    const { message, class: errorClass = "", permanent = false } = s.error;
    return assert.rejects(task.step(String(s.step), ran), (e) => {
      assert.ok(e instanceof StepError);
      assert.deepEqual([e.message, e.class, e.permanent], [message, errorClass, permanent]);
      return true;
    });
  }
  assert.deepEqual(await task.step(String(s.step), ran), s.result);
}

suite("a record of steps", () => {
  for (const v of vectors) {
    test(`is that of other languages: ${v.name}`, async () => {
      const flow = async (task: StepTask) => {
        for (const s of v.flow ?? []) await go(task, s);
        if (!v.then) return;
        const { step, result } = v.then;
        assert.equal(task.stepKey, v.key ?? task.stepKey);
        const got = await task.step(step, () => {
          assert.equal(task.stepKey, v.key ?? task.stepKey);
          return result;
        });
        assert.deepEqual(got, result);
      };
      const checkpoint = v.text ?? (v.record ? JSON.stringify(v.record) : "");
      const wire = { children: (v.family ?? []).map((set) => create(ChildSetSchema, set)) };
      const end = await attempt(flow, { checkpoint, wire, ...(v.woken && { woken: wireOf(v.woken) }) });
      if (v.class) {
        const error = errorOf(end);
        assert.deepEqual([error.class, error.permanent], [v.class, v.class === "steps_changed"], error.message);
      } else {
        resultOf(end);
        assert.deepEqual(JSON.parse(end.stored.at(-1) ?? ""), v.after);
      }
    });
  }
});

suite("a handler in steps", () => {
  test("adds children, and waits for them", async () => {
    const render = async (task: StepTask) => {
      const { done } = await task.runChildren("page", [{ type: "render" }, { type: "render", payload: "2" }]);
      return done;
    };
    const first = await attempt(render);
    assert.deepEqual(
      first.children.map(({ set, type, payload }) => [set, type, Buffer.from(payload).toString()]),
      [
        ["page", "render", ""],
        ["page", "render", "2"],
      ],
    );
    const { names, waits, checkpoint } = againOf(first);
    assert.deepEqual([names, waits], [[], ["page"]]);
    assert.deepEqual(JSON.parse(checkpoint).done, [{ kind: "children", name: "page", children: { count: 2 } }]);
    const children = [create(ChildSetSchema, { name: "page", added: 2, done: 1 })];
    const resumed = await attempt(render, { checkpoint, woken: { by: Woken_By.USER }, wire: { children } });
    assert.deepEqual([againOf(resumed).waits, resumed.children], [["page"], []]);
    const lost = errorOf(await attempt(render, { checkpoint, woken: { by: Woken_By.CHILDREN } }));
    assert.match(lost.message, /lost its children/);
    const features = FEATURES.filter((feature) => feature !== "family");
    const refused = await attempt(render, { features });
    assert.deepEqual([errorOf(refused).class, errorOf(refused).permanent, refused.children], ["unsupported", true, []]);
  });

  test("goes on behind its wait", async () => {
    const ran: string[] = [];
    const order = async (task: StepTask) => {
      const amount = await task.step("charge", () => {
        ran.push("charge");
        return 7;
      });
      await task.sleep(60_000);
      const woken = await task.waitFor(["paid", "void"], { timeout: HOUR });
      return [amount, woken.by, await task.step("ship", async () => ran.push("ship") && woken.text())];
    };
    const first = againOf(await attempt(order));
    assert.deepEqual([ran, first.at, first.delay, first.names], [["charge"], 0n, 60_000_000n, undefined]);
    const second = againOf(await attempt(order, first));
    assert.deepEqual([second.at, second.delay, second.names], [0n, 3_600_000_000n, ["paid", "void"]]);
    const third = againOf(await attempt(order, second)); // something else has made it ready
    const until = Date.parse(JSON.parse(second.checkpoint).done[2].until);
    assert.deepEqual([Number(third.at / 1000n), third.delay, third.names], [until, 0n, ["paid", "void"]]);
    const woken = { by: Woken_By.SIGNAL, id: new Uint8Array(16), name: "paid", at: 1n, data: Buffer.from("cash") };
    const fourth = await attempt(order, { checkpoint: third.checkpoint, woken });
    assert.deepEqual([ran, resultOf(fourth)], [["charge", "ship"], '[7,"signal","cash"]']);
  });

  test("gets of a step what JSON makes of it", async () => {
    const order = async (task: StepTask) => {
      const first = await task.step<unknown[]>("a", () => [new Date(0), undefined]);
      first.push(3); // it is the handler's
      return [first, await task.step("b", () => {})];
    };
    const end = await attempt(order);
    assert.equal(resultOf(end), '[["1970-01-01T00:00:00.000Z",null,3],null]');
    assert.deepEqual(JSON.parse(end.stored[1] ?? "").done[0].result, ["1970-01-01T00:00:00.000Z", null]);
  });

  test("keeps a failure when it goes on, and before the next step begins", async () => {
    const ran: string[] = [];
    let first: End | undefined;
    const order = async (task: StepTask) => {
      const reserve = task.step("reserve", () => {
        ran.push("reserve");
        throw new RangeError("none is left");
      });
      await assert.rejects(reserve, first ? StepError : RangeError);
      await task.step("refund", () => {
        ran.push("refund");
        throw new Retry("no answer");
      });
    };
    first = undefined;
    const end = await attempt(order);
    first = end;
    assert.deepEqual([errorOf(end).message, end.stored.length], ["no answer", 1]);
    await attempt(order, { checkpoint: end.stored[0] ?? "" });
    assert.deepEqual(ran, ["reserve", "refund", "refund"]);
    assert.deepEqual(JSON.parse(end.stored[0] ?? "").done[0].error, { message: "none is left", class: "RangeError" });
  });

  test("keeps no failure that it passes on", async () => {
    const end = await attempt(async (task) => {
      await task.step("charge", () => 1);
      await task.step("reserve", () => fails({ message: "no", class: "x", permanent: true }));
    });
    assert.deepEqual([errorOf(end), end.stored.length], [{ message: "no", class: "x", permanent: true }, 1]);
  });

  test("begins no step when the task is cancelled", async () => {
    let ran = 0;
    const order = async (task: StepTask) => {
      try {
        await task.step("reserve", () => {
          (task as Run).cancel(new Cancelled("cancelled", "the node stops"));
          throw new Error("the connection was closed");
        });
      } catch {
        await task.step("refund", () => ran++);
      }
      return "refunded";
    };
    assert.match(errorOf(await attempt(order)).message, /the connection was closed/);
    const before = (run: Run) => run.cancel(new Cancelled("cancelled", "not wanted"));
    const { message, class: errorClass } = errorOf(await attempt(order, { before }));
    assert.deepEqual([message, errorClass], ["cancelled: not wanted", "cancelled"]);
    assert.equal(errorOf(await attempt(order, { wire: { timeLeft: -1n } })).class, "cancelled");
    assert.equal(ran, 0);
  });

  test("ends with a step that is not stored", async () => {
    let ran = 0;
    const order = async (task: StepTask) => {
      await task.step("charge", () => 1).catch(() => {});
      await task.step("ship", () => ran++);
      return "fine";
    };
    const lost = errorOf(await attempt(order, { fault: "the disk is full" }));
    assert.deepEqual([lost.class, lost.permanent], ["NotStored", false]);
    assert.match(lost.message, /the disk is full/);
    const none = errorOf(await attempt(order, { features: [] }));
    assert.deepEqual([none.class, none.permanent], ["unsupported", true]);
    assert.equal(ran, 0);
  });

  test("ends for good with what cannot be kept", async () => {
    const circle: unknown[] = [];
    circle.push(circle);
    for (const value of [Number.NaN, 1n, new Set(), circle, () => 1]) {
      const { class: errorClass, permanent } = errorOf(await attempt((task) => task.step("a", () => value)));
      assert.deepEqual([errorClass, permanent], ["bad_result", true]);
    }
    const large = errorOf(await attempt((task) => task.step("a", () => "x".repeat(1 << 20))));
    assert.deepEqual([large.class, large.permanent], ["steps_too_large", true]);
  });

  test("has the version with which its task began", async () => {
    const order = (task: StepTask) => String(task.stepVersion);
    const checkpoint = JSON.stringify({ steps: 1, version: 2, done: [] });
    assert.equal(resultOf(await attempt(order, { checkpoint, options: { version: 3, oldest: 1 } })), "2");
    assert.equal(resultOf(await attempt(order, { options: { version: 3 } })), "3");
    assert.equal(errorOf(await attempt(order, { checkpoint, options: { version: 3 } })).class, "steps_changed");
    const newer = errorOf(await attempt(order, { checkpoint }));
    assert.deepEqual([newer.class, newer.permanent], ["steps_newer", false]);
    for (const options of [{ version: 0 }, { version: 1, oldest: 2 }, { version: 1, oldest: 0 }, { version: 1.5 }]) {
      assert.throws(() => steps(options, order), RangeError);
    }
  });

  test("has its own steps each time that a recurring task is due", async () => {
    const keys: string[] = [];
    const bill = async (task: StepTask) => {
      await task.step("bill", () => keys.push(task.stepKey));
      return new Again(1, undefined, { payload: "next" });
    };
    const first = againOf(await attempt(bill));
    await attempt(bill, { checkpoint: first.checkpoint });
    assert.deepEqual(JSON.parse(first.checkpoint), { steps: 1, version: 0, done: [], occurrence: 1 });
    assert.equal(new Set(keys).size, 2);
    assert.ok(errorOf(await attempt(() => new WaitFor("paid", { checkpoint: "mine" }))).permanent);
  });

  test("cannot swallow what ends its attempt", async () => {
    const end = await attempt(async (task) => {
      await task.waitFor("paid").catch(() => {});
      await task.step("ship", () => 1).catch(() => {});
      return "fine";
    });
    assert.deepEqual(againOf(end).names, ["paid"]);
  });

  test("ends with an answer of a step", async () => {
    for (const answer of [new Snooze(5), new Again(1), new WaitFor("paid"), new Ended()]) {
      const end = await attempt(async (task) => {
        await task
          .step("charge", () => {
            throw answer;
          })
          .catch(() => task.step("refund", () => assert.fail("it ran")));
      });
      assert.notEqual(end.finish.case, "error");
    }
    for (const error of [new InDoubt("a", { class: "c" }), new RetryIn(5, "a", { class: "c" })]) {
      const end = await attempt((task) =>
        task.step("charge", () => {
          throw error;
        }),
      );
      assert.equal(errorOf(end).class, "c");
    }
  });

  test("runs one step after the other", async () => {
    const { message, permanent } = errorOf(
      await attempt((task) => Promise.all([task.step("a", turn), task.step("b", turn)])),
    );
    assert.ok(permanent);
    assert.match(message, /one after the other/);
  });

  test("is made by steps", () => {
    const { run } = newRun();
    for (const use of [() => run.step("a", () => 1), () => run.waitFor("a"), () => run.sleep(1), () => run.stepKey]) {
      assert.throws(use, /make it with steps\(\)/);
    }
  });
});

suite("a wait", () => {
  function outcome(value: WaitFor, features = ["rerun", "wait"]) {
    return succeed(newRun({}, features, undefined, 100).run, value).finish.outcome;
  }

  test("is sent with its names and its end", () => {
    const at = new Date(2e12);
    for (const [value, names, due, delay] of [
      [new WaitFor("paid"), ["paid"], 0n, 0n],
      [new WaitFor(["paid", "vöid"], { timeout: 1.5 }), ["paid", "vöid"], 0n, 1500n],
      [new WaitFor("paid", { timeout: 0 }), ["paid"], 0n, 1n],
      [new WaitFor("paid", { until: at }), ["paid"], 2_000_000_000_000_000n, 0n],
      [new WaitFor("paid", { until: 0 }), ["paid"], -1n, 0n],
    ] as const) {
      const end = againOf({ finish: outcome(value), stored: [] });
      assert.deepEqual([end.names, end.at, end.delay], [names, due, delay]);
    }
    const full = outcome(new WaitFor("paid", { result: "r", payload: "p", checkpoint: "c" }));
    assert.equal(full.case, "again");
    const texts = [full.value.result, full.value.payload, full.value.checkpoint].map((b) =>
      Buffer.from(b ?? []).toString(),
    );
    assert.deepEqual(texts, ["r", "p", "c"]);
  });

  test("that cannot be is a permanent error", () => {
    for (const [value, features, errorClass] of [
      [new WaitFor("paid"), ["rerun"], "unsupported"],
      [new WaitFor("paid", { checkpoint: "c" }), ["wait"], "unsupported"],
      [new WaitFor("paid", { payload: "x".repeat(101) }), ["rerun", "wait"], "payload_too_large"],
    ] as const) {
      const end = errorOf({ finish: outcome(value, [...features]), stored: [] });
      assert.deepEqual([end.class, end.permanent], [errorClass, true]);
    }
    assert.throws(() => new WaitFor([]), TypeError);
    assert.throws(() => new WaitFor("paid", { timeout: 1, until: 1 }), RangeError);
  });

  test("tells the next attempt how it ended", () => {
    assert.equal(newRun().run.woken, undefined);
    assert.equal(newRun({ woken: { by: Woken_By.TIMEOUT } }).run.woken?.by, "timeout");
    const woken = newRun({
      woken: { by: Woken_By.SIGNAL, id: ID, name: "paid", at: 1500n, data: Buffer.from('{"a":1}') },
    }).run.woken;
    assert.deepEqual(
      [woken?.id, woken?.name, woken?.at?.getTime(), woken?.json(), woken?.text()],
      ["00010203-0405-0607-0809-0a0b0c0d0e0f", "paid", 1, { a: 1 }, '{"a":1}'],
    );
  });
});

suite("a checkpoint", () => {
  test("is answered with those before it", async () => {
    const { run } = newRun({}, ["checkpoint"]);
    const saved = [1, 2, 3].map((n) => run.saveCheckpoint(n));
    run.stored(create(StoredSchema, { number: 2n }));
    await Promise.all(saved.slice(0, 2));
    run.stored(create(StoredSchema, { number: 3n, error: "the disk is full" }));
    await assert.rejects(saved[2] as Promise<void>, /the disk is full/);
  });

  test("is not awaited for ever", async () => {
    const { run } = newRun({}, ["checkpoint"]);
    const saved = run.saveCheckpoint("a");
    run.giveUp("the host is gone");
    await assert.rejects(saved, (e) => e instanceof NotStored && /the host is gone/.test(e.message));
    await assert.rejects(run.saveCheckpoint("b"), /too late/);
    await newRun().run.saveCheckpoint("a"); // the host keeps none
  });

  test("of a step is stored before the next step begins", { timeout: 60_000 }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "te-"));
    t.after(() => rm(folder, { recursive: true }));
    const file = join(folder, "begun");
    const source = `import { writeFileSync } from "node:fs";
      import { serve, steps } from "taskengine-handler";
      await serve({ order: steps({ version: 1 }, async (task) => {
        await task.step("a", () => 1);
        await task.step("b", () => writeFileSync(task.text(), "x"));
        return (await task.waitFor("paid")).text();
      }) });`;
    const [host] = await Host.of(t, { slots: 2, features: FEATURES }, source);
    host.stores = false;
    const [runId] = host.run({ type: "order", payload: new Uint8Array(Buffer.from(file)) });
    await host.until(() => host.all("checkpoints")[0]);
    assert.equal(existsSync(file), false);
    host.send({ stored: [{ runId: runId as bigint, number: 1n }] });
    await host.until(() => host.all("checkpoints")[1]);
    assert.equal(existsSync(file), true);
    assert.equal(host.all("finishes").length, 0);
    host.send({ stored: [{ runId: runId as bigint, number: 2n }] });
    const again = againOf({ finish: (await host.finish(runId as bigint)).outcome, stored: [] });
    assert.deepEqual(again.names, ["paid"]);
    const woken = { by: Woken_By.SIGNAL, id: new Uint8Array(16), name: "paid", data: Buffer.from("cash") };
    const [next] = host.run({
      type: "order",
      payload: new Uint8Array(Buffer.from(file)),
      checkpoint: new Uint8Array(Buffer.from(again.checkpoint)),
      woken: woken as never,
    });
    assert.equal(resultOf({ finish: (await host.finish(next as bigint)).outcome, stored: [] }), "cash");
  });
});
