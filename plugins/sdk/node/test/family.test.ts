import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { fail, succeed } from "../dist/finish.js";
import { ChildSetSchema, ParentSchema } from "../dist/gen/handler_pb.js";
import { Permanent, Snooze, WaitForChildren } from "../dist/index.js";
import type { Run } from "../dist/run.js";
import { newRun } from "./fakes.js";

const FEATURES = ["children", "family", "signals", "wait"];
const ORDER = "01020304-0506-0708-090a-0b0c0d0e0f10";
const OTHER = "ffffffff-0506-0708-090a-0b0c0d0e0f10";

/** A run that has added a child and sent two signals. */
function busyRun(): Run {
  const { run } = newRun({}, FEATURES);
  run.addChildren("page", [
    { type: "render", payload: "1", orderingKey: "o", headers: { a: "b" }, runAt: 1, priority: 0 },
  ]);
  run.sendSignal({ to: ORDER, type: "order", id: ORDER, name: "paid", data: { sum: 1 }, keep: true });
  run.sendSignal({ type: "order", key: "k", orderingKey: "o", name: "seen" });
  return run;
}

suite("children and signals", () => {
  test("go with a success, and with nothing else", () => {
    const wait = new WaitForChildren(["page", { name: "proof", count: 2, orFailed: true }], { timeout: 1 });
    for (const value of ["done", wait]) {
      const { children, signals, outcome } = succeed(busyRun(), value).finish;
      const [child] = children;
      assert.deepEqual(
        [child?.set, child?.type, child?.orderingKey, child?.headers],
        ["page", "render", "o", { a: "b" }],
      );
      assert.deepEqual([child?.runAt, child?.priority, Buffer.from(child?.payload ?? []).toString()], [1000n, 0, "1"]);
      const [paid, seen] = signals;
      const id = Buffer.from(ORDER.replaceAll("-", ""), "hex").toString();
      assert.deepEqual(
        [paid?.taskId, paid?.id].map((bytes) => Buffer.from(bytes ?? []).toString()),
        [id, id],
      );
      assert.deepEqual([paid?.type, paid?.name, paid?.keep], ["order", "paid", true]);
      assert.equal(Buffer.from(paid?.data ?? []).toString(), '{"sum":1}');
      assert.deepEqual(
        [seen?.type, seen?.key, seen?.orderingKey, seen?.name, seen?.keep],
        ["order", "k", "o", "seen", false],
      );
      assert.deepEqual([seen?.taskId.length, seen?.id.length], [0, 0]);
      if (outcome.case !== "again") continue;
      const waits = outcome.value.wait?.children.map(({ name, count, orFailed }) => [name, count, orFailed]);
      assert.deepEqual(waits, [
        ["page", 0, false],
        ["proof", 2, true],
      ]);
    }
    for (const { finish } of [succeed(busyRun(), new Snooze(1)), fail(busyRun(), new Error("no"))]) {
      assert.deepEqual([finish.children, finish.signals], [[], []]);
    }
  });

  test("are joined by tasks that run after others", () => {
    const { run } = newRun({}, [...FEATURES, "after"]);
    run.spawn({ type: "a", after: [OTHER, ORDER] });
    run.spawn({ type: "b", after: [ORDER.toUpperCase()], afterAny: true });
    const hex = (ids: Uint8Array[]) => ids.map((id) => Buffer.from(id).toString("hex"));
    const [order, other] = [ORDER, OTHER].map((id) => id.replaceAll("-", ""));
    assert.deepEqual(
      succeed(run, "done").finish.children.map(({ after, afterAny }) => [hex(after), afterAny]),
      [
        [[other, order], false],
        [[order], true],
      ],
    );
    const many = Array.from({ length: 101 }, (_, n) => `${ORDER.slice(0, 33)}${100 + n}`);
    for (const [why, wrong] of [
      [/after has 101 tasks/, { after: many }],
      [/a time, and after/, { after: [ORDER], runAt: 1 }],
      [/after names no task/, { afterAny: true }],
      [/an id that is zero/, { after: [ORDER.replaceAll(/[0-9a-f]/g, "0")] }],
      [/twice/, { after: [ORDER, ORDER] }],
      [/is a UUID/, { after: ["no id"] }],
    ] as const) {
      assert.throws(() => run.spawn({ type: "a", ...wrong }), why);
      assert.throws(() => run.addChildren("page", [{ type: "a", ...wrong }]), TypeError);
    }
    assert.equal(run.added.length, 2);
  });

  test("that a host does not support fail the task, also if the handler goes on", () => {
    for (const [feature, use] of [
      ["after", (run: Run) => run.spawn({ type: "a", after: [ORDER] })],
      ["family", (run: Run) => run.addChildren("page", [{ type: "a" }])],
      ["signals", (run: Run) => run.sendSignal({ type: "a", key: "k", name: "n" })],
    ] as const) {
      const { run } = newRun(
        {},
        FEATURES.filter((name) => name !== feature),
      );
      assert.throws(() => use(run), Permanent);
      const { outcome } = succeed(run, "done").finish;
      assert.ok(outcome.case === "error" && outcome.value.permanent && outcome.value.class === "unsupported");
    }
    const { outcome } = succeed(newRun({}, ["wait"]).run, new WaitForChildren("page")).finish;
    assert.ok(outcome.case === "error" && outcome.value.permanent && outcome.value.class === "unsupported");
  });

  test("that cannot be are errors at once", () => {
    const { run } = newRun({}, FEATURES);
    assert.throws(() => run.addChildren("", [{ type: "a" }]), TypeError);
    assert.throws(() => run.addChildren("page", [{ type: "a", key: "k" }]), TypeError);
    assert.throws(() => run.addChildren("page", [{ type: "a" }, { type: "" }]), TypeError);
    assert.throws(() => run.sendSignal({ name: "", type: "a", key: "k" }), TypeError);
    assert.throws(() => run.sendSignal({ name: "n", type: "a" }), TypeError);
    assert.throws(() => run.sendSignal({ name: "n", to: "no id" }), TypeError);
    assert.throws(() => new WaitForChildren([]), TypeError);
    assert.deepEqual([run.added, run.signals], [[], []]);
  });

  test("are known to their task, with ids as in other languages", () => {
    const { run } = newRun({
      taskId: Uint8Array.from({ length: 16 }, (_, n) => n),
      children: [
        create(ChildSetSchema, {
          name: "pägé",
          added: 70001,
          done: 1,
          failed: 2,
          cancelled: 3,
          ended: Uint8Array.of(1, 2),
        }),
        create(ChildSetSchema, { name: "bound", added: 2, shards: Uint8Array.of(7, 200) }),
      ],
      parent: create(ParentSchema, { taskId: Buffer.from(ORDER.replaceAll("-", ""), "hex"), name: "örder", index: 7 }),
    });
    const page = run.children.get("pägé");
    assert.deepEqual([page?.added, page?.done, page?.failed, page?.cancelled, page?.ended], [70001, 1, 2, 3, 6]);
    assert.deepEqual(
      [0, 1, 8, 9, 17].filter((number) => page?.hasEnded(number)),
      [0, 9],
    );
    assert.equal(page?.id(1), "00010203-0405-8531-bd59-22ba100001e1");
    assert.equal(page?.id(70000), "00010203-0405-8531-bd59-22ba11117090");
    assert.equal(run.children.get("bound")?.id(1), "00010203-0405-8657-a5ab-996d7000019c");
    assert.deepEqual(run.parent, { id: ORDER, name: "örder", number: 7 });
    assert.deepEqual([newRun().run.children.size, newRun().run.parent], [0, undefined]);
  });
});
