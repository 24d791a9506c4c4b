// A program that does on request whatever a handler may do. The tests here run it, and so
// may any host: `node build/conformance.js` is the command of its handler.

import { setTimeout } from "node:timers/promises";
import {
  Again,
  type AgainOptions,
  batch,
  type Child,
  Ended,
  InDoubt,
  Permanent,
  Retry,
  RetryIn,
  type Signal,
  Snooze,
  serve,
  steps,
  type Task,
  WaitFor,
  WaitForChildren,
  type WaitOptions,
  type Woken,
} from "taskengine-handler";

const DAY = 24 * 60 * 60 * 1000;

interface Documents {
  read?: string;
  append?: string;
  write?: { key: string; data?: string; delete?: boolean; expires_ms?: number }[];
}

interface Failure {
  message: string;
  class?: string;
  permanent?: boolean;
  retry_delay_ms?: number;
}

interface Line {
  level: "debug" | "info" | "warn" | "error";
  message: string;
  fields?: Record<string, string>;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}

function describe(task: Task): string {
  const seen = {
    id: task.id,
    type: task.type,
    attempt: task.attempt,
    crashes: task.crashes,
    priority: task.priority,
    key: task.key,
    ordering_key: task.orderingKey,
    headers: task.headers,
    payload: base64(task.payload),
    time_left_us: Math.round((task.timeLeft ?? 0) * 1000),
    checkpoint: base64(task.checkpoint),
  };
  return `{"version":${task.version},${JSON.stringify(seen).slice(1)}`; // JSON.stringify takes no bigint
}

interface Family {
  name: string;
  type: string;
  payloads: string[];
  count?: number;
  or_failed?: boolean;
  result?: string;
}

function idsOf(count: number, set: { id(number: number): string }): string[] {
  return Array.from({ length: count }, (_, number) => set.id(number));
}

function heard({ by, id, name, data }: Woken): object {
  return by === "signal" ? { by, id, name, data: base64(data) } : { by };
}

function failAsAsked(task: Task): never {
  const { message, class: errorClass = "", permanent, retry_delay_ms: delay } = task.json<Failure>();
  if (permanent) throw new Permanent(message, { class: errorClass });
  if (delay !== undefined) throw new RetryIn(delay, message, { class: errorClass });
  throw new Retry(message, { class: errorClass });
}

await serve(
  {
    noop: () => undefined,
    echo: (task) => task.payload,
    json: (task) => {
      const { a, b } = task.json<{ a: number; b: number }>();
      return { sum: a + b };
    },
    describe,
    error: failAsAsked,
    throw: (task) => {
      throw new Error(task.text());
    },
    doubt: (task) => {
      throw new InDoubt(task.text());
    },
    unencodable: () => Number.NaN,
    snooze: (task) => new Snooze(task.json<{ delay_ms: number }>().delay_ms),
    again: (task) => {
      const { at_ms, result } = task.json<{ at_ms: number; result: string }>();
      return new Again(at_ms, result);
    },
    rerun: (task) => {
      const { at_ms, result, ...options } = task.json<{ at_ms: number; result: string } & AgainOptions>();
      return new Again(at_ms, result, options);
    },
    ended: () => new Ended(),
    wait: ({ signal }) => setTimeout(DAY, undefined, { signal }),
    hang: () => setTimeout(DAY),
    log: (task) => {
      const { level, message, fields } = task.json<Line>();
      task.log[level](message, fields);
    },
    print: (task) => {
      console.log(task.text());
      console.error(task.text());
    },
    progress: (task) => {
      const { done, total, message } = task.json<{ done: number; total: number; message: string }>();
      task.progress(done, total, message);
    },
    checkpoint: (task) => {
      task.saveCheckpoint(task.payload);
      throw new Error("kept");
    },
    keep: async (task) => {
      await task.saveCheckpoint(task.payload);
      return "stored";
    },
    await: (task) => {
      if (task.woken) return heard(task.woken);
      const {
        names,
        timeout_ms: timeout,
        ...options
      } = task.json<{ names: string[]; timeout_ms?: number } & WaitOptions>();
      return new WaitFor(names, { ...options, timeout });
    },
    flow: steps({ version: 1 }, async (task) => {
      const began = await task.step("begin", () => String(process.pid));
      const woken = await task.waitFor("packed", { timeout: DAY / 24 });
      return { ...heard(woken), began, ended: await task.step("end", () => String(process.pid)) };
    }),
    children: (task) => {
      task.spawn(task.json<{ type: string; key: string; payload: string }>());
      return "spawned";
    },
    after: (task) => {
      const { any: afterAny, ...child } = task.json<Child & { any?: boolean }>();
      task.spawn({ ...child, ...(afterAny && { afterAny }) });
      return "spawned";
    },
    family: (task) => {
      const { woken, parent } = task;
      if (woken) {
        const children = [...task.children.values()].map((set) => {
          const { name, added, done, failed, cancelled } = set;
          return { name, added, done, failed, cancelled, ids: idsOf(added, set) };
        });
        return { by: woken.by, parent: parent && { ...parent, index: parent.number }, children };
      }
      const { name, type, payloads, count, or_failed: orFailed, result } = task.json<Family>();
      task.addChildren(
        name,
        payloads.map((payload) => ({ type, payload })),
      );
      return new WaitForChildren({ name, count, orFailed }, { result });
    },
    check: async (task) => {
      const { name, children } = task.json<{ name: string; children: Child[] }>();
      if (name) return await task.checkChildren(name, children);
      const refused = await task.checkSpawn(children[0] as Child);
      return refused ? [refused] : [];
    },
    documents: async (task) => {
      const { read, append, write = [] } = task.json<Documents>();
      let found = {};
      if (read !== undefined) {
        const document = await task.readDocument(read);
        const expires = document.expiresAt?.getTime() ?? 0;
        found = { data: document.text(), version: String(document.version), expires_ms: expires };
        if (append !== undefined) task.writeDocument(document, document.text() + append);
      }
      for (const { key, data, delete: gone, expires_ms: expiresAt } of write) {
        if (gone) task.deleteDocument(key);
        else task.writeDocument(key, data, { expiresAt });
      }
      return found;
    },
    signals: (task) => {
      const { ordering_key: orderingKey, ...signal } = task.json<Signal & { ordering_key?: string }>();
      task.sendSignal({ ...signal, orderingKey });
      return "sent";
    },
    fan: steps({ version: 1 }, async (task) => {
      const began = await task.step("begin", () => String(process.pid));
      const { type, payloads } = task.json<Family>();
      const pages = await task.runChildren(
        "page",
        payloads.map((payload) => ({ type, payload })),
      );
      const ended = await task.step("end", () => String(process.pid));
      return { ...pages, began, ended, ids: idsOf(pages.count, pages) };
    }),
    batch: batch({ size: 10, wait: 100 }, (tasks) =>
      tasks.map((task) => (task.text() === "fail" ? new Error("asked to") : String(tasks.length))),
    ),
    big: (task) => "x".repeat(Number(task.text())),
    exit: (task) => process.exit(Number(task.text())),
  },
  { version: "conformance" },
);
