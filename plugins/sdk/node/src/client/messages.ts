// What nodes say of tasks, workflows, limits, schedules, sources, time slices, documents, bulk jobs, tokens, nodes, logs and alerts. The proto file of the API describes each field. Times are
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
  /** The field of the index by which the tasks were found or counted; empty if tasks of all states were read. */
  index: string;
  /** Of how many tasks the read ones were; 0 if the store does not count them, or an index has just the tasks that the filter selects. */
  total: number;
}

/** A reason why a task does not run, or its present state. */
export interface Reason extends Native<api.Reason> {}

/** How long a task has waited for one thing, or has run. */
export interface Wait extends Native<api.Wait> {}

/** How long a task has waited for what. */
export interface WaitHistory {
  /** In the order in which the task began to wait for each. */
  waits: Wait[];
  /** From when on the node knows what it kept waiting itself; times before have the code unknown. */
  notedSince?: Date;
  /** The name of the node that answers. */
  node: string;
  /** The node that knows more, if it did not answer. */
  silent: SilentNode[];
}

/** A limit as it is in force, as a whole or for one of its values. */
export interface Limit extends Native<api.Limit> {}

/** Why a limit holds tasks up: what uses it, and what waits for it. Without nextStart its rate allows a start now, or it has none. */
export interface LimitReasons extends Omit<Native<api.WhyLimitResponse>, "limit"> {
  limit: Limit;
}

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

/** The effect of applyPlatforms on one platform. Without an error, outcome is created, updated, removed or unchanged. */
export interface AppliedPlatform extends Native<api.AppliedPlatform> {}

/** A small state that tasks share. Its data are not in lists. Each write gives it another, greater version. */
export interface Document extends Native<api.Document> {}

/** A bulk job at one moment. It is over unless its phase is running or paused. */
export interface BulkJob extends Native<api.BulkJob> {}

/** Which tasks a bulk job would change. */
export interface BulkPreview {
  /** The filter with its times. */
  where: string;
  /** How many tasks it selects. */
  tasks: number;
  /** These are all; if not, there are more. */
  complete: boolean;
  /** How many tasks were read at least. */
  read: number;
  /** Of how many tasks these were, as in ErrorKinds. */
  total: number;
  /** The field of the index by which they were found, as in ErrorKinds. */
  index: string;
  /** How many of the tasks are in each state. */
  states: Record<string, number>;
  /** Of undo: how many tasks stay as they are, by the reason; of set: how many could not be undone, likewise. */
  left: Record<string, number>;
  /** The kinds of their errors, the most frequent first, at most 20. */
  kinds: Native<api.BulkKind>[];
  /** The newest of the tasks, at most 10, without payload and result. */
  samples: Task[];
}

/** A change of a task, a gap, or nodes that do not answer. */
export type TaskEvent = TaskChange | EventGap | NodesSilent;

/** A change of a task. */
export interface TaskChange {
  kind: "task";
  /** After the change, without payload, result and checkpoint. */
  task: Task;
  at?: Date;
  /**
   * The task was found in the store after a gap, and is in its state since then. Other changes may be missing, and it may
   * come again.
   */
  fromStore: boolean;
  /** Where to go on after the event. */
  cursor: string;
}

/** Changes may be missing. */
export interface EventGap {
  kind: "gap";
  /** The first change that is missing may be as old. */
  from?: Date;
  until?: Date;
  /** To be read, not parsed. */
  text: string;
  /** Where to go on, with the gap again. */
  cursor: string;
}

/** Nodes do not answer: their changes come later. */
export interface NodesSilent {
  kind: "silent";
  nodes: SilentNode[];
  cursor: string;
}

/** A line that a handler has logged or, as the last entry, which lines are missing. */
export type LogEntry = LoggedLine | MissingLines;

/** A line that a handler has logged. */
export interface LoggedLine {
  kind: "line";
  line: LogLine;
  /** Where to go on after the line; a few lines may come again. */
  cursor: string;
}

/** Which lines of a log are missing. */
export interface MissingLines {
  kind: "missing";
  /** Attempts that ran on other nodes, and of which no line has come. */
  elsewhere: RanElsewhere[];
  /** Nodes that did not answer. */
  silent: SilentNode[];
  cursor: string;
}

/**
 * A line of a log. Its attributes are the text of a JSON object. If dropped is not 0, it is no line: so many lines are missing
 * there, because too many were logged.
 */
export interface LogLine extends Native<api.LogLine> {}

/** On which node an attempt ran, or runs. */
export interface RanElsewhere extends Native<api.RanElsewhere> {}

/** A type of tasks as the node that was asked has it. */
export interface TaskType extends Native<api.Type> {}

/** An ordering key of which tasks run or wait. It has no head if its first task waits for its time. */
export interface OrderingKey extends Native<api.OrderingKey> {}

/** The alerts of all nodes that share the store. */
export interface Alerts {
  /** Alerts that fire, or ended without a notification so far, by rule and labels. */
  alerts: Alert[];
  /** Those that have not ended, by their end. */
  silences: AlertSilence[];
  /** The oldest first. */
  unsent: UnsentAlerts[];
}

/** A rule of the configuration about one type, limit, node, handler or directory. */
export interface Alert extends Native<api.Alert> {}

/** Keeps alerts out of notifications. */
export interface AlertSilence extends Native<api.AlertSilence> {}

/** A notification that its target has not accepted yet. */
export interface UnsentAlerts extends Native<api.UnsentAlerts> {}

/** The outcome of a test of a target: its problem is empty if it has accepted the notification. */
export interface AlertTest extends Native<api.AlertTest> {}

/** The outcome of applyConfig for one node. */
export interface AppliedConfig extends Native<api.AppliedConfig> {}

/** A node that is alive and did not answer the node that was asked: what it alone knows is missing. */
export interface SilentNode extends Native<api.SilentNode> {}

/** A node of the cluster that is alive. It has no status if it did not answer. */
export interface ClusterNode extends Native<api.Node> {}

/** A program that has connected to a node to run the tasks of a handler. */
export interface ClusterWorker extends Native<api.Worker> {}

/** A token of clients without its secret. */
export interface Token extends Native<api.Token> {}

/** A token and the secret that requests send, which is kept nowhere. */
export interface NewSecret {
  token: Token;
  secret: string;
}
