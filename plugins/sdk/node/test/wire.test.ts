import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { create, fromBinary, fromJson, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { Again, Ended, Permanent, RetryIn, Snooze } from "../dist/answers.js";
import { fail, refuse, succeed } from "../dist/finish.js";
import { type Finish, FromHandlerSchema, ToHandlerSchema } from "../dist/gen/handler_pb.js";
import { VERSION } from "../dist/version.js";
import { newRun } from "./fakes.js";

interface Vector {
  name: string;
  message: "ToHandler" | "FromHandler";
  hex: string;
  json: JsonValue;
}

const vectors: Vector[] = JSON.parse(readFileSync(new URL("../../vectors.json", import.meta.url), "utf8"));
const schemas = { ToHandler: ToHandlerSchema, FromHandler: FromHandlerSchema };

suite("the codec", () => {
  for (const { name, message, hex, json } of vectors) {
    test(`reads and writes what the Go messages are on the wire: ${name}`, () => {
      const schema = schemas[message];
      const read = fromBinary(schema, Buffer.from(hex, "hex"));
      assert.deepEqual(toJson(schema, read, { useProtoFieldName: true }), json);
      assert.equal(Buffer.from(toBinary(schema, fromJson(schema, json))).toString("hex"), hex);
    });
  }
});

suite("answers", () => {
  const { run } = newRun({ runId: 2n });
  const frames: Record<string, Finish[]> = {
    "from: retry": [fail(run, new RetryIn(90_000, "no")).finish],
    "from: error": [fail(run, new Permanent("nö", { class: "funds" })).finish],
    "from: ended": [succeed(newRun({ runId: 8n }, ["ended"]).run, new Ended()).finish],
    "from: refused": [refuse(7n, "full").finish],
    "from: long result": [succeed(newRun({ runId: 1n }).run, "y".repeat(300)).finish],
    "from: snooze": [
      succeed(newRun({ runId: 3n }).run, new Snooze(0.001)).finish,
      succeed(newRun({ runId: 4n }).run, new Snooze(0)).finish,
    ],
    "from: again": [
      succeed(newRun({ runId: 5n }).run, new Again(new Date(2e12), "so far")).finish,
      succeed(newRun({ runId: 6n }).run, new Again(-0.001)).finish,
    ],
    "from: again with a payload and a checkpoint": [
      succeed(
        newRun({ runId: 5n }, ["rerun"]).run,
        new Again(0.001, "so far", { payload: Uint8Array.of(0x6e, 0x65, 0x78, 0x74, 0xff), checkpoint: "page 2" }),
      ).finish,
      succeed(newRun({ runId: 6n }, ["rerun"]).run, new Again(0, undefined, { payload: "" })).finish,
      succeed(newRun({ runId: 7n }, ["rerun"]).run, new Again(0, undefined, { checkpoint: "" })).finish,
    ],
  };
  for (const [name, finishes] of Object.entries(frames)) {
    test(`are byte for byte those of Go: ${name}`, () => {
      const hex = vectors.find((vector) => vector.name === name)?.hex;
      assert.equal(
        Buffer.from(toBinary(FromHandlerSchema, create(FromHandlerSchema, { finishes }))).toString("hex"),
        hex,
      );
    });
  }
});

test("the version that hosts get to know is the package's", () => {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.equal(VERSION, version);
});
