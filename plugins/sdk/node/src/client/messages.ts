// What nodes say of tasks, workflows, limits, schedules, sources and time slices. The proto file of the API describes each field. Times are
// Dates, and durations are milliseconds.

import type * as api from "../gen/taskengine_pb.js";
import type { Given, Native } from "./native.js";

/** A task with its state and history. */
export interface Task extends Native<api.Task> {}

/** A task of a tree. */
export interface TreeTask {
  /** Without payload and result, but with its children. */
  task: Task;
  /** How many tasks of the tree are above it. */
  depth: number;
}

/** The effect of a cancelTree. */
export interface CancelledTree {
  /** After the change. */
  task: Task;
  /** How many tasks were cancelled. */
  cancelled: number;
  /** How many children were not found although they have not ended: cancel the tree again. */
  missing: number;
}

/** The children of a task that was submitted with open children. */
export interface ChildrenAdded {
  /** How many the task has. */
  added: number;
  /** More can be added. */
  open: boolean;
}

/** The effect of a signal. */
export interface Signaled {
  /**
   * woke (the task waited for it), kept, repeated (the task got it before), dropped (the task does not wait for it), no_room
   * (likewise, and it cannot keep another one) or ended (the task has ended).
   */
  outcome: string;
  /** After that. */
  task: Task;
}

/** A step of a workflow. */
export interface WorkflowStep extends Native<api.WorkflowStep> {}

/** A workflow and its steps. Its output is JSON, and empty if it is not done or has none. */
export interface Workflow extends Omit<Native<api.Workflow>, "task" | "steps"> {
  /** Without payload and result. */
  task: Task;
  steps: WorkflowStep[];
}

/** How many tasks of a type are in a state. */
export interface StateCount {
  state: string;
  type: string;
  count: number;
}

/** The tasks whose newest error is of one kind. Errors of a kind differ only in numbers, ids and addresses. */
export interface ErrorKind extends Native<api.ErrorKind> {}

/** The errors of tasks, by their kinds. */
export interface ErrorKinds {
  /** Those of most tasks first. */
  kinds: ErrorKind[];
  /** How many tasks have an error, also of kinds that are left out. */
  tasks: number;
  /** How many have an error of a kind that is left out. */
  others: number;
  /** How many tasks the node has read at least. */
  read: number;
  /** All tasks were read; if not, the newest were. */
  complete: boolean;
}

/** A reason why a task does not run, or its present state. */
export interface Reason extends Native<api.Reason> {}

/** A limit as it is in force, as a whole or for one of its values. */
export interface Limit extends Native<api.Limit> {}

/** A schedule with its state, as it is when its pending orders are carried out. */
export interface Schedule extends Native<api.Schedule> {}

/** The effect of applySchedules on one schedule: without an error, outcome is created, updated or unchanged. */
export interface AppliedSchedule extends Native<api.AppliedSchedule> {}

/** How many schedules were changed, or would be, how many are so already, and which refuse the change. */
export interface SchedulesChanged {
  changed: number;
  unchanged: number;
  failed: { name: string; error: string }[];
}

/** When a schedule fires and what it adds. Either cron or every is given. */
export interface ScheduleDefinition extends Given<api.ScheduleDefinition> {}

/** A time at which a schedule fires. */
export interface ScheduleTime extends Native<api.ScheduleTime> {}

/** A source of tasks: topics of Apache Kafka whose records become tasks. Counts are those of all nodes. */
export interface Source extends Native<api.Source> {}

/** What a seek does to a partition. If target is less than position, the source reads the offsets between them again. */
export interface SourceMove extends Native<api.SourceMove> {}

/**
 * A source of time slices: platforms that are polled for what happened in slices of time. Counts are sums over its platforms.
 * Values and history are not in lists.
 */
export interface SliceSource extends Native<api.SliceSource> {}

/** A platform of a source of time slices. Settings, slices and history are not in lists. */
export interface Platform extends Native<api.Platform> {}
