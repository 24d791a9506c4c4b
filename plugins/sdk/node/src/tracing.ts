/**
 * Spans of OpenTelemetry: a request, the tasks that it adds, their handlers, and what these add are one trace.
 *
 * ```ts
 * import { serve } from "taskengine-handler";
 * import { Client } from "taskengine-handler/client";
 * import { Tracing } from "taskengine-handler/tracing";
 *
 * const tracing = new Tracing();
 * const client = new Client("10.0.0.1:7420", { decorate: tracing.decorate }); // tasks belong to the trace of the caller
 * await serve({ mail: send }, { around: tracing.around }); // a span for each call of a handler
 * ```
 *
 * It needs the package `@opentelemetry/api`. Which spans are recorded, and where they are sent, the program configures as
 * for its other spans.
 *
 * @packageDocumentation
 */

import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { Ended, Snooze } from "./answers.js";
import type { Around } from "./around.js";
import type { NewTask } from "./client/index.js";
import type { Task } from "./task.js";
import { VERSION } from "./version.js";

/** Makes the spans of handlers. */
export class Tracing {
  readonly #tracer: Tracer;

  /** @param provider makes the tracer; without it that of the process does */
  constructor(provider: Pick<TracerProvider, "getTracer"> = trace) {
    this.#tracer = provider.getTracer("taskengine", VERSION);
  }

  /**
   * A span for the call of a handler, which is active meanwhile. It is a child of the trace context in the headers of the
   * task. The span of a batch is linked to those of its tasks. It is for the option `around`.
   */
  readonly around: Around = (tasks, call) => {
    const contexts = tasks.map(({ headers }) => contextOf(headers));
    const isBatch = tasks.length > 1;
    const parent = isBatch ? undefined : contexts[0];
    const links = isBatch ? contexts.filter((c) => c !== undefined).map((c) => ({ context: c })) : [];
    return this.#tracer.startActiveSpan(
      `handle ${tasks[0]?.type}`,
      { kind: SpanKind.CONSUMER, attributes: attributesOf(tasks), links },
      parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT,
      (span) => observe(span, call),
    );
  };

  /**
   * The task with the trace context of the active span in its headers. One that has a trace context keeps it. It is for
   * the option `decorate` of a client.
   */
  readonly decorate = (task: NewTask): NewTask => {
    const { headers = {} } = task;
    if (Object.keys(headers).some((name) => name.toLowerCase() === "traceparent")) return task;
    return { ...task, headers: { ...headers, ...headersOf(context.active()) } };
  };
}

async function observe(span: Span, call: () => Promise<unknown>): Promise<unknown> {
  try {
    const value = await call();
    span.setAttribute("taskengine.outcome", outcomeOf(value));
    return value;
  } catch (error) {
    const known = error instanceof Error ? error : new Error(String(error));
    const { class: named } = known as { class?: unknown };
    span.setAttribute("taskengine.outcome", "errored");
    span.setAttribute("error.type", typeof named === "string" && named !== "" ? named : known.name);
    span.recordException(known);
    span.setStatus({ code: SpanStatusCode.ERROR, message: known.message });
    throw error;
  } finally {
    span.end();
  }
}

function outcomeOf(value: unknown): string {
  if (value instanceof Snooze) return "snoozed";
  if (value instanceof Ended) return "ended";
  return "completed"; // also of one that is due again
}

function attributesOf(tasks: readonly Task[]): Attributes {
  const attributes: Attributes = {
    "messaging.system": "taskengine",
    "messaging.operation.type": "process",
    "messaging.destination.name": tasks[0]?.type ?? "",
  };
  if (tasks.length > 1) return { ...attributes, "messaging.batch.message_count": tasks.length };
  return {
    ...attributes,
    "messaging.message.id": tasks[0]?.id ?? "",
    "taskengine.attempt": tasks[0]?.attempt ?? 0,
  };
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** The trace context of headers, as the W3C recommendation "Trace Context" defines it. */
function contextOf(headers: Readonly<Record<string, string>>): SpanContext | undefined {
  const found = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const [, traceId, spanId, flags] = TRACEPARENT.exec(found.get("traceparent")?.trim() ?? "") ?? [];
  if (!traceId || !spanId || !flags || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  const of: SpanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  const state = found.get("tracestate");
  return state ? { ...of, traceState: createTraceState(state) } : of;
}

function headersOf(of: Context): Record<string, string> {
  const current = trace.getSpanContext(of);
  if (!current || /^0+$/.test(current.traceId)) return {};
  const flags = (current.traceFlags & 0xff).toString(16).padStart(2, "0");
  const headers: Record<string, string> = { traceparent: `00-${current.traceId}-${current.spanId}-${flags}` };
  const state = current.traceState?.serialize();
  if (state) headers["tracestate"] = state;
  return headers;
}
