// Children of a task, which it learns the ends of, and the task that a child belongs to.

import { createHash } from "node:crypto";
import type { Parent as WireParent, ChildSet as WireSet } from "./gen/handler_pb.js";
import { uuid } from "./woken.js";

/**
 * How the children of one name have ended. They have the numbers from 0 to `added - 1`. A child that is in error has not
 * ended: a person decides about it.
 */
export interface ChildSet {
  readonly name: string;
  readonly added: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  /** How many have ended. */
  readonly ended: number;
  /** Whether the child of this number has ended. */
  hasEnded(number: number): boolean;
  /** The id of the child of this number, where one database keeps the tasks. */
  id(number: number): string;
}

/** The task that learns of the end of a child, the name of its children, and the number of the child among them. */
export interface Parent {
  readonly id: string;
  readonly name: string;
  readonly number: number;
}

/** How the children of a step have ended. */
export interface EndedChildren {
  readonly count: number;
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  /** The id of the child of this number in the step, from 0 on, where one database keeps the tasks. */
  id(number: number): string;
}

/** The children of one name, which a host has sent. */
export class Siblings implements ChildSet {
  readonly #parent: Uint8Array;
  readonly #wire: Pick<WireSet, "name" | "added" | "done" | "failed" | "cancelled" | "ended" | "shards">;

  constructor(
    parent: Uint8Array,
    wire: Pick<WireSet, "name" | "added" | "done" | "failed" | "cancelled" | "ended" | "shards">,
  ) {
    this.#parent = parent;
    this.#wire = wire;
  }

  get name(): string {
    return this.#wire.name;
  }

  get added(): number {
    return this.#wire.added;
  }

  get done(): number {
    return this.#wire.done;
  }

  get failed(): number {
    return this.#wire.failed;
  }

  get cancelled(): number {
    return this.#wire.cancelled;
  }

  get ended(): number {
    return this.done + this.failed + this.cancelled;
  }

  hasEnded(number: number): boolean {
    return ((this.#wire.ended[number >> 3] ?? 0) & (1 << (number & 7))) !== 0;
  }

  id(number: number): string {
    return childId(this.#parent, this.name, number, this.#wire.shards);
  }
}

/** The id of a child, which is made of that of its parent, the name and the number. */
export function childId(
  parent: Uint8Array,
  name: string,
  number: number,
  shards: Uint8Array = new Uint8Array(),
): string {
  const digest = createHash("sha256").update(parent).update(name).digest();
  const made = Buffer.concat([parent.subarray(0, 6), digest.subarray(0, 10)]);
  const at = (i: number) => made[i] ?? 0;
  made[6] = (at(6) & 0x0f) | 0x80;
  made[8] = (at(8) & 0x3f) | 0x80;
  made[12] = (at(12) & 0xf0) | ((number >> 16) & 0x0f);
  made.writeUInt16BE(number & 0xffff, 13);
  const shard = shards[number];
  made[15] = shard === undefined ? at(15) ^ (number & 0xff) : at(3) ^ at(7) ^ shard;
  return uuid(made);
}

export function parentOf(wire: WireParent | undefined): Parent | undefined {
  return wire && { id: uuid(wire.taskId), name: wire.name, number: wire.index };
}

/** The bytes of an id in its textual form. */
export function idBytes(id: string, what: string): Uint8Array {
  const hex = id.replaceAll("-", "");
  if (!/^[0-9a-fA-F]{32}$/.test(hex)) throw new TypeError(`${what} is a UUID, not ${JSON.stringify(id)}`);
  return new Uint8Array(Buffer.from(hex, "hex"));
}
