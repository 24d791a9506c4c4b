import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { toBinary } from "@bufbuild/protobuf";
import { Again, Cancelled, Ended, InDoubt, Permanent, Retry, RetryIn, Snooze } from "../dist/answers.js";
import { type Answer, fail, failInBatch, succeed } from "../dist/finish.js";
import { type Error as ErrorMessage, FinishSchema } from "../dist/gen/handler_pb.js";
import type { Run } from "../dist/run.js";
import { newRun } from "./fakes.js";

function resultOf({ finish: { outcome } }: Answer): string {
  assert.equal(outcome.case, "result");
  return Buffer.from(outcome.value).toString();
}

function errorOf({ finish }: Answer): ErrorMessage {
  toBinary(FinishSchema, finish); // it can be sent, whatever it says
  assert.equal(finish.outcome.case, "error");
  return finish.outcome.value;
}

/** A run that has asked for a child. */
function busyRun(features: string[], maxBytes?: number): Run {
  const { run } = newRun({}, features, maxBytes);
  run.spawn({ type: "a", payload: "x".repeat(100) });
  return run;
}

suite("a result", () => {
  test("is bytes, text, nothing or JSON", () => {
    const { run } = newRun();
    const bytes = Uint8Array.of(0x62, 0x63);
    for (const [value, want] of [
      [undefined, ""],
      ["ö", "ö"],
      [bytes, "bc"],
      [Buffer.from("b"), "b"],
      [bytes.buffer, "bc"],
      [new DataView(bytes.buffer, 1), "c"],
      [{ a: 1 }, '{"a":1}'],
      [[1], "[1]"],
      [false, "false"],
      [null, "null"],
    ]) {
      assert.equal(resultOf(succeed(run, value)), want);
    }
  });

  test("that is too large is a permanent error", () => {
    for (const value of ["x".repeat(11), new Again(1, "x".repeat(11))]) {
      const error = errorOf(succeed(newRun({}, [], 10).run, value));
      assert.deepEqual([error.class, error.permanent], ["result_too_large", true]);
    }
    assert.equal(resultOf(succeed(newRun({}, [], 10).run, "x".repeat(10))), "x".repeat(10));
  });
});

suite("what a task has when it runs again", () => {
  test("is what the handler says, up to the limits", () => {
    const options = { payload: { a: 1 }, checkpoint: "c".repeat(1 << 20) };
    const { finish, bytes } = succeed(newRun({}, ["rerun"], 10, 7).run, new Again(1, "r", options));
    assert.equal(finish.outcome.case, "again");
    const { payload, checkpoint } = finish.outcome.value;
    assert.equal(Buffer.from(payload ?? []).toString(), '{"a":1}');
    assert.equal(checkpoint?.length, 1 << 20);
    assert.equal(bytes, 8 + (1 << 20));
  });

  test("is never dropped, and too much of it is a permanent error", () => {
    for (const [features, options, want] of [
      [[], { payload: "" }, "unsupported"],
      [["checkpoint"], { checkpoint: "" }, "unsupported"],
      [["rerun"], { payload: "x".repeat(8) }, "payload_too_large"],
      [["rerun"], { checkpoint: "x".repeat((1 << 20) + 1) }, "checkpoint_too_large"],
    ] as const) {
      const error = errorOf(succeed(newRun({}, [...features], 10, 7).run, new Again(1, "", options)));
      assert.deepEqual([error.class, error.permanent], [want, true]);
    }
  });
});

test("a handler that has ended its attempt says so, returned or thrown", () => {
  for (const answer of [succeed, fail]) {
    assert.equal(answer(newRun({}, ["ended"]).run, new Ended()).finish.outcome.case, "ended");
    const error = errorOf(answer(newRun({}, ["rerun"]).run, new Ended()));
    assert.deepEqual([error.class, error.permanent], ["unsupported", false]);
  }
});

suite("children", () => {
  test("go with a result, also with that of a recurring task", () => {
    for (const value of ["done", new Again(1)]) {
      const { finish } = succeed(busyRun(["children"]), value);
      assert.equal(finish.children.length, 1);
    }
  });

  test("do not go with anything else", () => {
    const run = busyRun(["children"]);
    for (const { finish } of [
      succeed(run, new Snooze(1)),
      fail(run, new Error("no")),
      fail(run, new Permanent("no")),
    ]) {
      assert.deepEqual(finish.children, []);
    }
  });

  test("are never dropped: a host that does not take them gets a permanent error", () => {
    for (const features of [[], ["progress"]]) {
      const error = errorOf(succeed(busyRun(features), "done"));
      assert.deepEqual([error.class, error.permanent], ["unsupported", true]);
    }
  });

  test("count for the size of the result", () => {
    const error = errorOf(succeed(busyRun(["children"], 100), "done"));
    assert.deepEqual([error.class, error.permanent], ["result_too_large", true]);
    const { run } = newRun({}, ["children"], 150);
    run.spawn({ type: "a", key: "€".repeat(40) });
    assert.equal(errorOf(succeed(run, "")).class, "result_too_large", "in bytes, not in characters");
  });
});

suite("an error", () => {
  test("has its name as class, and says what happened before where", () => {
    const cause = new Error("no route", { cause: "the cable" });
    const error = errorOf(fail(newRun().run, new RangeError("no money", { cause })));
    assert.deepEqual([error.class, error.permanent, error.retryDelay], ["RangeError", false, undefined]);
    assert.match(error.message, /^RangeError: no money\ncaused by no route\ncaused by the cable\n\s+at .*finish\.test/);
  });

  test("of this package has the class it was given, and no stack", () => {
    const permanent = errorOf(fail(newRun().run, new Permanent("no money", { class: "funds" })));
    assert.deepEqual([permanent.message, permanent.class, permanent.permanent], ["no money", "funds", true]);
    const retry = errorOf(fail(newRun().run, new RetryIn(1500, "no money")));
    assert.deepEqual([retry.message, retry.class, retry.permanent], ["no money", "", false]);
    assert.equal(retry.retryDelay, 1_500_000n);
    assert.equal(errorOf(fail(newRun().run, new RetryIn(-1, ""))).retryDelay, 0n);
  });

  test("is an answer whatever was thrown", () => {
    class Nasty extends Error {
      override get message(): string {
        throw new Error("no text either");
      }
      override get cause(): string {
        throw new Error("no cause either");
      }
    }
    const named = Object.assign(new Error("x"), { name: 5, stack: 7 });
    for (const thrown of ["x", 5, null, undefined, { a: 1 }, Symbol("s"), new Nasty(), named, new Error("\ud800")]) {
      assert.notEqual(errorOf(fail(newRun().run, thrown)).message, "");
    }
  });

  test("is an answer, also of a cancelled task, if looking at what was thrown throws", () => {
    const unnamed = Object.defineProperty(new Error("x"), "name", {
      get() {
        throw new Error("no name either");
      },
    });
    const refuse = () => {
      throw new Error("hands off");
    };
    const opaque = new Proxy({}, { getPrototypeOf: refuse, get: refuse, has: refuse });
    const unsayable = Object.assign(new Permanent("x"), { class: { toString: refuse } });
    for (const thrown of [unnamed, opaque, unsayable]) {
      for (const cancelled of [false, true]) {
        const { run } = newRun();
        if (cancelled) run.cancel(new Cancelled("cancelled", "not needed"));
        for (const answer of [fail, failInBatch, succeed]) {
          assert.notEqual(answer(run, thrown).finish.outcome.case, undefined);
        }
      }
    }
  });

  test("is cut at a character", () => {
    const { message } = errorOf(fail(newRun().run, new Permanent(`x${"ö".repeat(10_000)}`)));
    assert.equal(message, `x${"ö".repeat(4095)}`);
  });

  test("that was thrown, but is an answer, is that answer", () => {
    assert.equal(fail(newRun().run, new Snooze(1)).finish.outcome.case, "snooze");
    assert.equal(fail(newRun().run, new Again(1)).finish.outcome.case, "again");
  });
});

suite("the error of a cancelled task", () => {
  const why = new Cancelled("deadline", "too long");
  const abort = Object.assign(new Error("The operation was aborted"), { name: "AbortError" });

  test("says so, if it comes of the cancellation", () => {
    for (const thrown of [why, abort, new Error("could not read", { cause: why })]) {
      const { run } = newRun();
      run.cancel(why);
      const { class: errorClass, message } = errorOf(fail(run, thrown));
      assert.deepEqual([errorClass, message], ["cancelled", "cancelled: too long"]);
    }
  });

  test("is an error like any other, if it does not", () => {
    const { run } = newRun();
    run.cancel(why);
    assert.equal(errorOf(fail(run, new TypeError("x"))).class, "TypeError");
    assert.equal(errorOf(fail(newRun().run, abort)).class, "AbortError");
  });
});

test("what cannot be encoded is a permanent error, for the work is done", () => {
  const cyclic: unknown[] = [];
  cyclic.push(cyclic);
  let deep: unknown[] = [];
  for (let n = 0; n < 100_000; n++) deep = [deep];
  const nasty = {
    toJSON() {
      throw new Error("not this");
    },
  };
  const values = [1n, { a: 1n }, Number.NaN, { a: Number.POSITIVE_INFINITY }, new Set([1]), { a: new Map() }];
  for (const value of [...values, cyclic, deep, nasty, () => 1, Symbol("x"), "\ud800"]) {
    for (const said of [
      value,
      new Again(1, value),
      new Again(1, 0, { payload: value }),
      new Again(1, 0, { checkpoint: value }),
    ]) {
      const { class: errorClass, permanent, message } = errorOf(succeed(newRun({}, ["rerun"]).run, said));
      assert.deepEqual([errorClass, permanent], ["bad_result", true], message);
    }
    assert.throws(() => newRun().run.spawn({ type: "a", payload: value }), { class: "bad_result" });
    assert.throws(() => newRun().run.saveCheckpoint(value), { class: "bad_result" });
  }
});

test("an error that is none of the package is in doubt", () => {
  const doubt = new InDoubt("no answer from the bank", { class: "timeout" });
  for (const thrown of [new Error("x"), new DOMException("late", "TimeoutError"), "a text", undefined, doubt]) {
    assert.equal(errorOf(fail(newRun().run, thrown)).inDoubt, true, String(thrown));
  }
  assert.deepEqual(
    [errorOf(fail(newRun().run, doubt)).message, errorOf(fail(newRun().run, doubt)).class],
    [doubt.message, "timeout"],
  );
  for (const thrown of [new Retry("refused", { class: "busy" }), new RetryIn(5, "refused"), new Permanent("refused")]) {
    assert.equal(errorOf(fail(newRun().run, thrown)).inDoubt, false, String(thrown));
  }
});

test("an error after the deadline is in doubt, whatever it says", () => {
  for (const thrown of [new Error("x"), new Permanent("no"), new RetryIn(5, "later")]) {
    assert.equal(errorOf(fail(newRun({ timeLeft: -1n }).run, thrown)).inDoubt, true, String(thrown));
    const heard = newRun().run;
    heard.cancel(new Cancelled("deadline", "too long"));
    assert.equal(errorOf(fail(heard, thrown)).inDoubt, true, String(thrown));
  }
  for (const thrown of [new Permanent("no"), new RetryIn(5, "later")]) {
    assert.equal(errorOf(fail(newRun({ timeLeft: 3_600_000_000n }).run, thrown)).inDoubt, false, String(thrown));
  }
});

test("an error of a whole batch gives up none of its tasks", () => {
  const error = errorOf(failInBatch(newRun().run, new Permanent("no", { class: "funds" })));
  assert.deepEqual([error.class, error.permanent], ["funds", false]);
});
