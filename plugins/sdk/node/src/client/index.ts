/**
 * Add tasks to nodes of taskengine, wait for them and manage them.
 *
 * ```ts
 * import { Client } from "taskengine-handler/client";
 *
 * const client = new Client(["10.0.0.1:7420", "10.0.0.2:7420"]);
 * const receipt = await client.submit("mail", { to: "a@example.com" }, { key: "m-1" });
 * const sent = await client.result(receipt.id);
 * ```
 *
 * Every task has an id that the client makes. So a submit that is repeated, because its answer was lost, adds no second
 * task.
 *
 * @packageDocumentation
 */

export { Client } from "./client.js";
export {
  AlreadyExists,
  BacklogFull,
  ChildrenClosed,
  ClientError,
  Closed,
  Conflict,
  DeadlineExceeded,
  Internal,
  Invalid,
  Late,
  NotAllowed,
  NotDone,
  NotFound,
  ResultRemoved,
  TaskEnded,
  TooLarge,
  TooManyChildren,
  Unavailable,
  Unsupported,
} from "./errors.js";
export type {
  AppliedSchedule,
  CancelledTree,
  ChildrenAdded,
  ErrorKind,
  ErrorKinds,
  Limit,
  Platform,
  Reason,
  Schedule,
  ScheduleDefinition,
  SchedulesChanged,
  ScheduleTime,
  Signaled,
  SliceSource,
  Source,
  SourceMove,
  StateCount,
  Task,
  TreeTask,
  Workflow,
  WorkflowStep,
} from "./messages.js";
export type {
  CallOptions,
  ChangeOptions,
  ChildrenOptions,
  ClientOptions,
  ErrorFilter,
  LimitChange,
  ListFilter,
  NamedSchedule,
  NewWorkflow,
  ScheduleFilter,
  SchedulePreview,
  ScheduleSelection,
  SignalOptions,
  SliceOrder,
  SliceTarget,
  SourceSeek,
  TaskFilter,
  WorkflowRetry,
} from "./options.js";
export type { NewTask, Receipt, TaskOptions } from "./request.js";
