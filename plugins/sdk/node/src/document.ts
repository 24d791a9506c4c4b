// Documents: small states that tasks share.

import { create } from "@bufbuild/protobuf";
import { type DocumentRead, WriteDocumentSchema, type WriteDocument as WriteMessage } from "./gen/handler_pb.js";
import { copy, encodeOrFail } from "./text.js";
import { micros } from "./time.js";

/** How many bytes a document may have. */
export const MAX_DOCUMENT = 256 << 10;

/** How many documents an answer may write. */
export const MAX_DOCUMENTS = 16;

/** A small state that tasks share, as it was when a task has read it. */
export interface Document {
  readonly key: string;
  readonly data: Uint8Array;
  /** Another one, and a greater one, after each write; 0n if there is no document of the key. */
  readonly version: bigint;
  /** When it was first written. */
  readonly createdAt: Date | undefined;
  /** When it was last written. */
  readonly updatedAt: Date | undefined;
  /** From when on it does not exist; undefined is never. */
  readonly expiresAt: Date | undefined;
  /** The data as text. */
  text(): string;
  /** The data as JSON; undefined if there is no document. Without `parse` the type is taken on trust. */
  json<T = unknown>(parse?: (value: unknown) => T): T | undefined;
}

/** How a document is written or deleted by its key. */
export interface DocumentOptions {
  /** The version that the document has to have; 0 is that there is none. Any version without it. */
  ifVersion?: bigint | number | undefined;
  /** When the document ends: an instant, or Unix time in milliseconds. Never without it. Not of a document to delete. */
  expiresAt?: Date | number | undefined;
}

/** A document that a host has sent. */
export class Read implements Document {
  readonly key: string;
  readonly #wire: DocumentRead;
  readonly data: Uint8Array;

  constructor(key: string, wire: DocumentRead) {
    this.key = key;
    this.#wire = wire;
    this.data = copy(wire.data);
  }

  get version(): bigint {
    return this.#wire.version;
  }

  get createdAt(): Date | undefined {
    return dateOf(this.#wire.createdAt);
  }

  get updatedAt(): Date | undefined {
    return dateOf(this.#wire.updatedAt);
  }

  get expiresAt(): Date | undefined {
    return dateOf(this.#wire.expiresAt);
  }

  /** The same in microseconds, which a Date does not have; 0n is never. */
  get expires(): bigint {
    return this.#wire.expiresAt;
  }

  text(): string {
    return new TextDecoder("utf-8", { fatal: true }).decode(this.data);
  }

  json<T = unknown>(parse: (value: unknown) => T = (value) => value as T): T | undefined {
    return this.version === 0n ? undefined : parse(JSON.parse(this.text()));
  }
}

/** A write of a document that was read, or of one with a key, as it is sent. */
export function writeOf(document: Document | string, data: unknown, options: DocumentOptions): WriteMessage {
  const message = named(document, options);
  message.data = copy(encodeOrFail(data, "a document"));
  if (message.data.length > MAX_DOCUMENT) {
    throw new RangeError(`the document has ${message.data.length} bytes, of ${MAX_DOCUMENT} allowed`);
  }
  if (options.expiresAt !== undefined) message.expiresAt = micros(Number(options.expiresAt));
  else if (document instanceof Read) message.expiresAt = document.expires;
  return message;
}

/** The same for a document to delete. */
export function deleteOf(document: Document | string, options: DocumentOptions): WriteMessage {
  return Object.assign(named(document, options), { delete: true });
}

function named(document: Document | string, { ifVersion }: DocumentOptions): WriteMessage {
  const read = document instanceof Read;
  const key = read ? document.key : document;
  if (typeof key !== "string" || key === "") {
    throw new TypeError("give the key of the document, or a document that the task has read");
  }
  if (read && ifVersion !== undefined) {
    throw new TypeError("a document that was read has a version: give its key and ifVersion for another one");
  }
  const replaces = read ? document.version : ifVersion === undefined ? undefined : BigInt(ifVersion);
  if (replaces !== undefined && (replaces < 0n || replaces >= 1n << 64n)) {
    throw new RangeError(`ifVersion is the version of a document, or 0 for none, and not ${replaces}`);
  }
  return create(WriteDocumentSchema, { key, ...(replaces !== undefined && { replaces }) });
}

function dateOf(micros: bigint): Date | undefined {
  return micros === 0n ? undefined : new Date(Number(micros / 1000n));
}
