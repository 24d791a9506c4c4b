// CommonJS, as is usual in NestJS. Without a node.
import assert from "node:assert/strict";
import { Permanent, serve, type Task } from "taskengine-handler";
import { Client, ClientError } from "taskengine-handler/client";
import { TestEngine } from "taskengine-handler/testing";

export function handlers() {
  return { charge: (task: Task) => (task.text() === "" ? new Permanent("nothing to charge") : "charged") };
}

async function main(): Promise<void> {
  assert.equal(typeof serve, "function");
  assert.equal(typeof TestEngine.start, "function");
  const client = new Client("localhost:1", { timeout: 500 });
  await assert.rejects(client.submit("charge", "7"), ClientError);
  await client.close();
  const esm = await import("./main.mjs");
  assert.equal(esm.Permanent, Permanent, "both kinds of modules have the same classes");
}

void main();
