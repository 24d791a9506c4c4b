// Messages as plain objects: a time is a Date, a duration is a number of milliseconds, and a count or version is a number,
// of which JSON has no BigInt.

import {
  create,
  type DescField,
  type DescMessage,
  type Message,
  type MessageShape,
  ScalarType,
} from "@bufbuild/protobuf";
import { type Duration, DurationSchema, type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";

/** What a message is for the user of a client. */
export type Native<T> = T extends Timestamp
  ? Date
  : T extends Duration
    ? number
    : T extends Uint8Array
      ? Uint8Array
      : T extends readonly (infer U)[]
        ? Native<U>[]
        : T extends bigint
          ? number
          : T extends Message
            ? { [K in keyof T as Exclude<K, "$typeName" | "$unknown">]: Native<T[K]> }
            : T;

/** What the user of a client gives for a message: what is left out is absent. */
export type Given<T> = T extends Timestamp
  ? Date
  : T extends Duration
    ? number
    : T extends bigint
      ? number
      : T extends Message
        ? { [K in keyof T as Exclude<K, "$typeName" | "$unknown">]?: Given<T[K]> | undefined }
        : T;

/** Makes a plain object of a message. */
export function toNative<Desc extends DescMessage>(
  desc: Desc,
  message: MessageShape<Desc>,
): Native<MessageShape<Desc>> {
  const from = message as unknown as Record<string, unknown>;
  const to: Record<string, unknown> = {};
  for (const field of desc.fields) {
    const value = from[field.localName];
    const sub = messageOf(field);
    if (typeof value === "bigint") to[field.localName] = Number(value);
    else if (value === undefined || sub === undefined) to[field.localName] = value;
    else if (Array.isArray(value)) to[field.localName] = value.map((one) => nativeOf(sub, one));
    else to[field.localName] = nativeOf(sub, value);
  }
  return to as Native<MessageShape<Desc>>;
}

function nativeOf(desc: DescMessage, value: unknown): unknown {
  if (desc.typeName === TimestampSchema.typeName) {
    const { seconds, nanos } = value as Timestamp;
    return new Date(Number(seconds) * 1000 + Math.floor(nanos / 1e6));
  }
  if (desc.typeName === DurationSchema.typeName) {
    const { seconds, nanos } = value as Duration;
    return Number(seconds) * 1000 + nanos / 1e6;
  }
  return toNative(desc, value as Message);
}

/** Makes a message of a plain object. Throws a TypeError if it has a field that the message does not have. */
export function fromNative<Desc extends DescMessage>(desc: Desc, given: object): MessageShape<Desc> {
  const init: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given)) {
    const field = desc.fields.find((f) => f.localName === name);
    if (!field) throw new TypeError(`${desc.name} has no field ${name}`);
    if (value === undefined) continue;
    const sub = messageOf(field);
    if (sub) init[name] = messageFrom(sub, value);
    else init[name] = isLong(field) && typeof value === "number" ? BigInt(value) : value;
  }
  return create(desc, init as never) as MessageShape<Desc>;
}

function messageFrom(desc: DescMessage, value: unknown): unknown {
  if (desc.typeName === TimestampSchema.typeName) return timestamp(value as Date);
  if (desc.typeName === DurationSchema.typeName) return duration(value as number);
  if (typeof value !== "object" || value === null)
    throw new TypeError(`${desc.name} is an object, not ${String(value)}`);
  return fromNative(desc, value);
}

/** The message of a time: a Date, or milliseconds since 1970. */
export function timestamp(at: Date | number): Timestamp {
  const ms = Number(at);
  if (!Number.isFinite(ms)) throw new TypeError(`${String(at)} is no time: give a Date or milliseconds since 1970`);
  const seconds = Math.floor(ms / 1000);
  return create(TimestampSchema, { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) });
}

/** The message of so many milliseconds. */
export function duration(ms: number): Duration {
  if (typeof ms !== "number" || !Number.isFinite(ms)) throw new TypeError(`${String(ms)} is no number of milliseconds`);
  const seconds = Math.trunc(ms / 1000);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) });
}

/** Whether a field is a bigint in a message. */
function isLong(field: DescField): boolean {
  const long: (ScalarType | undefined)[] = [
    ScalarType.INT64,
    ScalarType.UINT64,
    ScalarType.SINT64,
    ScalarType.FIXED64,
    ScalarType.SFIXED64,
  ];
  return field.fieldKind === "scalar" && long.includes(field.scalar);
}

/** The message that a field has, alone or in a list. */
function messageOf(field: DescField): DescMessage | undefined {
  if (field.fieldKind === "message") return field.message;
  return field.fieldKind === "list" && field.listKind === "message" ? field.message : undefined;
}
