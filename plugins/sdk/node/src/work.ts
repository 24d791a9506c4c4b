// Programs that connect to nodes by themselves, as workers.

import { readFileSync } from "node:fs";
import { addressesIn } from "./access.js";
import { type Program, problemOf, programOf, type ServeOptions } from "./program.js";
import type { Handlers } from "./task.js";
import { Worker } from "./worker.js";

/** Certificates in PEM: their text, or a function that returns it, which is called for each connection. */
export interface WorkTls {
  /** Who signs the certificates of the nodes; without it those whom the system trusts. */
  ca?: Pem;
  /** The certificate of this worker, and its key. */
  cert?: Pem;
  key?: Pem;
}

export type Pem = string | Uint8Array | (() => string | Uint8Array);

/** To which nodes a program connects, and as what. */
export interface WorkOptions extends ServeOptions {
  /** Of the APIs of nodes: host:port, a URL of http or https, or unix: and a path. The slots are divided among them. */
  addresses: string | readonly string[];
  /** The name of the handler in the configuration of the nodes, if it is not the only one that fits. */
  handler?: string;
  /** Of this worker; the configuration may ask for some. */
  labels?: Readonly<Record<string, string>>;
  /** Sent to the nodes, which may want one with the role work. */
  token?: string;
  /** Of connections to host:port and URLs of https. Without it the former are not encrypted; with it, URLs of http are refused. */
  tls?: WorkTls;
  /** When it aborts, the worker takes no more tasks, and ends when those that run are answered. */
  signal?: AbortSignal;
  /** Is called with what happens to connections; by default it is written to the standard error. */
  log?: (message: string) => void;
}

/**
 * Runs tasks of nodes in this process, as a worker of theirs, until `signal` aborts and the tasks that have begun by then
 * are answered, or until every node has drained the worker. It connects again when a connection breaks. It throws a
 * TypeError or a RangeError for options that cannot be.
 *
 * ```ts
 * await work({ upper: (task) => task.text().toUpperCase() }, { addresses: "10.0.0.7:7420" });
 * ```
 */
export async function work(handlers: Handlers, options: WorkOptions): Promise<void> {
  const program = programOf(handlers, options);
  const problem = problemOf(program);
  if (problem) throw new TypeError(problem);
  const addresses = typeof options.addresses === "string" ? [options.addresses] : options.addresses;
  if (!Array.isArray(addresses) || addresses.length === 0) {
    throw new RangeError("no address of a node is given: give host:port, a URL of http or https, or unix: and a path");
  }
  const workers = addresses.map((address: string, n: number) => {
    const mine: Program = { ...program, slots: share(program.slots, addresses.length, n) };
    return new Worker(mine, address, options);
  });
  await Promise.all(workers.map((worker) => worker.run()));
}

/** The share of the n-th of some nodes in slots, at least 1. */
function share(slots: number, nodes: number, n: number): number {
  return Math.max(1, Math.floor(slots / nodes) + (n < slots % nodes ? 1 : 0));
}

/** Runs tasks of the nodes that the environment names until the process is asked to end. */
export async function workFromEnvironment(
  handlers: Handlers,
  options: ServeOptions,
  leave: (why: string) => never,
): Promise<void> {
  const ending = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => ending.abort()); // the second one ends the process
  try {
    await work(handlers, { ...options, ...optionsFrom(process.env), signal: ending.signal });
  } catch (error) {
    leave(error instanceof Error ? error.message : String(error));
  }
}

/** The options that are in environment variables. */
export function optionsFrom(env: Readonly<Record<string, string | undefined>>): WorkOptions {
  const options: WorkOptions = {
    addresses: addressesIn(env["TASKENGINE_ADDRESS"] ?? ""),
    labels: labelsOf(env["TASKENGINE_WORKER_LABELS"] ?? ""),
  };
  if (env["TASKENGINE_WORKER_HANDLER"]) options.handler = env["TASKENGINE_WORKER_HANDLER"];
  if (env["TASKENGINE_TOKEN"]) options.token = env["TASKENGINE_TOKEN"];
  const tls: WorkTls = {};
  for (const [option, name] of [
    ["ca", "TASKENGINE_CA"],
    ["cert", "TASKENGINE_CLIENT_CERT"],
    ["key", "TASKENGINE_CLIENT_KEY"],
  ] as const) {
    const file = env[name];
    if (!file) continue;
    tls[option] = () => readPem(name, file); // again for each connection, so that the file can be replaced
    options.tls = tls;
  }
  if (!tls.cert !== !tls.key) {
    throw new RangeError("TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY belong together: give both");
  }
  return options;
}

function readPem(name: string, file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new Error(`${name}: ${error instanceof Error ? error.message : error}`);
  }
}

/** Labels such as "region=eu,disk=fast". */
function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const part of text.split(",")) {
    if (part.trim() === "") continue;
    const at = part.indexOf("=");
    const name = part.slice(0, Math.max(0, at)).trim();
    if (name === "") {
      throw new RangeError(
        `TASKENGINE_WORKER_LABELS has ${JSON.stringify(part)}: give NAME=value, separated by commas`,
      );
    }
    labels[name] = part.slice(at + 1).trim();
  }
  return labels;
}
