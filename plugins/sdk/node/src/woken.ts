// What ended the wait of a task for a signal or for children.

import { type Woken as WireWoken, Woken_By } from "./gen/handler_pb.js";
import { decode } from "./text.js";

/** The end of a wait: a signal, the end of its time, a user who has resumed the task, or the ends of children. */
export interface Woken {
  readonly by: "signal" | "timeout" | "user" | "children";
  /** Of the signal, a UUID in its textual form; empty without one, as are the others. */
  readonly id: string;
  readonly name: string;
  /** When the signal came. */
  readonly at: Date | undefined;
  /** What the sender has given with the signal. */
  readonly data: Uint8Array;
  /** The data as text. */
  text(): string;
  /** The data as JSON, which `parse` gives its type. */
  json<T = unknown>(parse?: (value: unknown) => T): T;
}

const NAMES = {
  [Woken_By.SIGNAL]: "signal",
  [Woken_By.TIMEOUT]: "timeout",
  [Woken_By.USER]: "user",
  [Woken_By.CHILDREN]: "children",
} as const;

/** The end of a wait, with the time of the signal in microseconds. */
export class Wake implements Woken {
  readonly by: Woken["by"];
  readonly id: string;
  readonly name: string;
  readonly data: Uint8Array;
  readonly micros: bigint;

  constructor(by: Woken["by"], id = "", name = "", micros = 0n, data: Uint8Array = new Uint8Array()) {
    this.by = by;
    this.id = id;
    this.name = name;
    this.micros = micros;
    this.data = data;
  }

  get at(): Date | undefined {
    return this.by === "signal" ? new Date(Number(this.micros) / 1000) : undefined;
  }

  text(): string {
    const text = decode(this.data);
    if (text === undefined) throw new TypeError("the data of the signal is not UTF-8");
    return text;
  }

  json<T = unknown>(parse?: (value: unknown) => T): T {
    const value: unknown = JSON.parse(this.text());
    return parse ? parse(value) : (value as T);
  }
}

/** What a host has sent; undefined if that is nothing. */
export function wokenOf(wire: WireWoken | undefined): Wake | undefined {
  if (!wire || wire.by === Woken_By.UNSPECIFIED || !(wire.by in NAMES)) return undefined;
  if (wire.by !== Woken_By.SIGNAL) return new Wake(NAMES[wire.by]);
  return new Wake("signal", uuid(wire.id), wire.name, wire.at, new Uint8Array(wire.data));
}

/** The textual form of an id. */
export function uuid(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
