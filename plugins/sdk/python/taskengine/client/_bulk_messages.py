"""Bulk jobs, as nodes describe them and as callers order them. The proto file of the API describes each field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._codec import BOOL, DOUBLE, INT64, TEXT, TIME, many, message, one
from ._messages import Task
from ._requests import Id, Instant, Seconds


@dataclass(frozen=True)
class TaskValues:
    """New values of a task. What is None stays as it is. payload is encoded as that of NewTask; b"" is an empty one. headers
    are added to those that the task has, and remove_headers removes some."""

    priority: int | None = None
    payload: object = None
    headers: Mapping[str, str] | None = None
    remove_headers: Iterable[str] = ()


@dataclass(frozen=True)
class BulkOrder:
    """Which tasks a bulk job changes, and how.

    verb is resume, cancel, fail, reschedule, set, delete, erase or undo. where is a filter; without states it selects those of the
    verb, and where_ids makes one of ids. types restricts it to tasks of these types. reason is for cancel and fail, and is
    kept as the error of the tasks. at or delay is for reschedule and set, and values for set. job is for undo, which has
    neither where nor types: the job that is undone, which has ended.
    """

    verb: str
    where: str = ""
    types: Iterable[str] = ()
    reason: str = ""
    at: Instant | None = None
    delay: Seconds | None = None
    values: TaskValues | None = None
    job: str = ""


@dataclass(frozen=True)
class BulkRefusal:
    """Why a bulk job did not change a task."""

    task_id: str = one(1, TEXT)
    reason: str = one(2, TEXT)


@dataclass(frozen=True)
class BulkEvent:
    """An order that a person has given to a bulk job."""

    at: datetime | None = one(1, TIME)
    by: str = one(2, TEXT)
    what: str = one(3, TEXT)
    reason: str = one(4, TEXT)


@dataclass(frozen=True)
class BulkJob:
    """A bulk job at one moment."""

    name: str = one(1, TEXT)
    phase: str = one(2, TEXT)  # running, paused, done, stopped, or ended: its task was cancelled or failed by hand
    verb: str = one(3, TEXT)
    where: str = one(4, TEXT)  # the filter with its times
    types: Sequence[str] = many(5, TEXT)
    reason: str = one(6, TEXT)
    at: datetime | None = one(7, TIME)
    rate: float = one(8, DOUBLE)  # tasks in a second; 0 is as fast as possible
    by: str = one(9, TEXT)
    ordered_at: datetime | None = one(10, TIME)
    begun_at: datetime | None = one(11, TIME)
    ended_at: datetime | None = one(12, TIME)
    total: int = one(13, INT64)  # tasks that the filter selected at the order
    total_complete: bool = one(14, BOOL)  # these were all; if not, there were more
    changed: int = one(15, INT64)  # tasks that the job has changed
    skipped: int = one(16, INT64)  # that were gone, or did not match any more, when the job came to them
    refused: int = one(17, INT64)  # of which the state does not allow it
    unclear: int = one(18, INT64)  # of which a node that died has left open whether the job has changed them
    read: int = one(19, INT64)  # tasks that were read to find them
    refusals: Sequence[BulkRefusal] = many(20, message(BulkRefusal))  # the first 100; not in lists
    history: Sequence[BulkEvent] = many(21, message(BulkEvent))  # the newest orders of people, at most 50; not in lists
    task_id: str = one(22, TEXT)  # of the job
    problem: str = one(23, TEXT)  # why it does not go on
    undoes: str = one(24, TEXT)  # of undo: the job that it undoes

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.phase not in ("running", "paused")


@dataclass(frozen=True)
class BulkKind:
    """The tasks of a preview with an error of one kind."""

    kind: str = one(1, TEXT)  # for a filter: error.kind=...
    pattern: str = one(2, TEXT)  # the error without numbers, ids and addresses
    tasks: int = one(3, INT64)
    sample: str = one(4, TEXT)  # the id of the newest of the tasks
    error: str = one(5, TEXT)  # of that


@dataclass(frozen=True)
class BulkPreview:
    """Which tasks a bulk job would change."""

    where: str  # the filter with its times
    tasks: int  # that it selects
    complete: bool  # these are all; if not, there are more
    read: int  # how many tasks were read at least
    states: Mapping[str, int]  # how many of the tasks are in each
    kinds: Sequence[BulkKind]  # of their errors, the most frequent first, at most 20
    samples: Sequence[Task]  # the newest of the tasks, at most 10, without payload, result and checkpoint
    left: Mapping[str, int]  # of undo: how many stay as they are, by the reason; of set: how many could not be undone
    total: int  # of how many tasks the read ones were, as in ErrorKinds
    index: str  # the field of the index by which they were found, likewise


def where_ids(*ids: Id) -> str:
    """The filter that selects the tasks with these ids, at most about 200 of them."""
    return "id=" + ",".join(str(id) for id in ids)


MESSAGES: tuple[type[Any], ...] = (BulkRefusal, BulkEvent, BulkJob, BulkKind)
