// What a node has answered, or why none has.

import { type ServiceError, status } from "@grpc/grpc-js";
import type { Receipt } from "./request.js";

/** What all errors of a client are. */
export class ClientError extends Error {
  /** The code of docs/api.md, such as invalid_argument. Empty if no node has answered. */
  readonly code: string;
  /** The address of the node. Empty if no node has answered. */
  readonly address: string;

  constructor(message: string, code = "", address = "", options?: ErrorOptions) {
    super(address ? `the node at ${address}: ${message}` : message, options);
    this.name = new.target.name;
    this.code = code;
    this.address = address;
  }
}

/** The request is not valid: correct it. */
export class Invalid extends ClientError {}

/** There is no such task, document, limit, schedule or source. */
export class NotFound extends ClientError {}

/** It has changed meanwhile: read it again and decide again. */
export class Conflict extends ClientError {}

/** There is a task with the key, and its type rejects other requests with it. */
export class AlreadyExists extends ClientError {
  /** Those of all requests of a submitAll; otherwise empty. */
  receipts: readonly Receipt[] = [];
}

/** The time of the request lies too far in the past for its type, which max_lateness says. */
export class Late extends ClientError {
  /** Those of all requests of a submitAll; otherwise empty. */
  receipts: readonly Receipt[] = [];
}

/** The state does not allow it, such as to cancel a task that has ended, or the caller may not do it. */
export class NotAllowed extends ClientError {}

/** The children of the task take no more: they were closed, or the task was woken. */
export class ChildrenClosed extends NotAllowed {}

/** The task has ended, and takes no children. */
export class TaskEnded extends NotAllowed {}

/** A task has up to 1 048 576 children of one name. */
export class TooManyChildren extends Invalid {}

/** The backlog of a type is full. Nothing was added: submit later. */
export class BacklogFull extends ClientError {}

/** The request has waited for room in a backlog, and is made again. */
export class Waited extends BacklogFull {}

/** The request is larger than the node accepts. max_payload of its type says how large it may be. */
export class TooLarge extends ClientError {}

/** No node answers. What was asked for may have been carried out. */
export class Unavailable extends ClientError {}

/** The node does not support it: its store, or an older version. */
export class Unsupported extends ClientError {}

/** The node failed. Its log has the reason. */
export class Internal extends ClientError {}

/** The timeout is over. What was asked for may have been carried out. */
export class DeadlineExceeded extends ClientError {}

/** The client is closed. What was asked for may have been carried out. */
export class Closed extends ClientError {}

/** A task has ended without being done. */
export class NotDone extends ClientError {
  constructor(
    readonly id: string,
    /** error, failed or cancelled. */
    readonly state: string,
    /** Why. */
    readonly reason: string,
  ) {
    super(`task ${id} is ${state}: ${reason}`);
  }
}

/** A task is done, and its result was removed: the task is a tombstone, which only remembers its key. */
export class ResultRemoved extends ClientError {
  constructor(readonly id: string) {
    super(`task ${id} is done, and its result was removed after the retention of its type`);
  }
}

const KINDS: Record<string, typeof ClientError> = {
  invalid_argument: Invalid,
  out_of_range: Late,
  not_found: NotFound,
  aborted: Conflict,
  already_exists: AlreadyExists,
  failed_precondition: NotAllowed,
  permission_denied: NotAllowed,
  unauthenticated: NotAllowed,
  resource_exhausted: TooLarge,
  unavailable: Unavailable,
  unimplemented: Unsupported,
  deadline_exceeded: DeadlineExceeded,
  canceled: DeadlineExceeded, // by the node, whose clock was first: what the client aborts has no such error
};

const REASONS: Record<string, typeof ClientError> = {
  children_closed: ChildrenClosed,
  task_ended: TaskEnded,
  too_many_children: TooManyChildren,
};

/** The error of an answer. full is what the node says about a backlog, and reason distinguishes errors with one code. */
export function errorOfCode(code: string, message: string, address = "", full = "", reason = ""): ClientError {
  const kind = full === "waited" ? Waited : full ? BacklogFull : (REASONS[reason] ?? KINDS[code]);
  return new (kind ?? Internal)(message, code, address);
}

/** The error of a call of grpc-js. */
export function errorOfCall(address: string, error: ServiceError): ClientError {
  const [full] = error.metadata?.get("taskengine-full") ?? [];
  const [reason] = error.metadata?.get("taskengine-reason") ?? [];
  return errorOfCode(codeOf(error), error.details ?? error.message, address, full?.toString(), reason?.toString());
}

/** The code of a call of grpc-js, as docs/api.md writes it. */
export function codeOf(error: ServiceError): string {
  const name = status[error.code]?.toLowerCase() ?? "unknown";
  return name === "cancelled" ? "canceled" : name;
}

/** Whether another try may succeed. */
export function mayRepeat(error: unknown): boolean {
  return error instanceof Unavailable || error instanceof Waited;
}
