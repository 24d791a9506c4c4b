"""Events, as nodes describe them and as clients return them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._cluster_messages import SilentNode
from ._codec import BOOL, TEXT, TIME, many, message, one
from ._messages import Task


@dataclass(frozen=True)
class EventGap:
    """Changes of tasks may be missing."""

    from_: datetime | None = one(1, TIME)  # the first that is missing may be as old
    until: datetime | None = one(2, TIME)
    text: str = one(3, TEXT)  # to be read, not parsed


@dataclass(frozen=True)
class TaskEvent:
    """An event of an answer."""

    task: Task | None = one(1, message(Task))
    at: datetime | None = one(2, TIME)
    cursor: str = one(3, TEXT)
    from_store: bool = one(4, BOOL)


@dataclass(frozen=True)
class EventsResponse:
    """A part of a stream of events."""

    gap: EventGap | None = one(1, message(EventGap))
    events: Sequence[TaskEvent] = many(2, message(TaskEvent))
    cursor: str = one(3, TEXT)
    node: str = one(4, TEXT)
    silent: Sequence[SilentNode] = many(5, message(SilentNode))


@dataclass(frozen=True)
class Event:
    """A change of a task, a gap, or nodes that do not answer: exactly one of task, gap and silent is set."""

    cursor: str  # where to go on after the event; that of a gap is from before it
    task: Task | None = None  # after the change, without payload, result and checkpoint
    at: datetime | None = None
    # The task was found in the store after a gap, and is in its state since at. Other changes may be missing, and it may
    # come again.
    from_store: bool = False
    gap: EventGap | None = None
    silent: Sequence[SilentNode] = ()  # nodes that do not answer: their changes come later


MESSAGES: tuple[type[Any], ...] = (EventGap, TaskEvent, EventsResponse)
