"""Tasks to add, and their receipts."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Union

from .._task import encode
from .._wire import DecodeError, _encode_varint, _fields
from ._codec import give_duration, give_time, mapping, sized
from ._errors import AlreadyExists, Error, Invalid, Late, of_code
from ._ids import Ids

Id = Union[str, uuid.UUID]
Seconds = Union[float, timedelta]
Instant = Union[float, datetime]

MAX_TOGETHER = 1000
"""How many tasks one submit_all may have."""


@dataclass(frozen=True)
class NewTask:
    """A task to add.

    payload is None (no payload), bytes or a str, which are sent as they are, a pydantic model, a
    dataclass, or anything else that json.dumps takes, which is sent as JSON.

    key makes it unique among the tasks of its type that are kept. ordering_key has it run after
    those that were added before with the same one. priority is 0 (sooner) to 9 (later). It is not
    started before at, an aware datetime or Unix seconds, or before delay, seconds or a timedelta
    that begins when the node gets the request. It becomes an error if it has not begun by
    expires_at. after has the ids of tasks that exist: it runs when all of them are done, and is
    cancelled if one of them fails or is cancelled; with after_any it runs when all have ended,
    however. id is an id of the caller's own, so that the caller can submit it again later.
    """

    type: str
    payload: object = None
    key: str = ""
    ordering_key: str = ""
    priority: int | None = None
    at: Instant | None = None
    delay: Seconds | None = None
    expires_at: Instant | None = None
    headers: Mapping[str, str] | None = None
    id: Id | None = None
    after: Sequence[Id] = ()
    after_any: bool = False


class Receipt(NamedTuple):
    """Which task a request has added. The task is durable.

    id is that of the new task, or of the existing task with the same id or key. created is False
    if there was such a task: nothing was added. outcome is created, existing, replaced (the task
    with its key has its content now) or already_done (the task with its key has ended). warning says
    for people that the task waits because no live node has a handler for its type; else it is "".
    """

    id: str
    created: bool
    outcome: str
    warning: str = ""


def payload_of(value: object) -> bytes:
    """The bytes of a payload."""
    if isinstance(value, (bytes, str, bytearray, memoryview)):
        return encode(value)
    return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """What json.dumps makes of a value that it does not know."""
    if hasattr(value, "model_dump"):  # pydantic
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(
        "%s is no JSON; give bytes, a pydantic model, a dataclass or a value of JSON" % type(value).__name__
    )


def encode_task(task: NewTask, ids: Ids) -> tuple[bytes, str, bool]:
    """Returns the message of a task, its id, and whether the id is new, so that nothing else adds
    a task under it. Raises Invalid."""
    try:
        return _encode(task, ids)
    except (TypeError, ValueError, AttributeError, OverflowError) as e:
        raise Invalid("a task of type %.40r: %s" % (getattr(task, "type", None), e), "invalid_argument") from e


def encode_child(task: NewTask) -> bytes:
    """Returns the message of a child, which gets its id from its parent. Raises Invalid."""
    message, task_id, is_own = encode_task(task, Ids())
    return message[len(sized(1, task_id.encode())) :] if is_own else message


def _encode(task: NewTask, ids: Ids) -> tuple[bytes, str, bool]:
    is_own = task.id is None
    task_id = ids.next(task.type, task.key, task.ordering_key) if is_own else str(task.id)
    parts = [sized(1, task_id.encode()), sized(2, task.type.encode())]
    if task.payload is not None:
        parts.append(sized(3, payload_of(task.payload)))
    if task.priority is not None:
        if not 0 <= task.priority <= 9:
            raise ValueError("the priority is %r: give 0 to 9" % (task.priority,))
        parts.append(b"\x28" + _encode_varint(task.priority))
    if task.key:
        parts.append(sized(6, task.key.encode()))
    if task.ordering_key:
        parts.append(sized(7, task.ordering_key.encode()))
    if task.at is not None:
        parts.append(sized(8, instant(task.at)))
    if task.delay is not None:
        parts.append(sized(9, give_duration(seconds(task.delay))))
    if task.expires_at is not None:
        parts.append(sized(10, instant(task.expires_at)))
    if task.headers:
        parts.append(mapping(11, task.headers))
    if isinstance(task.after, (str, bytes)):
        raise TypeError("after is a text: give a list of ids")
    parts += [sized(12, str(after).encode()) for after in task.after]
    if task.after_any:
        parts.append(b"\x68\x01")
    return b"".join(parts), task_id, is_own


def instant(at: Instant) -> bytes:
    """The message of a time."""
    if isinstance(at, datetime):
        return give_time(at)
    micros = round(at * 1_000_000)
    return give_time(datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(microseconds=micros))


def seconds(d: Seconds) -> timedelta:
    return d if isinstance(d, timedelta) else timedelta(seconds=d)


def decode_receipt(buf: bytes) -> Receipt:
    task_id, created, outcome, warning = "", False, "", ""
    for number, value in _fields(buf):
        if number == 1:
            task_id = value.decode()
        elif number == 2:
            created = bool(value)
        elif number == 3:
            outcome = value.decode()
        elif number == 4:
            warning = value.decode()
    return Receipt(task_id, created, outcome, warning)


def decode_error(address: str, buf: bytes) -> Error:
    """The error of one request of a stream."""
    parts = {number: value.decode() for number, value in _fields(buf)}
    return of_code(parts.get(1, ""), parts.get(2, ""), address, parts.get(3, ""))


def decode_receipts(buf: bytes, tasks: int) -> list[Receipt]:
    """The receipts of a Submit of so many tasks."""
    receipts = [decode_receipt(value) for number, value in _fields(buf) if number == 1]
    if len(receipts) != tasks:
        raise DecodeError("a node answered %d tasks with %d receipts" % (tasks, len(receipts)))
    return receipts


def refusal(r: Receipt) -> AlreadyExists | Late | None:
    """The error of a request of several that was refused while the others were done."""
    if r.outcome == "rejected":
        text = "task %s has the key of the request, and its type rejects that" % r.id
        return AlreadyExists(text, "already_exists")
    if r.outcome == "late":
        return Late("the time of the request lies further in the past than max_lateness of its type", "out_of_range")
    return None


def first_of_two(r: Receipt, task_id: str, is_own: bool) -> Receipt:
    """The receipt of a request that may have been sent twice: if nothing else adds a task under its
    id, an earlier try has added it."""
    return r._replace(created=True, outcome="created") if is_own and r.id == task_id else r
