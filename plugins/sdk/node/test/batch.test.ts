import assert from "node:assert/strict";
import { suite, type TestContext, test } from "node:test";
import { batch, Gathering } from "../dist/batch.js";

/** A gathering of three, or what comes within 100 ms, and its calls. */
function newGathering({ mock: { timers } }: TestContext) {
  timers.enable({ apis: ["setTimeout"] });
  const calls: string[][] = [];
  const gathering = new Gathering<string>(3, 100, (items) => calls.push(items));
  return { gathering, timers, calls };
}

suite("a gathering", () => {
  test("is called once there are enough", (t) => {
    const { gathering, calls, timers } = newGathering(t);
    for (const item of ["a", "b", "c", "d"]) gathering.add(item);
    assert.deepEqual(calls, [["a", "b", "c"]]);
    timers.tick(100);
    assert.deepEqual(calls, [["a", "b", "c"], ["d"]]);
  });

  test("is called when the first has waited long enough", (t) => {
    const { gathering, calls, timers } = newGathering(t);
    gathering.add("a");
    timers.tick(60);
    gathering.add("b");
    timers.tick(39);
    assert.deepEqual(calls, []);
    timers.tick(1);
    assert.deepEqual(calls, [["a", "b"]]);
    timers.tick(1000);
    assert.equal(calls.length, 1);
  });

  test("forgets an item that is removed, and its timer", (t) => {
    const { gathering, calls, timers } = newGathering(t);
    gathering.add("a");
    gathering.remove("a");
    timers.tick(50);
    gathering.add("b");
    timers.tick(99);
    assert.deepEqual(calls, []);
    timers.tick(1);
    assert.deepEqual(calls, [["b"]]);
  });

  test("is called at once when nothing more will come, unless it is empty", (t) => {
    const { gathering, calls } = newGathering(t);
    gathering.flush();
    gathering.add("a");
    gathering.flush();
    assert.deepEqual(calls, [["a"]]);
  });
});

test("a batch that could never be called is refused", () => {
  const handle = () => [];
  for (const size of [0, -1, 1.5, Number.NaN]) assert.throws(() => batch({ size, wait: 1 }, handle), RangeError);
  for (const wait of [-1, Number.NaN, 2 ** 31]) assert.throws(() => batch({ size: 1, wait }, handle), RangeError);
  assert.throws(() => batch({ size: 1, wait: 1 }, "no function" as unknown as typeof handle), TypeError);
});
