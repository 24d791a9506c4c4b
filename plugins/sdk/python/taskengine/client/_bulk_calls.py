"""The calls about bulk jobs, and those that set and delete one task."""

from __future__ import annotations

from .._wire import _fields, _signed
from ._bulk_messages import BulkJob, BulkKind, BulkOrder, BulkPreview, TaskValues
from ._calls import Call, Page, _checked, _optional, _read, _read_all, _read_page, _texts
from ._codec import double, give_duration, integer, mapping, sized, text
from ._messages import Task
from ._requests import Id, Instant, Seconds, instant, payload_of, seconds


def _values(v: TaskValues) -> bytes:
    if v.priority is not None and not 0 <= v.priority <= 9:
        raise ValueError("the priority is %r: give 0 to 9" % (v.priority,))
    encoded = _optional(1, v.priority) + mapping(4, v.headers or {}) + _texts(5, v.remove_headers)
    return encoded if v.payload is None else encoded + sized(2, payload_of(v.payload))


def _time(first: int, at: Instant | None, delay: Seconds | None) -> bytes:
    """A time or a delay, which are the fields from a number on."""
    if at is not None and delay is not None:
        raise ValueError("give at or delay, and not both")
    if delay is not None:
        return sized(first + 1, give_duration(seconds(delay)))
    return b"" if at is None else sized(first, instant(at))


def _order(o: BulkOrder) -> bytes:
    encoded = (
        text(1, o.verb)
        + text(2, o.where)
        + _texts(3, o.types)
        + text(4, o.reason)
        + _time(5, o.at, o.delay)
        + text(8, o.job)
    )
    return sized(1, encoded if o.values is None else encoded + sized(7, _values(o.values)))


def _count(entry: bytes) -> tuple[str, int]:
    fields = dict(_fields(entry))
    return bytes(fields.get(1, b"")).decode(), _signed(fields.get(2, 0))


@_checked
def preview_bulk_job(order: BulkOrder) -> Call[BulkPreview]:
    kinds, samples = _read_all(BulkKind, 6), _read_all(Task, 7)

    def read(buf: bytes) -> BulkPreview:
        of = dict(_fields(buf))
        states, left = (dict(_count(entry) for number, entry in _fields(buf) if number == n) for n in (5, 8))
        tasks, found = _signed(of.get(2, 0)), _signed(of.get(4, 0))
        where, index = (bytes(of.get(n, b"")).decode() for n in (1, 10))
        total = int(of.get(9, 0))
        return BulkPreview(
            where, tasks, bool(of.get(3, 0)), found, states, kinds(buf), samples(buf), left, total, index
        )

    return Call("PreviewBulkJob", _order(order), read, True)


@_checked
def start_bulk_job(order: BulkOrder, name: str, rate: float, by: str) -> Call[BulkJob]:
    request = _order(order) + text(2, name) + double(3, rate) + text(4, by)
    return Call("StartBulkJob", request, _read(BulkJob), name != "")


@_checked
def bulk_job(name: str) -> Call[BulkJob]:
    return Call("GetBulkJob", text(1, name), _read(BulkJob), True)


@_checked
def bulk_jobs(token: str) -> Call[Page[BulkJob]]:
    return Call("ListBulkJobs", text(2, token), _read_page(BulkJob), True)


@_checked
def change_bulk_job(method: str, name: str, by: str, reason: str) -> Call[BulkJob]:
    """PauseBulkJob, ContinueBulkJob or StopBulkJob."""
    return Call(method, text(1, name) + text(2, by) + text(3, reason), _read(BulkJob), True)


@_checked
def set_bulk_job_rate(name: str, rate: float, by: str) -> Call[BulkJob]:
    return Call("SetBulkJobRate", text(1, name) + double(2, rate) + text(3, by), _read(BulkJob), True)


@_checked
def set_task(
    id: Id, values: TaskValues, at: Instant | None, delay: Seconds | None, by: str, version: int
) -> Call[Task]:
    request = text(1, str(id)) + integer(2, version) + sized(3, _values(values)) + _time(4, at, delay) + text(6, by)
    return Call("SetTask", request, _read(Task), False)


@_checked
def delete_task(id: Id, version: int) -> Call[Task]:
    return Call("DeleteTask", text(1, str(id)) + integer(2, version), _read(Task), False)
