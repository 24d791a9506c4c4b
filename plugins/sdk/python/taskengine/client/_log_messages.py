"""Lines of the log of a task, as nodes describe them and as clients return them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._cluster_messages import SilentNode
from ._codec import BOOL, TEXT, TIME, UINT32, UINT64, many, message, one


@dataclass(frozen=True)
class LogLine:
    """A line that a handler has logged."""

    attempt: int = one(1, UINT32)
    time: datetime | None = one(2, TIME)
    level: str = one(3, TEXT)  # DEBUG, INFO, WARN or ERROR, or one of these with an offset, such as INFO+2
    message: str = one(4, TEXT)
    attrs: str = one(5, TEXT)  # its attributes, as the text of a JSON object; empty if there are none
    dropped: int = one(6, UINT64)  # if not 0, this is no line: so many lines are missing, because too many were logged
    cut: bool = one(7, BOOL)  # the line was too long: its texts are truncated
    node: str = one(8, TEXT)  # that has the line


@dataclass(frozen=True)
class RanElsewhere:
    """On which node an attempt ran, or runs."""

    attempt: int = one(1, UINT32)
    node: str = one(2, TEXT)  # its name
    alive: bool = one(3, BOOL)  # a node with this name is alive
    here: bool = one(4, BOOL)  # the node that was asked has this name


@dataclass(frozen=True)
class TaskLogsResponse:
    """A part of a stream of lines."""

    lines: Sequence[LogLine] = many(1, message(LogLine))
    cursor: str = one(2, TEXT)
    complete: bool = one(3, BOOL)
    elsewhere: Sequence[RanElsewhere] = many(4, message(RanElsewhere))
    silent: Sequence[SilentNode] = many(5, message(SilentNode))


@dataclass(frozen=True)
class MissingLines:
    """Which lines of a log are missing."""

    elsewhere: Sequence[RanElsewhere]  # attempts that ran on other nodes, and of which no line has come
    silent: Sequence[SilentNode]  # nodes that did not answer


@dataclass(frozen=True)
class LogEntry:
    """A line or, as the last entry, which lines are missing: exactly one of line and missing is set."""

    cursor: str  # where to go on after the entry; a few lines may come again
    line: LogLine | None = None
    missing: MissingLines | None = None


MESSAGES: tuple[type[Any], ...] = (LogLine, RanElsewhere, TaskLogsResponse)
