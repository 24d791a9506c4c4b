"""What a node has answered, or why none has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._requests import Receipt


class Error(Exception):
    """What all errors of a client are.

    code is that of docs/api.md, such as invalid_argument. message is for people. address is
    that of the node, and empty if no node has answered.
    """

    def __init__(self, message: str, code: str = "", address: str = "", full: str = "") -> None:
        super().__init__("the node at %s: %s" % (address, message) if address else message)
        self.message = message
        self.code = code
        self.address = address
        self._is_waited = full == "waited"  # it has waited for room in a backlog: it may be repeated at once


class Invalid(Error):
    """The request is not valid: correct it."""


class NotFound(Error):
    """There is no such task, document, limit, schedule or source."""


class Conflict(Error):
    """It has changed meanwhile: read it again and decide again."""


class AlreadyExists(Error):
    """There is a task with the key, and its type rejects other requests with it.

    receipts has those of all requests of a submit_all, and is empty otherwise.
    """

    receipts: Sequence[Receipt] = ()


class Late(Error):
    """The time of the request lies too far in the past for its type, which max_lateness says.

    receipts has those of all requests of a submit_all, and is empty otherwise.
    """

    receipts: Sequence[Receipt] = ()


class NotAllowed(Error):
    """The state does not allow it, such as to cancel a task that has ended, or the caller may not do it."""


class ChildrenClosed(NotAllowed):
    """The children of the task take no more: they were closed, or the task was woken."""


class TaskEnded(NotAllowed):
    """The task has ended, and takes no children."""


class TooManyChildren(Invalid):
    """A task has up to 1,048,576 children of one name."""


class BacklogFull(Error):
    """The backlog of a type is full. Nothing was added: submit later."""


class TooLarge(Error):
    """The request is larger than the node accepts. max_payload of its type says how large it may be."""


class Unavailable(Error):
    """No node answers. What was asked for may have been carried out."""


class Unsupported(Error):
    """The node does not support it: its store, or an older version."""


class Internal(Error):
    """The node failed. Its log has the reason."""


class DeadlineExceeded(Error, TimeoutError):
    """The timeout is over. What was asked for may have been carried out."""


class Closed(Error):
    """The client is closed. What was asked for may have been carried out."""


class NotDone(Error):
    """A task has ended without being done.

    id is that of the task, state is error, failed or cancelled, and reason says why.
    """

    def __init__(self, id: str, state: str, reason: str) -> None:
        super().__init__("task %s is %s: %s" % (id, state, reason))
        self.id = id
        self.state = state
        self.reason = reason


class ResultRemoved(Error):
    """A task is done, and its result was removed: the task is a tombstone, which only remembers its key.

    id is that of the task. retention.done of its type says for how long results are kept.
    """

    def __init__(self, id: str) -> None:
        super().__init__("task %s is done, and its result was removed after the retention of its type" % id)
        self.id = id


_KINDS: dict[str, type[Error]] = {
    "invalid_argument": Invalid,
    "out_of_range": Late,
    "not_found": NotFound,
    "aborted": Conflict,
    "already_exists": AlreadyExists,
    "failed_precondition": NotAllowed,
    "permission_denied": NotAllowed,
    "unauthenticated": NotAllowed,
    "resource_exhausted": TooLarge,
    "unavailable": Unavailable,
    "unimplemented": Unsupported,
    "deadline_exceeded": DeadlineExceeded,
    "canceled": DeadlineExceeded,  # by the node, whose clock was first: what the client cancels has no such error
}


_REASONS: dict[str, type[Error]] = {
    "children_closed": ChildrenClosed,
    "task_ended": TaskEnded,
    "too_many_children": TooManyChildren,
}


def of_code(code: str, message: str, address: str = "", full: str = "", reason: str = "") -> Error:
    """The error of an answer. full is what the node says about a backlog, and reason distinguishes errors with one code."""
    kind = BacklogFull if code == "resource_exhausted" and full else _REASONS.get(reason) or _KINDS.get(code, Internal)
    return kind(message, code, address, full)


def of_rpc(address: str, e: Any) -> Error:
    """The error of a grpc.RpcError."""
    trailers = {k: v for k, v in e.trailing_metadata() or () if k in ("taskengine-full", "taskengine-reason")}
    full, reason = trailers.get("taskengine-full", ""), trailers.get("taskengine-reason", "")
    return of_code(code_of(e), e.details() or "", address, full, reason)


def code_of(e: Any) -> str:
    """The code of a grpc.RpcError, as docs/api.md writes it."""
    name: str = e.code().name.lower()
    return "canceled" if name == "cancelled" else name


def may_repeat(e: Error | None) -> bool:
    """Whether another try may succeed."""
    return isinstance(e, Unavailable) or e is not None and e._is_waited
