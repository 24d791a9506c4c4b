// Middleware and spans, with a real node.

import assert from "node:assert/strict";
import { suite, type TestContext, test } from "node:test";
import { context, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Client } from "../dist/client/index.js";
import { type Around, batch, Permanent, Snooze } from "../dist/index.js";
import { TestEngine } from "../dist/testing.js";
import { Tracing } from "../dist/tracing.js";
import { skip } from "./node.js";

async function start(t: TestContext): Promise<TestEngine> {
  const engine = await TestEngine.start({ types: { plain: { retry: { max: 1 } }, later: {}, batch: {} } });
  t.after(() => engine.close());
  return engine;
}

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

function tracer() {
  const exported = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exported)] });
  const spans = () => new Map(exported.getFinishedSpans().map((span) => [span.name, span]));
  return { exported, provider, spans, tracing: new Tracing(provider) };
}

suite("what surrounds handlers", { skip }, () => {
  test("is called with the tasks of each call, and decides about its answer", async (t) => {
    const engine = await start(t);
    const said: string[] = [];
    const around: Around = async (tasks, call) => {
      said.push(`begin ${tasks.map(({ type }) => type)}`);
      try {
        return await call();
      } catch (error) {
        said.push(`failed ${error}`);
        if (String(error).includes("swallow")) return "instead";
        throw error;
      } finally {
        said.push("end");
      }
    };
    await engine.handle(
      {
        plain: (task) => {
          throw new Error(task.text());
        },
        batch: batch({ size: 2, wait: 1 }, (tasks) => tasks.map(() => "done")),
      },
      { around },
    );
    for (const [type, payload] of [
      ["plain", "no"],
      ["plain", "swallow"],
      ["batch", "x"],
    ] as const) {
      await engine.client.submit(type, Buffer.from(payload));
      await engine.advance();
    }
    const [failed, swallowed, batched] = await engine.tasks();
    assert.deepEqual([failed?.state, swallowed?.state, batched?.state], ["error", "done", "done"]);
    assert.equal(Buffer.from(swallowed?.result ?? []).toString(), "instead");
    assert.deepEqual(said, [
      "begin plain",
      "failed Error: no",
      "end",
      "begin plain",
      "failed Error: swallow",
      "end",
      "begin batch",
      "end",
    ]);
  });
});

suite("spans", { skip }, () => {
  test("of a request, its tasks and what these add are one trace", async (t) => {
    const engine = await start(t);
    const { provider, spans, tracing } = tracer();
    const client = new Client(engine.address, { decorate: tracing.decorate });
    t.after(() => client.close());
    await engine.handle(
      {
        plain: async () => void (await client.submit("later", 1)),
        later: () => provider.getTracer("own").startActiveSpan("own", (span) => span.end()),
      },
      { around: tracing.around },
    );
    await provider.getTracer("shop").startActiveSpan("request", async (span) => {
      await client.submit("plain", 1);
      span.end();
    });
    await engine.advance();
    const all = spans();
    const parentOf = (name: string) => all.get(name)?.parentSpanContext?.spanId;
    const idOf = (name: string) => all.get(name)?.spanContext().spanId;
    assert.deepEqual([...all.keys()].sort(), ["handle later", "handle plain", "own", "request"]);
    assert.deepEqual(
      [parentOf("handle plain"), parentOf("handle later"), parentOf("own")],
      [idOf("request"), idOf("handle plain"), idOf("handle later")],
    );
    assert.equal(new Set([...all.values()].map((span) => span.spanContext().traceId)).size, 1);
    const { attributes } = all.get("handle plain") ?? {};
    const { id } = await engine.only("plain");
    assert.deepEqual(
      [
        attributes?.["messaging.destination.name"],
        attributes?.["messaging.message.id"],
        attributes?.["taskengine.attempt"],
      ],
      ["plain", id, 1],
    );
  });

  test("say how a handler has ended", async (t) => {
    const engine = await start(t);
    const { exported, tracing } = tracer();
    const ends = [new TypeError("no"), new Permanent("never", { class: "funds" }), new Snooze(60_000)];
    const plain = () => {
      const end = ends.shift();
      if (end instanceof Error) throw end;
      return end;
    };
    await engine.handle({ plain }, { around: tracing.around });
    for (let n = 0; n < 3; n++) {
      await engine.client.submit("plain", n);
      await engine.advance();
    }
    const got = exported.getFinishedSpans().map(({ attributes, status }) => {
      return [attributes["taskengine.outcome"], attributes["error.type"], status.code];
    });
    assert.deepEqual(got, [
      ["errored", "TypeError", SpanStatusCode.ERROR],
      ["errored", "funds", SpanStatusCode.ERROR],
      ["snoozed", undefined, SpanStatusCode.UNSET],
    ]);
  });

  test("of batches are linked to those of their tasks", async (t) => {
    const engine = await start(t);
    const { spans, tracing } = tracer();
    for (const n of ["1", "2"]) {
      const traceparent = `00-${n.padStart(32, "0")}-${n.padStart(16, "0")}-01`;
      await engine.client.submit("batch", 1, { headers: { Traceparent: traceparent } });
    }
    await engine.client.submit("batch", 1, { headers: { traceparent: "nonsense" } });
    const handler = batch({ size: 3, wait: 60_000 }, (tasks) => tasks.map(() => undefined));
    await engine.handle({ batch: handler }, { around: tracing.around });
    await engine.advance();
    const span = spans().get("handle batch");
    assert.equal(span?.parentSpanContext, undefined);
    assert.deepEqual(
      span?.links.map((link) => link.context.traceId.replace(/^0+/, "")),
      ["1", "2"],
    );
    assert.equal(span?.attributes["messaging.batch.message_count"], 3);
  });

  test("leave tasks as they are without an active one, and those that have a trace context", () => {
    const { decorate } = new Tracing(trace);
    assert.deepEqual(decorate({ type: "t", headers: { a: "b" } }).headers, { a: "b" });
    const traced = { type: "t", headers: { TraceParent: "00-1" } };
    assert.equal(decorate(traced), traced);
  });
});
