// What the environment says about the nodes of a client.

import { readFileSync } from "node:fs";
import { addressesIn } from "../access.js";
import { Invalid } from "./errors.js";
import { type Access, Nodes } from "./nodes.js";

/** The nodes of a client. What is not given is what the environment has. */
export function nodesOf(addresses: string | readonly string[] | undefined, given: Access): Nodes {
  const { env } = process;
  const token = given.token ?? env["TASKENGINE_TOKEN"];
  if (addresses !== undefined) return new Nodes(addresses, { ...given, token });
  const found = addressesIn(env["TASKENGINE_ADDRESS"] ?? "");
  if (found.length === 0) throw new Invalid("no address of a node is given, and TASKENGINE_ADDRESS is not set");
  const ca = given.ca ?? fileOf("TASKENGINE_CA");
  const isKnown = given.cert !== undefined || given.key !== undefined;
  const cert = isKnown ? given.cert : fileOf("TASKENGINE_CLIENT_CERT");
  const key = isKnown ? given.key : fileOf("TASKENGINE_CLIENT_KEY");
  return new Nodes(found, { token, ca, cert, key });
}

function fileOf(name: string): Uint8Array | undefined {
  const path = process.env[name];
  if (!path) return undefined;
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Invalid(`${name}: ${(error as Error).message}`);
  }
}
