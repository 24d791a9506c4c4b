import assert from "node:assert/strict";
import { suite, type TestContext, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { ProgressSchema } from "../dist/gen/handler_pb.js";
import { Pace, Paced } from "../dist/pace.js";

/** A pace whose time passes on demand. */
function newPace({ mock: { timers } }: TestContext) {
  timers.enable({ apis: ["setTimeout"] });
  let now = 1000;
  const sent: string[] = [];
  const pace = new Pace(
    ({ message }) => sent.push(message),
    () => now,
  );
  return {
    pace,
    report: (paced: Paced, message: string) => pace.report(paced, create(ProgressSchema, { message })),
    /** What is sent while some milliseconds pass. */
    pass: (milliseconds: number) => {
      for (let n = 0; n < milliseconds; n++) {
        now++;
        timers.tick(1);
      }
      return sent.splice(0);
    },
  };
}

suite("progress", () => {
  test("is sent at once, then the newest every 100 ms", (t) => {
    const { report, pass } = newPace(t);
    const paced = new Paced();
    report(paced, "1");
    report(paced, "2");
    report(paced, "3");
    assert.deepEqual(pass(99), ["1"]);
    assert.deepEqual(pass(1), ["3"]);
    report(paced, "4");
    assert.deepEqual(pass(99), []);
    assert.deepEqual(pass(1), ["4"]);
    assert.deepEqual(pass(500), []);
    report(paced, "5");
    assert.deepEqual(pass(0), ["5"]);
  });

  test("of each run has its own pace", (t) => {
    const { report, pass } = newPace(t);
    const [a, b] = [new Paced(), new Paced()];
    report(a, "a1");
    report(a, "a2");
    assert.deepEqual(pass(50), ["a1"]);
    report(b, "b1");
    report(b, "b2");
    assert.deepEqual(pass(49), ["b1"]);
    assert.deepEqual(pass(1), ["a2"]);
    assert.deepEqual(pass(49), []);
    assert.deepEqual(pass(1), ["b2"]);
  });

  test("is complete when its run is answered", (t) => {
    const { pace, report, pass } = newPace(t);
    const paced = new Paced();
    report(paced, "1");
    report(paced, "2");
    pace.finish(paced);
    assert.deepEqual(pass(500), ["1", "2"]);
  });
});
