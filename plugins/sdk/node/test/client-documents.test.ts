// Documents, against a real node.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import * as client from "../dist/client/index.js";
import { Client, type Document } from "../dist/client/index.js";
import { skip, TestNode } from "./node.js";

describe("documents", { skip }, () => {
  let c: Client;
  const ends: (() => Promise<void>)[] = [];

  before(async () => {
    const node = await TestNode.start({ after: (f) => ends.push(f) });
    c = new Client(node.address);
  });
  after(async () => {
    await c.close();
    for (const end of ends) await end();
  });

  async function listed(prefix: string): Promise<Document[]> {
    const found: Document[] = [];
    for await (const document of c.documents({ prefix })) found.push(document);
    return found;
  }

  const text = async (key: string) => Buffer.from((await c.document(key)).data).toString();

  test("a document is written, read, listed and deleted", async () => {
    const prefix = `cart-${randomUUID()}-`;
    const keys = ["a", "b%", "ä"].map((key) => prefix + key);
    const [first = "", second = "", third = ""] = keys;
    const expiresAt = new Date("2100-01-01");
    const written = await c.setDocument(first, { items: [1, "ü"] }, { expiresAt, by: "anna" });
    assert.deepEqual([written.key, written.data.length, written.expiresAt], [first, 0, expiresAt]);
    const found = await c.document(first);
    assert.equal(Buffer.from(found.data).toString(), '{"items":[1,"ü"]}');
    assert.deepEqual([found.version, found.size], [written.version, found.data.length]);
    assert.ok(Math.abs(Date.now() - Number(found.createdAt)) < 3_600_000);
    await c.setDocument(second, Uint8Array.of(0xff, 0));
    assert.deepEqual([...(await c.document(second)).data], [0xff, 0]);
    assert.equal((await c.setDocument(third, undefined)).expiresAt, undefined);
    assert.equal(await text(third), "");
    const all = await listed(prefix);
    assert.deepEqual(
      all.map((one) => one.key),
      keys,
    );
    assert.deepEqual([all[0]?.version, all[0]?.size, all[0]?.data.length], [written.version, found.size, 0]);
    await c.deleteDocument(first, { by: "anna" });
    await assert.rejects(c.document(first), client.NotFound);
    await assert.rejects(c.deleteDocument(first), client.NotFound);
    await assert.rejects(c.setDocument("", "x"), client.Invalid);
    await assert.rejects(c.setDocument(first, "x".repeat(256 * 1024 + 1)), client.Invalid);
    await assert.rejects(c.setDocument(first, "x", { ifVersion: -1 }), client.Invalid);
  });

  test("a document of another version is not changed", async () => {
    const key = `cart-${randomUUID()}`;
    await assert.rejects(c.setDocument(key, "x", { ifVersion: 7 }), client.Conflict);
    const first = await c.setDocument(key, "1", { ifVersion: 0 });
    await assert.rejects(c.setDocument(key, "x", { ifVersion: 0 }), client.Conflict);
    const second = await c.setDocument(key, "2", { ifVersion: first.version });
    assert.ok(second.version > first.version);
    assert.deepEqual(second.createdAt, first.createdAt);
    await assert.rejects(c.setDocument(key, "x", { ifVersion: first.version }), client.Conflict);
    await assert.rejects(c.deleteDocument(key, { ifVersion: first.version }), client.Conflict);
    assert.equal(await text(key), "2");
    await c.deleteDocument(key, { ifVersion: second.version });
    const again = await c.setDocument(key, "3", { ifVersion: 0 });
    assert.ok(again.version !== first.version && again.version !== second.version);
  });

  test("all pages of documents are listed", async () => {
    const prefix = `page-${randomUUID()}-`;
    const keys = Array.from({ length: 130 }, (_, i) => `${prefix}${String(i).padStart(3, "0")}`);
    await Promise.all([...keys].reverse().map((key) => c.setDocument(key, key)));
    assert.deepEqual(
      (await listed(prefix)).map((one) => one.key),
      keys,
    );
  });

  test("a document that has expired does not exist", async () => {
    const key = `brief-${randomUUID()}`;
    await c.setDocument(key, "x", { expiresAt: Date.now() + 200 });
    const read = async (): Promise<void> => {
      for (;;) await c.document(key);
    };
    await assert.rejects(read(), client.NotFound);
  });
});
