"""The calls that clients make: what is sent, how the answer is read, and whether it may be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Generic, TypeVar, Union

from .._wire import _encode_varint, _fields
from ._cluster_messages import LimitList, LimitReasons, SilentNode
from ._codec import decode, encode, give_duration, integer, mapping, sized, text
from ._errors import Error, Invalid
from ._ids import Ids
from ._messages import (
    AppliedSchedule,
    CancelledTree,
    ErrorKind,
    ErrorKinds,
    Limit,
    Rate,
    Reason,
    Schedule,
    ScheduleDefinition,
    SchedulesChanged,
    ScheduleTime,
    Signaled,
    Source,
    SourceMove,
    StateCount,
    Task,
    TreeTask,
    Workflow,
)  # fmt: skip
from ._requests import (
    MAX_TOGETHER,
    Id,
    Instant,
    Receipt,
    Seconds,
    decode_receipts,
    first_of_two,
    instant,
    payload_of,
    seconds,
)  # fmt: skip

T = TypeVar("T")

WORKFLOW = "taskengine.workflow"
"""The type of tasks that are workflows."""

POLL = 20
"""How many seconds a node waits before it answers that tasks have not ended."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of a method."""

    method: str
    request: bytes
    read: Callable[[bytes], T]
    is_repeatable: bool  # also when a node may have received it


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list. next is the token of the page after it, and empty at the end."""

    items: Sequence[T]
    next: str


def _checked(make: Callable[..., Call[T]]) -> Callable[..., Call[T]]:
    """Has make raise Invalid for what cannot be sent."""

    def checked(*args: Any, **named: Any) -> Call[T]:
        try:
            return make(*args, **named)
        except Error:
            raise
        except (TypeError, ValueError, AttributeError, OverflowError) as e:
            raise Invalid("%s: %s" % (make.__name__, e), "invalid_argument") from e

    return checked


def _read(cls: type[T], number: int = 1) -> Callable[[bytes], T]:
    """Reads an answer whose field is a message."""

    def read(buf: bytes) -> T:
        found = b""
        for n, value in _fields(buf):
            if n == number:
                found = value
        return decode(cls, found)

    return read


def _read_all(cls: type[T], number: int) -> Callable[[bytes], Sequence[T]]:
    return lambda buf: [decode(cls, value) for n, value in _fields(buf) if n == number]


def _read_page(cls: type[T]) -> Callable[[bytes], Page[T]]:
    """Reads an answer with a list and the token of the next page."""

    def read(buf: bytes) -> Page[T]:
        fields = list(_fields(buf))
        token = [value.decode() for n, value in fields if n == 2]
        return Page([decode(cls, value) for n, value in fields if n == 1], token[-1] if token else "")

    return read


def _nothing(_: bytes) -> None:
    return None


def _texts(number: int, values: Iterable[str]) -> bytes:
    if isinstance(values, str):
        raise TypeError("give a list of texts and not the text %r" % values)
    return b"".join(sized(number, value.encode()) for value in values)


def _read_number(buf: bytes) -> int:
    return int(dict(_fields(buf)).get(1, 0))


def _read_text(buf: bytes) -> str:
    found: bytes = dict(_fields(buf)).get(1, b"")
    return found.decode()


# --- tasks


def submit(tasks: Sequence[bytes]) -> Call[Sequence[Receipt]]:
    if len(tasks) > MAX_TOGETHER:
        raise Invalid(
            "%d tasks are to be added together, of %d allowed" % (len(tasks), MAX_TOGETHER), "invalid_argument"
        )
    request = b"".join(sized(1, task) for task in tasks)
    return Call("Submit", request, lambda buf: decode_receipts(buf, len(tasks)), True)


@_checked
def submit_with_children(
    task: bytes, children: Sequence[bytes], name: str, count: int, or_failed: bool, until: Instant | None, is_open: bool
) -> Call[tuple[Sequence[Receipt], bool]]:
    """Adds a task with children, and returns its receipt, and whether more can be added."""

    def read(buf: bytes) -> tuple[Sequence[Receipt], bool]:
        return decode_receipts(buf, 1), bool(dict(_fields(buf)).get(2, 0))

    request = sized(1, task) + b"".join(sized(2, child) for child in children) + text(3, name)
    request += integer(4, count) + integer(5, int(or_failed))
    if until is not None:
        request += sized(6, instant(until))
    request += integer(7, int(is_open))
    return Call("SubmitWithChildren", request, read, True)


@_checked
def add_children(
    task_id: str, name: str, start: int, children: Sequence[bytes], closes: bool, count: int, or_failed: bool
) -> Call[tuple[int, bool]]:
    """Adds children from a number on, and returns how many there are, and whether more can be added."""
    if not 0 <= start < 1 << 32:
        raise ValueError("the number of the first child is %d: give 0 or more" % start)

    def read(buf: bytes) -> tuple[int, bool]:
        fields = dict(_fields(buf))
        return int(fields.get(1, 0)), bool(fields.get(2, 0))

    request = text(1, task_id) + text(2, name) + integer(3, start) + b"".join(sized(4, child) for child in children)
    request += integer(5, int(closes)) + integer(6, count) + integer(7, int(or_failed))
    return Call("AddChildren", request, read, True)


@_checked
def signal(
    name: str, data: object, id: Id | None, task_type: str, key: str, ordering_key: str, keep: bool, request_id: str
) -> Call[Signaled]:
    request = text(1, "" if id is None else str(id)) + text(2, task_type) + text(3, key) + text(4, ordering_key)
    request += text(5, name) + integer(7, int(keep)) + text(8, request_id)
    if data is not None:
        request += sized(6, payload_of(data))
    task = _read(Task, 2)
    return Call("Signal", request, lambda buf: Signaled(_read_text(buf), task(buf)), True)


@_checked
def tree(id: Id, token: str) -> Call[Page[TreeTask]]:
    return Call("Tree", text(1, str(id)) + integer(2, 1000) + text(3, token), _read_page(TreeTask), True)


@_checked
def cancel_tree(id: Id, reason: str) -> Call[tuple[CancelledTree, bool]]:
    """Cancels a part of a tree, and returns whether there is more."""

    def read(buf: bytes) -> tuple[CancelledTree, bool]:
        fields = dict(_fields(buf))
        cancelled = CancelledTree(decode(Task, fields.get(1, b"")), int(fields.get(2, 0)), int(fields.get(3, 0)))
        return cancelled, bool(fields.get(4, 0))

    return Call("Cancel", text(1, str(id)) + text(3, reason) + integer(4, 1), read, True)


@_checked
def get(id: Id) -> Call[Task]:
    return Call("Get", text(1, str(id)), _read(Task), True)


@_checked
def find(task_type: str, key: str, ordering_key: str) -> Call[Task]:
    return Call("Get", text(2, task_type) + text(3, key) + text(4, ordering_key), _read(Task), True)


@_checked
def tasks(
    states: Iterable[str], types: Iterable[str], key: str, where: str, token: str
) -> Call[tuple[Page[Task], str]]:
    """A page of tasks, and the filter for the pages after it: durations in it count from the first page."""
    page = _read_page(Task)
    request = _texts(1, states) + _texts(2, types) + text(4, token) + text(5, key) + text(6, where)
    return Call("List", request, lambda buf: (page(buf), dict(_fields(buf)).get(4, b"").decode()), True)


def task_pages(states: Iterable[str], types: Iterable[str], key: str, where: str) -> Callable[[str], Call[Page[Task]]]:
    """Makes the calls for the pages of a list, by their tokens."""

    def call(token: str) -> Call[Page[Task]]:
        of = tasks(states, types, key, where, token)

        def read(buf: bytes) -> Page[Task]:
            nonlocal where
            page, where = of.read(buf)
            return page

        return Call(of.method, of.request, read, of.is_repeatable)

    return call


@_checked
def error_kinds(types: Iterable[str], where: str, limit: int) -> Call[ErrorKinds]:
    if limit < 1:
        raise ValueError("the limit is %d: give 1 or more" % limit)
    kinds = _read_all(ErrorKind, 1)

    def read(buf: bytes) -> ErrorKinds:
        of = dict(_fields(buf))
        index, total = bytes(of.get(6, b"")).decode(), int(of.get(7, 0))
        return ErrorKinds(
            kinds(buf), int(of.get(2, 0)), int(of.get(3, 0)), int(of.get(4, 0)), bool(of.get(5, 0)), index, total
        )

    return Call("ListErrors", _texts(1, types) + text(2, where) + integer(3, limit), read, True)


@_checked
def count(states: Iterable[str], types: Iterable[str], where: str) -> Call[Sequence[StateCount]]:
    counts = _read_all(StateCount, 1)

    def read(buf: bytes) -> Sequence[StateCount]:
        if dict(_fields(buf)).get(4, 0):
            why = "more tasks than a node reads may be selected: name states, a type or a time in where"
            raise Invalid(why, "invalid_argument")
        return counts(buf)

    return Call("Count", _texts(1, states) + _texts(2, types) + text(3, where), read, True)


@_checked
def wait(id: Id, poll: float) -> Call[bool]:
    request = text(1, str(id)) + sized(3, give_duration(timedelta(seconds=poll)))
    return Call("Wait", request, lambda buf: any(n == 1 and value for n, value in _fields(buf)), True)


@_checked
def why(id: Id) -> Call[Sequence[Reason]]:
    return Call("Why", text(1, str(id)), _read_all(Reason, 2), True)


@_checked
def change(verb: str, id: Id, version: int, reason: str = "") -> Call[Task]:
    """Cancel, Fail or Resume; the last has no reason."""
    return Call(verb, text(1, str(id)) + integer(2, version) + text(3, reason), _read(Task), False)


@_checked
def reschedule(id: Id, at: Instant | None, delay: Seconds | None, version: int) -> Call[Task]:
    if (at is None) == (delay is None):
        raise ValueError("give either at or delay")
    when = sized(4, give_duration(seconds(delay))) if delay is not None else b""
    if at is not None:
        when = sized(3, instant(at))
    return Call("Reschedule", text(1, str(id)) + integer(2, version) + when, _read(Task), False)


# --- workflows


@_checked
def submit_workflow(
    name: str,
    definition: object,
    input: object,
    key: str,
    priority: int | None,
    at: Instant | None,
    delay: Seconds | None,
    headers: Mapping[str, str] | None,
    id: Id | None,
    ids: Ids,
) -> Call[Receipt]:
    if priority is not None and not 0 <= priority <= 9:
        raise ValueError("the priority is %r: give 0 to 9" % (priority,))
    task_id = ids.next(WORKFLOW, key, "") if id is None else str(id)
    request = text(1, name) + text(4, task_id) + text(5, key) + _optional(6, priority) + mapping(9, headers or {})
    if definition is not None:
        request += sized(2, payload_of(definition))
    if input is not None:
        request += sized(3, payload_of(input))
    if at is not None:
        request += sized(7, instant(at))
    if delay is not None:
        request += sized(8, give_duration(seconds(delay)))

    def read(buf: bytes) -> Receipt:
        return first_of_two(decode_receipts(buf, 1)[0], task_id, id is None)

    return Call("SubmitWorkflow", request, read, True)


@_checked
def workflow(id: Id) -> Call[Workflow]:
    return Call("GetWorkflow", text(1, str(id)), _read(Workflow), True)


@_checked
def workflow_of(key: str) -> Call[Workflow]:
    return Call("GetWorkflow", text(2, key), _read(Workflow), True)


@_checked
def retry_workflow(id: Id, from_step: str, version: int) -> Call[Workflow]:
    request = text(1, str(id)) + integer(2, version) + text(3, from_step)
    return Call("RetryWorkflow", request, _read(Workflow), False)


# --- limits


def limits() -> Call[LimitList]:
    found, silent = _read_all(Limit, 1), _read_all(SilentNode, 2)
    return Call("ListLimits", b"", lambda buf: LimitList(found(buf), silent(buf)), True)


@_checked
def limit(name: str, value: str) -> Call[Limit]:
    return Call("GetLimit", text(1, name) + text(2, value), _read(Limit), True)


@_checked
def why_limit(name: str, value: str) -> Call[LimitReasons]:
    return Call("WhyLimit", text(1, name) + text(2, value), lambda buf: decode(LimitReasons, buf), True)


@_checked
def set_limit(
    name: str, value: str, max: int | None, rate: Rate | None, paused: bool | None, if_version: int | None, by: str
) -> Call[Limit]:
    request = text(1, name) + text(2, value) + _optional(3, max)
    if rate is not None:
        request += sized(4, encode(rate))
    request += _optional(5, paused) + _optional(6, if_version) + text(7, by)
    return Call("SetLimit", request, _read(Limit), if_version is None)


@_checked
def unset_limit(name: str, value: str, if_version: int | None, by: str) -> Call[Limit]:
    request = text(1, name) + text(2, value) + _optional(3, if_version) + text(4, by)
    return Call("UnsetLimit", request, _read(Limit), False)


def _optional(number: int, value: int | None) -> bytes:
    """A number that is written even if it is 0."""
    if value is None:
        return b""
    if not 0 <= value < 1 << 64:
        raise ValueError("the number %d is negative, or has more than 64 bits" % value)
    return _encode_varint(number << 3) + _encode_varint(int(value))


# --- schedules


@_checked
def schedules(prefix: str, paused: bool, failing: bool, token: str) -> Call[Page[Schedule]]:
    request = text(2, token) + text(3, prefix) + integer(4, paused) + integer(5, failing)
    return Call("ListSchedules", request, _read_page(Schedule), True)


@_checked
def schedule(name: str) -> Call[Schedule]:
    return Call("GetSchedule", text(1, name), _read(Schedule), True)


@_checked
def apply_schedule(name: str, definition: ScheduleDefinition) -> Call[str]:
    return Call("ApplySchedule", text(1, name) + sized(2, encode(definition)), _read_text, True)


NamedSchedule = Union[tuple[str, ScheduleDefinition], tuple[str, ScheduleDefinition, int]]
"""A name and a definition, and the version that the schedule must have: 0 if there must be none."""


@_checked
def apply_schedules(some: Sequence[NamedSchedule]) -> Call[Sequence[AppliedSchedule]]:
    request = b""
    for name, definition, *version in some:
        named = text(1, name) + sized(2, encode(definition)) + _optional(3, version[0] if version else None)
        request += sized(1, named)
    return Call("ApplySchedules", request, _read_all(AppliedSchedule, 1), True)


@_checked
def change_schedules(
    method: str, prefix: str, every: bool, dry_run: bool, reason: str, token: str
) -> Call[SchedulesChanged]:
    select = text(1, prefix) + integer(2, every) + text(4, token) + integer(5, dry_run)
    return Call(method, sized(1, select) + text(2, reason), _read(SchedulesChanged), True)


def added(a: SchedulesChanged, b: SchedulesChanged) -> SchedulesChanged:
    """The effect of two parts of a change."""
    return SchedulesChanged(a.changed + b.changed, a.unchanged + b.unchanged, [*a.failed, *b.failed])


@_checked
def preview_schedule(
    name: str, definition: ScheduleDefinition | None, start: Instant | None, count: int
) -> Call[Sequence[ScheduleTime]]:
    request = text(1, name)
    if definition is not None:
        request += sized(2, encode(definition))
    if start is not None:
        request += sized(3, instant(start))
    return Call("PreviewSchedule", request + integer(4, count), _read_all(ScheduleTime, 1), True)


@_checked
def delete_schedule(name: str) -> Call[None]:
    return Call("DeleteSchedule", text(1, name), _nothing, False)


@_checked
def pause_schedule(name: str, reason: str) -> Call[Schedule]:
    return Call("PauseSchedule", text(1, name) + text(2, reason), _read(Schedule), True)


@_checked
def resume_schedule(name: str) -> Call[Schedule]:
    return Call("ResumeSchedule", text(1, name), _read(Schedule), True)


@_checked
def trigger_schedule(name: str) -> Call[str]:
    return Call("TriggerSchedule", text(1, name), _read_text, False)


@_checked
def backfill_schedule(name: str, start: Instant, end: Instant, dry_run: bool) -> Call[int]:
    request = text(1, name) + sized(2, instant(start)) + sized(3, instant(end)) + integer(4, int(dry_run))
    return Call("BackfillSchedule", request, _read_number, dry_run)


# --- sources


def sources() -> Call[Sequence[Source]]:
    return Call("ListSources", b"", _read_all(Source, 1), True)


@_checked
def source(name: str) -> Call[Source]:
    return Call("GetSource", text(1, name), _read(Source), True)


@_checked
def pause_source(name: str, reason: str) -> Call[Source]:
    return Call("PauseSource", text(1, name) + text(2, reason), _read(Source), True)


@_checked
def resume_source(name: str) -> Call[Source]:
    return Call("ResumeSource", text(1, name), _read(Source), True)


@_checked
def seek_source(
    name: str,
    topic: str,
    partition: int | None,
    begin: bool,
    end: bool,
    time: Instant | None,
    offset: int | None,
    dry_run: bool,
) -> Call[Sequence[SourceMove]]:
    if sum((begin, end, time is not None, offset is not None)) != 1:
        raise ValueError("give one of begin, end, time and offset")
    request = text(1, name) + text(2, topic) + _optional(3, partition) + integer(4, int(begin)) + integer(5, int(end))
    if time is not None:
        request += sized(6, instant(time))
    request += _optional(7, offset) + integer(8, int(dry_run))
    return Call("SeekSource", request, _read_all(SourceMove, 2), dry_run)
