// The results of the steps of a task, as they are in its checkpoint. The package steps for Go reads and writes the same.

import { Permanent, Retry } from "./answers.js";
import { MAX_CHECKPOINT } from "./run.js";
import { decode } from "./text.js";
import { Wake, type Woken } from "./woken.js";

const FORM = 1; // the number of the form of a record

/** A step that is done, or a wait. */
export interface Step {
  kind: "do" | "wait" | "sleep" | "children";
  name: string;
  result?: unknown;
  error?: { message: string; class?: string; permanent?: boolean };
  until?: string;
  over?: boolean;
  woken?: WokenRecord;
  /** How the children of the step have ended; until then, the counts of their name before the step. */
  children?: ChildrenRecord;
}

/** A count that is missing is 0. */
export interface ChildrenRecord {
  from?: number;
  count: number;
  done?: number;
  failed?: number;
  cancelled?: number;
}

interface WokenRecord {
  by: number;
  id?: string;
  name?: string;
  at?: string;
  data?: string;
}

/** The steps of a task, and the version of the code with which it began. */
export interface Steps {
  version: number;
  /** How often a recurring task was due before. */
  occurrence: number;
  done: Step[];
}

/** Reads the checkpoint of a task that begins with a version of the code, or has begun. */
export function readSteps(checkpoint: Uint8Array, version: number): Steps {
  if (checkpoint.length === 0) return { version, occurrence: 0, done: [] };
  let record: { steps?: number; version?: number; occurrence?: number; done?: Step[] } | null = null;
  try {
    record = JSON.parse(decode(checkpoint) ?? "");
  } catch {
    // it is of another kind
  }
  const form = record?.steps;
  if (!record || typeof form !== "number" || form === 0) {
    throw changed("the checkpoint of the task is not one of steps: a handler of another kind has begun it");
  }
  if (form !== FORM) {
    throw new Retry(`steps: the steps of the task have the form ${form}, and this program reads ${FORM}`, {
      class: "steps_newer",
    });
  }
  return { version: record.version || version, occurrence: record.occurrence ?? 0, done: record.done ?? [] };
}

/** The checkpoint of a task. It throws a permanent error if it is too large: the steps do not become smaller. */
export function writeSteps({ version, occurrence, done }: Steps): Uint8Array {
  const record = { steps: FORM, version, done, ...(occurrence > 0 && { occurrence }) };
  const bytes = Buffer.from(JSON.stringify(record));
  if (bytes.length > MAX_CHECKPOINT) {
    throw new Permanent(
      `the results of ${done.length} steps have ${bytes.length} bytes, of ${MAX_CHECKPOINT} allowed: ` +
        "keep large results elsewhere, and have steps return where",
      { class: "steps_too_large" },
    );
  }
  return bytes;
}

/** The error of a task whose steps are not those of the code. */
export function changed(why: string): Permanent {
  return new Permanent(`steps: ${why}`, { class: "steps_changed" });
}

/** The counts of children, without those that are 0. */
export function countsOf(count: number, from: number, done: number, failed: number, cancelled: number): ChildrenRecord {
  return {
    ...(from > 0 && { from }),
    count,
    ...(done > 0 && { done }),
    ...(failed > 0 && { failed }),
    ...(cancelled > 0 && { cancelled }),
  };
}

const WAKERS = ["", "signal", "timeout", "user"];

export function recordOf(woken: Wake): WokenRecord {
  const record: WokenRecord = { by: WAKERS.indexOf(woken.by) };
  if (woken.by !== "signal") return record;
  const { id, name, data } = woken;
  const more = data.length > 0 && { data: Buffer.from(data).toString("base64") };
  return { ...record, id, name, at: timeText(woken.micros), ...more };
}

export function wokenIn(record: WokenRecord | undefined): Woken {
  const by = (WAKERS[record?.by ?? 0] || "user") as Woken["by"];
  if (by !== "signal") return new Wake(by);
  const data = new Uint8Array(Buffer.from(record?.data ?? "", "base64"));
  return new Wake(by, record?.id, record?.name, timeIn(record?.at ?? ""), data);
}

/** A time in RFC 3339. */
export function timeText(micros: bigint): string {
  const seconds = micros / 1_000_000n;
  const fraction = String(micros % 1_000_000n).padStart(6, "0");
  return new Date(Number(seconds) * 1000).toISOString().replace(/\.\d+Z$/, `.${fraction}Z`);
}

/** The microseconds of a time in RFC 3339. */
export function timeIn(text: string): bigint {
  const [, whole, fraction = "", zone] = /^(.*?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  const seconds = Date.parse(`${whole}${zone}`) / 1000;
  if (!Number.isFinite(seconds)) throw changed(`the time ${JSON.stringify(text)} of the task cannot be read`);
  return BigInt(seconds) * 1_000_000n + BigInt(fraction.slice(0, 6).padEnd(6, "0"));
}
