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
  type ChildrenWait,
  Ended,
  type FailureOptions,
  InDoubt,
  NotChecked,
  NotRead,
  NotStored,
  Permanent,
  Retry,
  RetryIn,
  Snooze,
  StepError,
  WaitFor,
  WaitForChildren,
  type WaitOptions,
} from "./answers.js";
export type { Around } from "./around.js";
export { type BatchFunction, type BatchHandler, type BatchOptions, batch } from "./batch.js";
export type { Refusal, RefusalReason } from "./check.js";
export type { Document, DocumentOptions } from "./document.js";
export type { ChildSet, EndedChildren, Parent } from "./family.js";
export type { ServeOptions } from "./program.js";
export { serve } from "./serve.js";
export { type StepOptions, steps } from "./steps.js";
export type { Child, Handler, Handlers, Signal, StepTask, Task, TaskLog } from "./task.js";
export type { Woken } from "./woken.js";
export { type Pem, type WorkOptions, type WorkTls, work } from "./work.js";
