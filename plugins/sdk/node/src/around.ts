// What surrounds the calls of handlers.

import type { BatchHandler } from "./batch.js";
import type { Handler, Handlers, Task } from "./task.js";

/**
 * Surrounds each call of a handler: it is given the tasks of the call, one or those of a batch, and the call. What it
 * returns, or its promise resolves to, is what the handler is taken to have returned, and what it throws is as if the
 * handler had thrown it.
 */
export type Around = (tasks: readonly Task[], call: () => Promise<unknown>) => unknown;

/** Handlers whose calls are surrounded. */
export function surrounded(handlers: Handlers, around: Around): Handlers {
  return Object.fromEntries(
    Object.entries(handlers).map(([type, handler]): [string, Handler | BatchHandler] => {
      if (typeof handler === "function") return [type, (task) => around([task], async () => handler(task))];
      const handle: BatchHandler["handle"] = (tasks) =>
        around(tasks, async () => handler.handle(tasks)) as Promise<readonly unknown[]>;
      return [type, { ...handler, handle }];
    }),
  );
}
