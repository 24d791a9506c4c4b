// Texts and bytes as the protocol represents them.

import { isUtf8 } from "node:buffer";
import { inspect, types } from "node:util";
import { Permanent } from "./answers.js";

/** How much of one text is worth sending, in bytes. */
export const MAX_TEXT = 8 << 10;

/** Cuts a text at a character, so that it has at most `max` bytes. */
export function clip(text: string, max = MAX_TEXT): string {
  if (text.length * 3 <= max || Buffer.byteLength(text) <= max) return text;
  const bytes = Buffer.from(text);
  let end = max;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}

/** The text that bytes are, or undefined if they are not UTF-8. */
export function decode(bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return undefined;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}

/**
 * The bytes of a value: bytes as they are, a text as UTF-8, nothing as nothing, and
 * everything else as JSON. Throws for what is no JSON, and for what JSON.stringify would replace without a word.
 */
export function encode(value: unknown): Uint8Array {
  if (value === undefined) return new Uint8Array();
  if (typeof value === "string") {
    // Half of a pair of surrogates would become another text without a word.
    if (/\p{Surrogate}/u.test(value)) throw new TypeError("the text has half of a pair of surrogates");
    return Buffer.from(value);
  }
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return Buffer.from(toJSON(value, "neither bytes nor text nor JSON"));
}

/** The JSON of a value. Throws for what is no JSON, and for what JSON.stringify would replace without a word. */
export function toJSON(value: unknown, lacks = "no JSON"): string {
  const json: string | undefined = JSON.stringify(value, refuseWhatJSONLoses);
  if (json === undefined) throw new TypeError(`a ${typeof value} is ${lacks}`);
  return json;
}

/** JSON.stringify makes null of NaN and of infinite numbers, and an empty object of maps and sets. */
function refuseWhatJSONLoses(_key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is no JSON`);
  if (value instanceof Map || value instanceof Set) throw new TypeError("a Map or a Set is no JSON");
  return value;
}

/** Bytes of its own; a Buffer's slice would not be. */
export function copy(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes);
}

/**
 * The bytes of what a handler returns. What cannot be encoded is a permanent error of class "bad_result": another attempt
 * would do the work once more, and end in the same way.
 */
export function encodeOrFail(value: unknown, what: string): Uint8Array {
  try {
    return encode(value);
  } catch (cause) {
    throw new Permanent(`${what} cannot be encoded: ${headline(cause)}`, { class: "bad_result", cause });
  }
}

const STACK_LINES = 8;
const MAX_CAUSES = 4;

/**
 * The text of a thrown value, without its stack. It comes first, since only the start of a
 * text is kept.
 */
export function headline(thrown: unknown): string {
  try {
    if (!isError(thrown)) return typeof thrown === "string" ? thrown : inspect(thrown);
    const { name, message } = thrown;
    if (!message) return String(name);
    return name === "Error" ? String(message) : `${name}: ${message}`;
  } catch {
    return "(an error without a readable message)";
  }
}

/** The text of a thrown value, with its causes and the top of its stack. */
export function describe(thrown: unknown): string {
  const lines = [headline(thrown)];
  try {
    let cause = isError(thrown) ? thrown.cause : undefined;
    for (let n = 0; n < MAX_CAUSES && cause !== undefined; n++) {
      lines.push(`caused by ${headline(cause)}`);
      cause = isError(cause) ? cause.cause : undefined;
    }
    if (isError(thrown)) lines.push(...stackOf(thrown));
  } catch {
    // An error may be anything, even an object whose properties throw.
  }
  return lines.join("\n");
}

const OWN = `${__dirname}/`; // the folder of this package, to recognise its frames

function stackOf(error: Error): string[] {
  const calls = String(error.stack)
    .split("\n")
    .filter((line) => /^\s+at /.test(line) && !/ \(?node:/.test(line) && !line.includes(OWN));
  return calls.slice(0, STACK_LINES);
}

/** The class of an error for the rules of the retry policy: its name. */
export function classOf(thrown: unknown): string {
  try {
    return isError(thrown) ? String(thrown.name) : "";
  } catch {
    return "";
  }
}

/** Reports whether a value is an Error, also of another realm; false if that cannot be found out. */
export function isError(value: unknown): value is Error {
  try {
    return value instanceof Error || types.isNativeError(value);
  } catch {
    return false;
  }
}
