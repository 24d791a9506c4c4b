// What a handler learns of tasks that it means to add.

import { NotChecked } from "./answers.js";
import type { Checked, Child, Refusal as RefusalMessage } from "./gen/handler_pb.js";
import { uuid } from "./woken.js";

/**
 * Why a task would be refused. With those up to "backlog", an answer that has the task fails. With "key_taken" nothing is
 * added, and with "unknown_type" the task is added, and no node is known that runs tasks of its type.
 */
export type RefusalReason =
  | "invalid"
  | "too_large"
  | "too_many"
  | "forbidden"
  | "backlog"
  | "key_taken"
  | "unknown_type";

/** A task would be refused, or would not do what it asks for. */
export interface Refusal {
  /** Of the task among those that were given. */
  readonly index: number;
  readonly reason: RefusalReason;
  /** For people. */
  readonly message: string;
  /** With "key_taken", the id of the task that has the key. */
  readonly id: string | undefined;
  /** Whether an answer with the task fails. */
  readonly fails: boolean;
}

const REASONS: readonly RefusalReason[] = [
  "invalid",
  "invalid",
  "too_large",
  "too_many",
  "forbidden",
  "backlog",
  "key_taken",
  "unknown_type",
];

/** A refusal, of whatever reason. */
export function refusal(index: number, reason: RefusalReason, message: string, id?: string): Refusal {
  return { index, reason, message, id, fails: reason !== "key_taken" && reason !== "unknown_type" };
}

function refusalOf({ index, reason, message, taskId }: RefusalMessage): Refusal {
  return refusal(index, REASONS[reason] ?? "invalid", message, taskId.length > 0 ? uuid(taskId) : undefined);
}

/** The refusals in the answer of a host. */
export function refusalsOf({ refusals }: Checked): Refusal[] {
  return refusals.map(refusalOf);
}

/** The error of a check without an answer. */
export function notChecked(why: string): NotChecked {
  return new NotChecked(`it is not known which tasks would be refused: ${why}`);
}

/** The messages that fit into an answer of so many bytes, and the refusals of the others. */
export function fitting(children: Child[], size: (child: Child) => number, most: number): [Child[], Refusal[]] {
  let bytes = 0;
  const fit = children.findIndex((child) => {
    bytes += size(child);
    return bytes > most;
  });
  if (fit < 0) return [children, []];
  const text = `the tasks that are added have more bytes than the ${most} that max_result of the type allows`;
  return [children.slice(0, fit), children.slice(fit).map((_, i) => refusal(fit + i, "too_large", text))];
}
