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
  Permanent,
  RetryIn,
  Snooze,
} from "./answers.js";
export { type BatchFunction, type BatchHandler, type BatchOptions, batch } from "./batch.js";
export { type ServeOptions, serve } from "./serve.js";
export type { Child, Handler, Handlers, Task, TaskLog } from "./task.js";
