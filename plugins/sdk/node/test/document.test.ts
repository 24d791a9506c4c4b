// Documents that tasks read, and write with their answers.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { Again, NotRead, Permanent, Snooze, WaitFor } from "../dist/answers.js";
import { type Document, MAX_DOCUMENT, Read } from "../dist/document.js";
import { fail, succeed } from "../dist/finish.js";
import { DocumentReadSchema, FinishSchema } from "../dist/gen/handler_pb.js";
import type { Run } from "../dist/run.js";
import { newRun, turn } from "./fakes.js";

const AT = 1_900_000_000_000_001n;
const TEXT = new TextEncoder();

function documentOf(key: string, version: bigint, expiresAt = 0n, data = ""): Document {
  return new Read(key, create(DocumentReadSchema, { version, expiresAt, data: TEXT.encode(data) }));
}

suite("documents", () => {
  test("are read by a question that the host answers", async () => {
    const { run, frames } = newRun({ runId: 7n }, ["documents"]);
    const [first, second] = [run.readDocument("stock/a"), run.readDocument("stöck/b")];
    await turn();
    const asked = frames.flatMap(({ reads }) => reads).map(({ runId, number, key }) => [runId, number, key]);
    assert.deepEqual(asked, [
      [7n, 1n, "stock/a"],
      [7n, 2n, "stöck/b"],
    ]);
    assert.equal(run.questions.length, 2);
    const answer = { runId: 7n, number: 1n, version: 2n ** 64n - 1n, data: TEXT.encode('{"left": 2}') };
    const times = { expiresAt: AT, createdAt: AT + 1000n, updatedAt: AT + 2000n };
    run.read(create(DocumentReadSchema, { runId: 7n, number: 2n }));
    run.read(create(DocumentReadSchema, { ...answer, ...times }));
    run.read(create(DocumentReadSchema, answer)); // an answer to nothing
    const [there, none] = [await first, await second];
    assert.deepEqual([there.key, there.version, there.text()], ["stock/a", 2n ** 64n - 1n, '{"left": 2}']);
    assert.deepEqual([there.json(), there.json((value) => (value as { left: number }).left)], [{ left: 2 }, 2]);
    const read = [there.expiresAt, there.createdAt, there.updatedAt].map((at) => at?.getTime());
    assert.deepEqual(read, [1_900_000_000_000, 1_900_000_000_001, 1_900_000_000_002]);
    assert.deepEqual(
      [none.key, none.version, none.text(), none.json(), none.expiresAt],
      [...["stöck/b", 0n, "", undefined, undefined]],
    );
    assert.equal(run.questions.length, 0);
  });

  test("are not awaited for ever", async () => {
    const ends: ((run: Run) => void)[] = [
      (run) => run.giveUp("the host is gone"),
      (run) => run.read(create(DocumentReadSchema, { number: 1n, error: "the store does not answer" })),
    ];
    for (const end of ends) {
      const { run } = newRun({ runId: 7n }, ["documents"]);
      const document = run.readDocument("a");
      end(run);
      await assert.rejects(document, (error) => error instanceof NotRead && /"a" was not read/.test(error.message));
    }
    const { run } = newRun({ runId: 7n }, ["documents"]);
    run.over = true;
    await assert.rejects(run.readDocument("a"), NotRead);
    assert.throws(() => run.writeDocument("a", "x"), /it has its answer already/);
  });

  test("are written with an answer, and with no error", () => {
    const { run } = newRun({ runId: 7n }, ["documents", "wait"], 10);
    run.writeDocument(documentOf("a", 7n, AT), { n: 1 });
    run.writeDocument(documentOf("b", 0n), "new", { expiresAt: new Date(1.9e12) });
    run.writeDocument("c", new Uint8Array(MAX_DOCUMENT), { ifVersion: 0 });
    run.writeDocument("d", undefined, { expiresAt: 1.9e12 });
    run.deleteDocument("e", { ifVersion: 2n ** 64n - 1n });
    run.deleteDocument(documentOf("f", 3n, AT));
    const wanted = [
      { key: "a", data: TEXT.encode('{"n":1}'), delete: false, replaces: 7n, expiresAt: AT },
      { key: "b", data: TEXT.encode("new"), delete: false, replaces: 0n, expiresAt: 1_900_000_000_000_000n },
      { key: "c", data: new Uint8Array(MAX_DOCUMENT), delete: false, replaces: 0n, expiresAt: 0n },
      { key: "d", data: new Uint8Array(), delete: false, replaces: undefined, expiresAt: 1_900_000_000_000_000n },
      { key: "e", data: new Uint8Array(), delete: true, replaces: 2n ** 64n - 1n, expiresAt: 0n },
      { key: "f", data: new Uint8Array(), delete: true, replaces: 3n, expiresAt: 0n },
    ];
    for (const value of ["ok", new Again(1, "ok"), new WaitFor("paid")]) {
      const { finish, bytes } = succeed(run, value);
      assert.deepEqual(
        finish.documents.map(({ key, data, delete: gone, replaces, expiresAt }) => {
          return { key, data, delete: gone, replaces, expiresAt };
        }),
        wanted,
      );
      assert.ok(bytes >= toBinary(FinishSchema, finish).length, `${bytes}`);
    }
    for (const { finish } of [fail(run, new Error("no")), succeed(run, new Snooze(1)), succeed(run, "x".repeat(11))]) {
      assert.deepEqual(finish.documents, []);
    }
  });

  test("that cannot be written are errors", () => {
    const { run } = newRun({ runId: 7n }, ["documents"]);
    for (const [document, data, options] of [
      ["", "x", {}],
      [undefined as never, "x", {}],
      [{ key: "a", version: 1n } as never, "x", {}],
      ["a", new Uint8Array(MAX_DOCUMENT + 1), {}],
      ["a", "x", { ifVersion: -1 }],
      ["a", "x", { ifVersion: 2n ** 64n }],
      ["a", "x", { ifVersion: 0.5 }],
      [documentOf("a", 1n), "x", { ifVersion: 1 }],
      ["a", Number.NaN, {}],
    ] as const) {
      assert.throws(() => run.writeDocument(document, data, options), Error);
    }
    for (let n = 0; n < 16; n++) run.writeDocument(String(n), n);
    assert.throws(() => run.deleteDocument("16"), /at most 16/);
  });

  test("that the host does not serve are a permanent error", async () => {
    const { run } = newRun({ runId: 7n });
    const unsupported = (error: unknown) => error instanceof Permanent && error.class === "unsupported";
    await assert.rejects(run.readDocument("a"), unsupported);
    assert.equal(succeed(run, "ok").finish.outcome.case, "result"); // the handler has gone on without
    assert.throws(() => run.writeDocument("a", "x"), unsupported);
    assert.equal(succeed(run, "ok").finish.outcome.case, "error"); // it would be lost
  });
});
