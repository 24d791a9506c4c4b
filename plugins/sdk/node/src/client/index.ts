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

export { whereIds } from "./bulk.js";
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
  Alert,
  AlertSilence,
  Alerts,
  AlertTest,
  AppliedConfig,
  AppliedPlatform,
  AppliedSchedule,
  BulkJob,
  BulkPreview,
  CancelledTree,
  ChildrenAdded,
  ClusterNode,
  ClusterWorker,
  Document,
  ErrorKind,
  ErrorKinds,
  EventGap,
  Limit,
  LimitReasons,
  LogEntry,
  LoggedLine,
  LogLine,
  MissingLines,
  NewSecret,
  NodesSilent,
  OrderingKey,
  Platform,
  RanElsewhere,
  Reason,
  Schedule,
  ScheduleDefinition,
  SchedulesChanged,
  ScheduleTime,
  Signaled,
  SilentNode,
  SliceSource,
  Source,
  SourceMove,
  StateCount,
  Task,
  TaskChange,
  TaskEvent,
  TaskType,
  Token,
  TreeTask,
  UnsentAlerts,
  Wait,
  WaitHistory,
  Workflow,
  WorkflowStep,
} from "./messages.js";
export type {
  BulkChange,
  BulkOrder,
  BulkStart,
  CallOptions,
  ChangeOptions,
  ChildrenOptions,
  ClientOptions,
  CountFilter,
  DocumentDelete,
  DocumentWrite,
  ErrorFilter,
  EventFilter,
  LimitChange,
  ListFilter,
  LogOptions,
  NamedSchedule,
  NewSilence,
  NewToken,
  NewWorkflow,
  OrderingKeyFilter,
  PlatformRow,
  ScheduleFilter,
  SchedulePreview,
  ScheduleSelection,
  SignalOptions,
  SliceOrder,
  SliceTarget,
  SliceTargets,
  SourceSeek,
  TaskFilter,
  TaskSetting,
  TaskValues,
  TokenRevocation,
  TokenRotation,
  VersionOptions,
  WorkflowRetry,
} from "./options.js";
export type { NewTask, Receipt, TaskOptions } from "./request.js";
