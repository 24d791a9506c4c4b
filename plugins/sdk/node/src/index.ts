/**
 * Write task handlers for taskengine.
 *
 * ```ts
 * import { serve } from "taskengine-handler";
 *
 * await serve({
 *   upper: (task) => task.text().toUpperCase(),
 * });
 * ```
 *
 * @packageDocumentation
 */

export {
  Again,
  type AgainOptions,
  Cancelled,
  Ended,
  type FailureOptions,
  InDoubt,
  Permanent,
  Retry,
  RetryIn,
  Snooze,
} from "./answers.js";
export type { Around } from "./around.js";
export { type BatchFunction, type BatchHandler, type BatchOptions, batch } from "./batch.js";
export type { ServeOptions } from "./program.js";
export { serve } from "./serve.js";
export type { Child, Handler, Handlers, Task, TaskLog } from "./task.js";
export { type Pem, type WorkOptions, type WorkTls, work } from "./work.js";
