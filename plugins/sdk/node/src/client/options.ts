// The options of a client and of its calls.

import type { ScheduleDefinition } from "./messages.js";
import type { NewTask, TaskOptions } from "./request.js";

/** The options of a client. */
export interface ClientOptions {
  /** How many milliseconds a call may take, with its repetitions, if it is given no other time: 30 000. */
  timeout?: number;
  /**
   * Returns what is to be added in place of each task that is submitted, for instance the task with one more header. If
   * it throws, the task is Invalid.
   */
  decorate?: (task: NewTask) => NewTask;
  /** Is sent with every request. Left out, it is what TASKENGINE_TOKEN has; "" is none. */
  token?: string;
  /** Certificates in PEM that are trusted instead of those of the system. With it or cert, host:port is encrypted, too. */
  ca?: Uint8Array | string;
  /** The certificate of the client, and its key, in PEM. */
  cert?: Uint8Array | string;
  key?: Uint8Array | string;
}

/** The options of a call. */
export interface CallOptions {
  /** How many milliseconds it may take. */
  timeout?: number;
  /** Ends the call, which may have been carried out. */
  signal?: AbortSignal;
}

/** The version that a call changes. */
export interface VersionOptions {
  /** Only if the task is at this version. */
  version?: number | bigint;
}

/** The options of a call that changes a task. */
export interface ChangeOptions extends CallOptions, VersionOptions {}

/** How a task waits for the children that are added with it. */
export interface ChildrenOptions {
  /** The name of the children, by which the handler of the task finds them; left out, child. */
  name?: string;
  /** The task runs when so many have ended; left out, all. */
  count?: number;
  /** It also runs when one of them has failed or was cancelled. */
  orFailed?: boolean;
  /** When it runs at the latest: a Date or milliseconds since 1970; left out, never. */
  until?: Date | number;
}

/** The task to which a signal is sent, by its id or by its type and key, and how it is sent. */
export interface SignalOptions {
  id?: string;
  type?: string;
  key?: string;
  /** Of the task with the key. */
  orderingKey?: string;
  /** A task that does not wait for the signal keeps it. Otherwise such a signal is dropped. */
  keep?: boolean;
  /** Identifies the signal, which a task gets once however often it is sent: a UUID; left out, a new one. */
  requestId?: string;
}

/** A workflow to add. Either name or definition is given. Its key is unique among all workflows. */
export interface NewWorkflow extends Omit<TaskOptions, "orderingKey" | "expiresAt"> {
  /** Of a workflow in the configuration of the node. */
  name?: string;
  /** JSON: a text or bytes, which are sent as they are, or a value that is sent as JSON. */
  definition?: unknown;
  /** Likewise. */
  input?: unknown;
}

/** Which steps of a workflow run again. */
export interface WorkflowRetry {
  /**
   * The name of a step: it and all after it run anew. Left out, only the steps that have failed, were stopped or were
   * compensated, and those after them. These run anew in any case.
   */
  from?: string;
}

/** Which tasks are listed or counted. What is left out is any. */
export interface TaskFilter {
  states?: string[];
  types?: string[];
}

/** Which tasks are counted. What is left out is any. */
export interface CountFilter extends TaskFilter {
  /** Only tasks that this filter selects, such as `error~"503" since=2h`. */
  where?: string;
}

/** Which tasks are listed. What is left out is any. */
export interface ListFilter extends TaskFilter {
  /** Only tasks with this key, whatever their ordering keys are. */
  key?: string;
  /** Only tasks that this filter selects, such as `error~"503" since=2h`. */
  where?: string;
}

/** The errors of which tasks are summed up: of those in the state error or, if `where` names states, in these. */
export interface ErrorFilter {
  /** Left out, any. */
  types?: string[];
  where?: string;
  /** How many kinds are returned: 100. */
  limit?: number;
}

/** What setLimit changes. */
export interface LimitChange {
  /** A value, or a pattern of values; left out, the limit as a whole. */
  value?: string;
  /** 0 is no limit. */
  max?: number;
  /** How many tasks may start in so many milliseconds. A count of 0 is no limit. */
  rate?: { count: number; per?: number; burst?: number };
  paused?: boolean;
  ifVersion?: number | bigint;
  /** Who asks; kept with the setting. */
  by?: string;
}

/** Where seekSource goes: one of begin, end, time and offset is given. */
export interface SourceSeek {
  /** Left out, all topics of the source. */
  topic?: string;
  /** Of topic; left out, all partitions. */
  partition?: number;
  /** To the first record that there is. */
  begin?: boolean;
  /** Behind the last record. */
  end?: boolean;
  /** To the first record of this time or later. */
  time?: Date | number;
  /** Needs a topic and a partition. */
  offset?: number | bigint;
  /** Only return where the partitions would go. */
  dryRun?: boolean;
}

/** Which schedules are listed. */
export interface ScheduleFilter {
  /** Only schedules with names that begin with it. */
  prefix?: string;
  /** Only schedules that are paused. */
  paused?: boolean;
  /** Only schedules that cannot run. */
  failing?: boolean;
}

/** Which schedules one call changes: by a prefix of their names, or all. */
export interface ScheduleSelection {
  prefix?: string;
  all?: boolean;
  /** Only count them. */
  dryRun?: boolean;
}

/** A schedule for applySchedules. */
export interface NamedSchedule {
  name: string;
  definition: ScheduleDefinition;
  /** The version that the schedule must have, 0 if there must be none; left out, any. */
  ifVersion?: number;
}

/** Of which times previewSchedule tells. */
export interface SchedulePreview {
  definition?: ScheduleDefinition;
  /** The first time that may be among them; left out, now. */
  from?: Date | number;
  count?: number;
}

/** Who gives an order to a source of time slices or to a platform, and why, for the history. */
export interface SliceOrder {
  by?: string;
  reason?: string;
}

/** The platform to which an order is given; left out, all of the source. */
export interface SliceTarget extends SliceOrder {
  platform?: string;
}

/** The platforms to which an order is given. */
export interface SliceTargets extends SliceTarget {
  /** Without platform: only platforms with names that begin so. */
  prefix?: string;
}

/** How applyPlatforms makes a platform. */
export interface PlatformRow {
  name: string;
  /** Of its own, as in setSlices. */
  values?: Record<string, string>;
  /** Values of its own that are not in values are unset. */
  replace?: boolean;
  /** It makes no slices; left out, it is added if there is none, or if it was removed. */
  removed?: boolean;
  /** The version that the platform must have, 0 if there must be none; left out, any. */
  ifVersion?: number;
}

/** Which tasks a bulk job changes, and how. */
export interface BulkOrder {
  verb: "resume" | "cancel" | "fail" | "reschedule" | "set" | "delete" | "erase" | "undo";
  /** A filter; without states it selects those of the verb. {@link whereIds} selects tasks by their ids. */
  where?: string;
  /** Only tasks of these types; left out, of all. */
  types?: string[];
  /** Of cancel and fail; kept as the error of the tasks. */
  reason?: string;
  /** Of reschedule and set: the time, or the delay from now on in milliseconds. */
  at?: Date | number;
  delay?: number;
  /** Of set. */
  values?: TaskValues;
  /** Of undo, which has neither where nor types: the job that is undone. It has ended. */
  job?: string;
}

/** New values of a task. What is left out stays as it is. */
export interface TaskValues {
  priority?: number;
  /** Encoded as the payload of a submit. */
  payload?: unknown;
  /** Others stay as they are. */
  headers?: Record<string, string>;
  removeHeaders?: string[];
}

/** How a bulk job runs. */
export interface BulkStart {
  /** Letters, digits, ., - and _; left out, the node makes one of the time. */
  name?: string;
  /** Tasks in a second; left out, as fast as possible. */
  rate?: number;
  /** Who orders it; with a token, the name of that comes first. */
  by?: string;
}

/** Who changes a bulk job, and why. */
export interface BulkChange {
  by?: string;
  reason?: string;
}

/** When a task that is set runs next, and who sets it. */
export interface TaskSetting {
  at?: Date | number;
  /** Milliseconds from now on. */
  delay?: number;
  by?: string;
}

/** Which events are followed. */
export interface EventFilter {
  /** Only tasks that this filter selects after the change; without terms of payloads and results. */
  where?: string;
  types?: string[];
  /** Of an earlier event, or a time in RFC 3339, or a duration such as 1h; left out, the present. */
  cursor?: string;
  /** After a gap the tasks follow that have changed since it began, as the store has them. */
  catchUp?: boolean;
}

/** How a document is written. */
export interface DocumentWrite extends DocumentDelete {
  /** From when on it does not exist: a Date or milliseconds since 1970; left out, never. */
  expiresAt?: Date | number;
}

/** Which version of a document is changed. */
export interface DocumentDelete {
  /** The version that the document must have, 0 if there must be none; left out, any. */
  ifVersion?: number | bigint;
  /** Who asks; written to the log of the node. */
  by?: string;
}

/** Which lines of the log of a task are read. */
export interface LogOptions {
  /** Only those of this attempt; left out, of all. */
  attempt?: number;
  /** New lines follow as they come, until the task has ended. */
  follow?: boolean;
  /** Of an earlier entry; left out, the first line. */
  cursor?: string;
  /** Ends the loop, which throws its reason. */
  signal?: AbortSignal;
}

/** Which ordering keys are listed. */
export interface OrderingKeyFilter {
  /** Of their heads; left out, any, also of keys without a head. */
  states?: string[];
  /** Only keys of which tasks wait behind others. */
  behind?: boolean;
}

/** Which alerts are silenced: rule or labels is given. */
export interface NewSilence {
  /** Left out, any. */
  rule?: string;
  /** The labels that an alert must have. A value with * at its end stands for all that begin so. */
  labels?: Record<string, string>;
  /** Milliseconds, at most a year. */
  lasting: number;
  comment?: string;
  /** Who asks. */
  by?: string;
}

/** A token to be made. */
export interface NewToken {
  /** 1 to 100 letters, digits, and . _ - @ */
  name: string;
  /** At least one. */
  roles: string[];
  /** Of tasks; * at the end of one stands for all that begin so; left out, all types. */
  types?: string[];
  /** Milliseconds; left out, it does not expire. */
  expiresIn?: number;
  /** Who asks. */
  by?: string;
}

/** How a token is revoked. */
export interface TokenRevocation {
  /** Also if no other valid token may manage tokens. */
  force?: boolean;
  by?: string;
}

/** How a token is rotated. */
export interface TokenRotation {
  /** Milliseconds for which the secret from before is accepted; left out, it is not. */
  grace?: number;
  by?: string;
}
