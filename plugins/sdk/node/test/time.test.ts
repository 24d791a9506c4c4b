import assert from "node:assert/strict";
import { test } from "node:test";
import { micros } from "../dist/time.js";

test("milliseconds are microseconds on the wire, never cut short, and never more than fit", () => {
  for (const [milliseconds, want] of [
    [0, 0n],
    [1.1, 1100n],
    [0.0001, 1n],
    [-0.5, -500n],
    [1_900_000_000_000.001, 1_900_000_000_000_001n],
  ] as const) {
    assert.equal(micros(milliseconds), want);
  }
  for (const huge of [1e17, Number.MAX_VALUE, -Number.MAX_VALUE]) {
    assert.equal(BigInt.asIntN(64, micros(huge)), micros(huge));
  }
});
