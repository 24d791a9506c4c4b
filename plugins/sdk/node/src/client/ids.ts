// Ids of tasks.

import { randomFillSync } from "node:crypto";

const DRAW = 4096; // random bytes at once: a multiple of 8

/**
 * Makes UUIDs of version 7 that strictly increase. Their last byte puts them into the shard of the task's keys, as
 * the Go client does it.
 */
export class Ids {
  readonly #drawn = Buffer.alloc(DRAW);
  readonly #clock: () => number;
  readonly #random: (buffer: Buffer) => void;
  #used = DRAW;
  #ms = 0; // of the newest id
  #count = 0; // its twelve bits after the millisecond

  constructor(clock: () => number = Date.now, random: (buffer: Buffer) => void = randomFillSync) {
    this.#clock = clock;
    this.#random = random;
  }

  /** A new id for a task with these keys. */
  next(type: string, key: string, orderingKey: string): string {
    const now = this.#clock();
    if (now > this.#ms) {
      this.#ms = now;
      this.#count = 0;
    } else if (++this.#count === 0x1000) {
      this.#ms++;
      this.#count = 0;
    }
    if (this.#used === DRAW) {
      this.#random(this.#drawn);
      this.#used = 0;
    }
    const id = Buffer.allocUnsafe(16);
    id.writeUIntBE(this.#ms, 0, 6);
    id.writeUInt16BE(0x7000 | this.#count, 6);
    this.#drawn.copy(id, 8, this.#used, this.#used + 8);
    this.#used += 8;
    id.writeUInt8((id.readUInt8(8) & 0x3f) | 0x80, 8);
    if (key || orderingKey) {
      const shard = hash(orderingKey || `${type}\0${key}`) & 0xff;
      id.writeUInt8(id.readUInt8(3) ^ id.readUInt8(7) ^ shard, 15);
    }
    const hex = id.toString("hex");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }
}

/** FNV-1a with 32 bits. */
function hash(name: string): number {
  let h = 0x811c9dc5;
  for (const byte of Buffer.from(name)) h = Math.imul(h ^ byte, 0x01000193);
  return h >>> 0;
}
