// A handler program, and how it presents itself.

import { create } from "@bufbuild/protobuf";
import { type Around, surrounded } from "./around.js";
import { type Hello, HelloSchema } from "./gen/handler_pb.js";
import type { Handlers } from "./task.js";
import { VERSION } from "./version.js";

/** Settings of a program besides its handlers. */
export interface ServeOptions {
  /** The program's own version, for people. */
  version?: string;
  /**
   * How many tasks to run at once unless the host says so, 1 to 65536; by default 64, or as
   * many as go into the largest batch.
   */
  slots?: number;
  /** Surrounds each call of a handler. */
  around?: Around;
}

/** What is served. */
export interface Program {
  handlers: Handlers;
  version: string;
  slots: number;
}

export const PROTOCOL = 1;
const FEATURES = ["checkpoint", "children", "ended", "progress", "rerun", "wait"];
const DEFAULT_SLOTS = 64;
const MAX_SLOTS = 1 << 16;

export function programOf(handlers: Handlers, options: ServeOptions): Program {
  const program = { handlers, version: options.version ?? "", slots: options.slots ?? slotsFor(handlers) };
  const { around } = options;
  return around && !problemOf(program) ? { ...program, handlers: surrounded(handlers, around) } : program;
}

function slotsFor(handlers: Handlers): number {
  const batches = Object.values(handlers).map((handler) => (typeof handler === "function" ? 1 : (handler?.size ?? 1)));
  return Math.min(MAX_SLOTS, Math.max(DEFAULT_SLOTS, ...batches));
}

/** Why a program cannot run, for people. */
export function problemOf({ handlers, slots }: Program): string | undefined {
  const entries = Object.entries(handlers);
  if (entries.length === 0) return 'the program has no handler: serve({ "some.type": (task) => ... })';
  for (const [type, handler] of entries) {
    if (type === "") return "a handler has no task type: its key is empty";
    if (typeof handler !== "function" && typeof handler?.handle !== "function") {
      return `the handler of ${JSON.stringify(type)} is neither a function nor a batch`;
    }
  }
  if (!Number.isInteger(slots) || slots < 1 || slots > MAX_SLOTS) {
    return `the program has ${slots} slots: give 1 to ${MAX_SLOTS}`;
  }
  return undefined;
}

export function helloOf({ handlers, version }: Program, slots: number): Hello {
  return create(HelloSchema, {
    protocol: PROTOCOL,
    sdk: "node",
    sdkVersion: VERSION,
    version,
    types: Object.keys(handlers).sort(),
    slots,
    features: FEATURES,
  });
}
