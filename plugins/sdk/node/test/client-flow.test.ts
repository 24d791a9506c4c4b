// What is sent when, and which outcome is of what: without a node. And the ids and payloads of tasks.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { BacklogFull, ClientError, Closed, DeadlineExceeded, errorOfCode, Invalid } from "../dist/client/errors.js";
import { Flow, MESSAGE_BYTES, MOST_SENT, type Submission } from "../dist/client/flow.js";
import { Ids } from "../dist/client/ids.js";
import { encodeTask, type NewTask } from "../dist/client/request.js";
import { jittered, MOST_PAUSE } from "../dist/client/sender.js";
import {
  NewTaskSchema,
  type SubmitOutcome,
  SubmitStreamRequestSchema,
  SubmitStreamResponseSchema,
} from "../dist/gen/taskengine_pb.js";

test("a pause is a random half to whole", () => {
  const some = Array.from({ length: 20 }, () => jittered(MOST_PAUSE));
  for (const pause of some) assert.ok(pause >= MOST_PAUSE / 2 && pause <= MOST_PAUSE, String(pause));
  assert.ok(new Set(some).size > 1);
});

let flow: Flow;
let landed: [string, string | boolean][]; // the name of the error, or whether it was created
beforeEach(() => {
  flow = new Flow();
  landed = [];
});

function add(ids: string[], { size = 1, isOwn = true } = {}): Submission[] {
  const made = ids.map((id): Submission => {
    const message = toBinary(
      NewTaskSchema,
      create(NewTaskSchema, { id, input: { case: "payload", value: new Uint8Array(size) } }),
    );
    return { message, id, isOwn, land: (o) => landed.push([id, o instanceof ClientError ? o.name : o.created]) };
  });
  flow.add(made);
  return made;
}

function sent(): string[] {
  const message = flow.nextMessage();
  return message ? fromBinary(SubmitStreamRequestSchema, message).tasks.map((one) => one.task?.id ?? "") : [];
}

function resolve(...outcomes: SubmitOutcome["outcome"][]): boolean {
  const all = outcomes.map((outcome, i) => ({ sequence: BigInt(i + 1), outcome }));
  const message = create(SubmitStreamResponseSchema, {
    outcomes: all.filter((one) => one.outcome.case) as SubmitOutcome[],
  });
  return flow.resolve("n", toBinary(SubmitStreamResponseSchema, message));
}

const none = { case: undefined } as SubmitOutcome["outcome"];
const receipt = (id: string, created = true) =>
  ({ case: "receipt", value: { id, created, outcome: created ? "created" : "existing" } }) as SubmitOutcome["outcome"];
const error = (code: string, full = "") =>
  ({ case: "error", value: { code, message: "no", full } }) as SubmitOutcome["outcome"];

const numbers = (count: number) => Array.from({ length: count }, (_, i) => String(i));

test("a message has at most 1000 tasks and a mebibyte", () => {
  add(numbers(1500));
  assert.deepEqual([sent().length, sent().length], [1000, 500]);
  add(["a", "b", "c"], { size: MESSAGE_BYTES / 2 - 100 });
  add(["d"], { size: 2 * MESSAGE_BYTES });
  assert.deepEqual([sent(), sent(), sent()], [["a", "b"], ["c"], ["d"]]);
});

test("it sends no more while 4000 have no outcome", () => {
  add(numbers(MOST_SENT + 1));
  for (let i = 0; i < MOST_SENT / 1000; i++) sent();
  assert.ok(!flow.canSend);
  assert.deepEqual(sent(), []);
  resolve(receipt("0"));
  assert.ok(flow.canSend);
  assert.deepEqual(sent(), [String(MOST_SENT)]);
  assert.deepEqual(landed, [["0", true]]);
});

test("what has no outcome is sent again first and in its order", () => {
  add(["a", "b", "c"]);
  sent();
  add(["d"]);
  resolve(none, receipt("b"));
  flow.endStream();
  assert.deepEqual(sent(), ["a", "c", "d"]);
});

test("what was abandoned is not sent", () => {
  const [a, b] = add(["a", "b"]) as [Submission, Submission];
  flow.abandon([a]);
  assert.deepEqual(sent(), ["b"]);
  flow.abandon([b]);
  flow.endStream();
  assert.deepEqual(sent(), []);
  assert.deepEqual(landed, [
    ["a", DeadlineExceeded.name],
    ["b", DeadlineExceeded.name],
  ]);
});

test("an outcome that is not final is asked for again", () => {
  add(["a", "b", "c"]);
  sent();
  assert.ok(!resolve(error("resource_exhausted", "waited"), error("resource_exhausted", "backlog")));
  assert.ok(resolve(none, none, error("unavailable")));
  assert.deepEqual(landed, [["b", BacklogFull.name]]);
  assert.deepEqual(sent(), ["a", "c"]);
});

test("a task that an earlier try has added counts as created", () => {
  add(["a", "b"]);
  add(["c"], { isOwn: false });
  sent();
  resolve(receipt("a", false), receipt("other", false), receipt("c", false));
  assert.deepEqual(landed, [
    ["a", true],
    ["b", false],
    ["c", false],
  ]);
});

test("a node that stops is left, and outcomes that nothing waits for are ignored", () => {
  assert.ok(
    flow.resolve("n", toBinary(SubmitStreamResponseSchema, create(SubmitStreamResponseSchema, { stopping: true }))),
  );
  assert.ok(!resolve(receipt("x")));
  assert.deepEqual(landed, []);
});

test("a closed flow ends what waits and what comes", () => {
  add(["a"]);
  sent();
  add(["b"]);
  flow.close();
  add(["c"]);
  assert.deepEqual(
    landed,
    ["a", "b", "c"].map((id) => [id, Closed.name]),
  );
});

test("ids are in the shards of Go, and increase whatever the clock does", () => {
  const fill = (buffer: Buffer) => buffer.fill(Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]));
  const ids = new Ids(() => 0x0190a6f07c3e, fill);
  assert.equal(ids.next("mail", "", ""), "0190a6f0-7c3e-7000-8102-030405060708");
  const shards = [ids.next("mail", "k", ""), ids.next("mail", "k", "käy")].map((id) => {
    const b = Buffer.from(id.replaceAll("-", ""), "hex");
    return b.readUInt8(3) ^ b.readUInt8(7) ^ b.readUInt8(15);
  });
  assert.deepEqual(shards, [0x93, 0xcc]); // task.BoundShard
  const clock = [5, 5, 4, -1, 6];
  const stepping = new Ids(() => clock.shift() ?? 6);
  const made = Array.from({ length: 10_000 }, () => stepping.next("t", "", ""));
  assert.deepEqual(made, [...new Set(made)].sort());
});

test("a payload is JSON or what was given", () => {
  const payload = (value: unknown) => {
    const { input } = fromBinary(NewTaskSchema, encodeTask({ type: "t", payload: value }, new Ids()).message);
    return input.case && Buffer.from(input.value as Uint8Array).toString("latin1");
  };
  assert.equal(payload(undefined), undefined);
  assert.equal(payload(Buffer.from([0xff])), "\xff");
  assert.equal(payload("ä"), "\xc3\xa4");
  assert.equal(payload({ a: [1, null] }), '{"a":[1,null]}');
  assert.equal(payload(0), "0");
  assert.equal(payload(new Date(0)), '"1970-01-01T00:00:00.000Z"');
});

test("a task has all that it was given", () => {
  const task: Required<NewTask> = {
    ...{ type: "t", payload: "p", id: "i", key: "k", orderingKey: "o", priority: 0, delay: 1500, at: 1500 },
    expiresAt: new Date(2500.25),
    headers: { a: "own", "": "b" },
    after: ["first", "second"],
    afterAny: true,
  };
  const { message } = encodeTask(task, new Ids());
  const {
    id,
    type,
    key,
    orderingKey,
    priority,
    at,
    in: delay,
    expiresAt,
    headers,
    after,
    afterAny,
  } = fromBinary(NewTaskSchema, message);
  assert.deepEqual(
    { id, type, key, orderingKey, priority },
    { id: "i", type: "t", key: "k", orderingKey: "o", priority: 0 },
  );
  assert.deepEqual([at?.seconds, at?.nanos, delay?.seconds, delay?.nanos], [1n, 5e8, 1n, 5e8]);
  assert.deepEqual([expiresAt?.seconds, expiresAt?.nanos], [2n, 5e8]);
  assert.deepEqual(headers, { a: "own", "": "b" });
  assert.deepEqual([after, afterAny], [["first", "second"], true]);
});

test("a call that the node has cancelled has exceeded its deadline", () => {
  assert.ok(errorOfCode("canceled", "") instanceof DeadlineExceeded);
});

test("what cannot be sent is invalid", () => {
  const wrong = [
    { type: 5 },
    { type: "t", payload: 1n },
    { type: "t", payload: () => {} },
    { type: "t", priority: 10 },
    { type: "t", at: new Date("no") },
    { type: "t", delay: Number.POSITIVE_INFINITY },
    { type: "t", key: "\ud800" },
    { type: "t", headers: { a: 1 } },
  ];
  for (const task of wrong)
    assert.throws(() => encodeTask(task as never, new Ids()), Invalid, String(Object.values(task)));
});
