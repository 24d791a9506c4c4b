import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { refuse } from "../dist/finish.js";
import { type FromHandler, LogLineSchema } from "../dist/gen/handler_pb.js";
import { Outbox } from "../dist/outbox.js";
import { turn } from "./fakes.js";

/** An outbox whose frames are under way until `sent` is called. */
function newOutbox() {
  const frames: FromHandler[] = [];
  let sent = (): void => {};
  const outbox = new Outbox((frame, done) => {
    frames.push(frame);
    sent = done;
  });
  const finish = (runId: number, bytes = 0) => outbox.add("finishes", refuse(BigInt(runId), "").finish, bytes);
  const line = (message: string) => outbox.log(create(LogLineSchema, { message }), message.length);
  const idsOf = (n: number) => frames[n]?.finishes.map((f) => Number(f.runId));
  return { outbox, frames, finish, line, idsOf, sent: () => sent() };
}

suite("an outbox", () => {
  test("sends what one turn of the event loop brought in one frame, with a credit per finish", async () => {
    const { outbox, frames, finish, line, idsOf } = newOutbox();
    finish(1);
    line("x");
    queueMicrotask(() => finish(2));
    outbox.pong(7n);
    await turn();
    assert.equal(frames.length, 1);
    assert.deepEqual([idsOf(0), frames[0]?.credits, frames[0]?.pong], [[1, 2], 2, 7n]);
    assert.equal(frames[0]?.logs.length, 1);
  });

  test("gathers while a frame is under way", async () => {
    const { frames, finish, idsOf, sent } = newOutbox();
    finish(1);
    await turn();
    finish(2);
    await turn();
    finish(3);
    await turn();
    assert.equal(frames.length, 1);
    sent();
    assert.deepEqual(idsOf(1), [2, 3]);
    sent();
    await turn();
    assert.equal(frames.length, 2);
    finish(4);
    await turn();
    assert.deepEqual(idsOf(2), [4]);
  });

  test("keeps frames small, in order, and sends what is larger alone", async () => {
    const { frames, finish, idsOf, sent } = newOutbox();
    const MiB = 1 << 20;
    for (const [n, size] of [3 * MiB, 10, MiB / 2, MiB / 2, 3 * MiB].entries()) finish(n, size);
    for (let n = 5; n < 600; n++) finish(n);
    await turn();
    for (let n = 0; n < 10; n++) sent();
    assert.deepEqual([idsOf(0), idsOf(1), idsOf(2), idsOf(3)], [[0], [1, 2], [3], [4]]);
    assert.deepEqual([frames[4]?.finishes.length, frames[5]?.finishes.length, frames.length], [512, 83, 6]);
  });

  test("counts the lines of the log that it has no room for", async () => {
    const { frames, finish, line, sent } = newOutbox();
    for (let n = 0; n < 10_000; n++) line(String(n));
    finish(1);
    await turn();
    for (let n = 0; n < 100; n++) sent();
    assert.equal(frames.flatMap((frame) => frame.logs).length, 8192);
    assert.equal(frames.at(-1)?.finishes.length, 1);
    line("after");
    await turn();
    assert.deepEqual(frames.at(-1)?.logs[0]?.fields, { lines_dropped_before: "1808" });
  });
});
