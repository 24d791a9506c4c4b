// The messages of calls about children, signals and workflows.

import { create, fromBinary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import {
  type AddChildrenRequestSchema,
  NewTaskSchema,
  type ReceiptSchema,
  type SignalRequestSchema,
  type SubmitWithChildrenRequestSchema,
  type SubmitWorkflowRequestSchema,
  WorkflowSchema,
} from "../gen/taskengine_pb.js";
import { decode, encode } from "../text.js";
import { taskOf } from "./calls.js";
import type { Workflow } from "./messages.js";
import { duration, timestamp, toNative } from "./native.js";
import type { ChildrenOptions, NewWorkflow, SignalOptions } from "./options.js";
import { checkText, type Encoded, firstOfTwo, type Receipt } from "./request.js";

/** The type of the tasks that are workflows. */
export const WORKFLOW = "taskengine.workflow";

/** How many children one request has. */
const PART = 10_000;

/** How many bytes of children one request has, give or take one child. */
const PART_BYTES = 8 << 20;

/** The children from one on, as many as a request may have. */
export function partOf(children: readonly Encoded[], from: number): readonly Encoded[] {
  let size = 0;
  let to = from;
  for (; to < children.length && to < from + PART; to++) {
    size += (children[to] as Encoded).message.length;
    if (size > PART_BYTES && to > from) break;
  }
  return children.slice(from, to);
}

/** A task and its children. These get their ids from the node. */
export function withChildren(
  task: Encoded,
  children: readonly Encoded[],
  { name = "", count = 0, orFailed = false, until }: ChildrenOptions,
  open: boolean,
): MessageInitShape<typeof SubmitWithChildrenRequestSchema> {
  return {
    ...{ name, open },
    ...(!open && { count, orFailed }),
    task: fromBinary(NewTaskSchema, task.message),
    children: children.map(childOf),
    ...(until !== undefined && { until: timestamp(until) }),
  };
}

/** Children of a task from a number on; the last ones say how it waits. */
export function moreChildren(
  id: string,
  from: number,
  children: readonly Encoded[],
  { name = "", count = 0, orFailed = false }: ChildrenOptions,
  close: boolean,
): MessageInitShape<typeof AddChildrenRequestSchema> {
  return { id, name, from, close, ...(close && { count, orFailed }), children: children.map(childOf) };
}

function childOf({ message, isOwn }: Encoded): MessageShape<typeof NewTaskSchema> {
  return Object.assign(fromBinary(NewTaskSchema, message), isOwn ? { id: "" } : {});
}

/** A signal with its id. */
export function signalOf(
  name: string,
  data: unknown,
  { id = "", type = "", key = "", orderingKey = "", keep = false }: SignalOptions,
  requestId: string,
): MessageInitShape<typeof SignalRequestSchema> {
  checkText(name, type, key, orderingKey);
  return { id, type, key, orderingKey, name, data: encode(data), keep, requestId };
}

/** A workflow with its id. */
export function newWorkflow(
  { name = "", key = "", definition, input, priority, at, delay, headers = {} }: NewWorkflow,
  id: string,
): MessageInitShape<typeof SubmitWorkflowRequestSchema> {
  checkText(name, key, ...Object.entries(headers).flat());
  return {
    ...{ id, name, key, headers: { ...headers }, definition: json(definition), input: json(input) },
    ...(priority !== undefined && { priority }),
    ...(at !== undefined && { at: timestamp(at) }),
    ...(delay !== undefined && { in: duration(delay) }),
  };
}

/** The JSON of a value, or the text that the value is. */
function json(value: unknown): string {
  const text = decode(encode(value));
  if (text === undefined) throw new TypeError("the bytes are no JSON");
  return text;
}

/** The receipt of one request. */
export function receiptOf(
  receipt: MessageShape<typeof ReceiptSchema> | undefined,
  request: Pick<Encoded, "id" | "isOwn">,
): Receipt {
  const { id = "", created = false, outcome = "", warning } = receipt ?? {};
  return firstOfTwo({ id, created, outcome, ...(warning && { warning }) }, request);
}

/** The workflow of an answer. */
export function workflowOf({ workflow }: { workflow?: MessageShape<typeof WorkflowSchema> | undefined }): Workflow {
  const message = workflow ?? create(WorkflowSchema);
  return { ...toNative(WorkflowSchema, message), task: taskOf(message) };
}
