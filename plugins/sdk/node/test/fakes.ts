// Parts of a stream, for tests that need no process.

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type FromHandler, RunSchema } from "../dist/gen/handler_pb.js";
import { Outbox } from "../dist/outbox.js";
import { Pace } from "../dist/pace.js";
import { Run } from "../dist/run.js";

/** A run that belongs to nothing, and the frames with what it says. */
export function newRun(
  wire: MessageInitShape<typeof RunSchema> = {},
  features: string[] = [],
  maxBytes = Number.POSITIVE_INFINITY,
  maxPayload = Number.POSITIVE_INFINITY,
): { run: Run; frames: FromHandler[] } {
  const frames: FromHandler[] = [];
  const outbox = new Outbox((frame, sent) => {
    frames.push(frame);
    sent();
  });
  const pace = new Pace(
    (progress) => outbox.add("progress", progress, 0),
    () => 0,
  );
  const run = new Run(create(RunSchema, wire), { outbox, pace, features: new Set(features), maxBytes, maxPayload });
  return { run, frames };
}

/** Waits until what is to be sent at the end of this turn of the event loop is sent. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}
