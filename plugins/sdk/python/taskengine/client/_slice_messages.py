"""What nodes say of time slices. The proto file of the API describes each field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ._codec import BOOL, DURATION, TEXT, TIME, UINT32, UINT64, many, message, one, optional, texts
from ._messages import SourcePause


@dataclass(frozen=True)
class SliceSetting:
    """A value of a source or a platform, as text."""

    name: str = one(1, TEXT)
    value: str = one(2, TEXT)
    # own, file_own, live, file, default, or before: the newest values cannot be, and an earlier one is in force
    from_: str = one(3, TEXT)


@dataclass(frozen=True)
class SliceChange:
    """A change of a source or a platform."""

    at: datetime | None = one(1, TIME)
    by: str = one(2, TEXT)
    what: str = one(3, TEXT)  # with its reason, for people


@dataclass(frozen=True)
class OpenSlice:
    """A slice that has not ended."""

    start: datetime | None = one(1, TIME)
    end: datetime | None = one(2, TIME)  # the start of the next slice
    failed_at: datetime | None = one(3, TIME)  # None: it has not failed
    task_id: str = one(4, TEXT)


@dataclass(frozen=True)
class PlatformStop:
    """That the breaker has stopped a platform."""

    since: datetime | None = one(1, TIME)
    next: datetime | None = one(2, TIME)  # when a failed slice is tried again
    probes: int = one(3, UINT32)  # how many were


@dataclass(frozen=True)
class SliceSource:
    """A source of time slices: platforms that are polled for what happened in slices of time. Counts are sums over its
    platforms."""

    name: str = one(1, TEXT)
    type: str = one(2, TEXT)  # of the tasks of its slices
    platform_count: int = one(3, UINT32)
    low_water: datetime | None = one(4, TIME)  # the oldest one of its platforms; None: none has begun
    cursor_lag: timedelta | None = one(5, DURATION)  # the longest one of its platforms
    running: int = one(6, UINT64)  # slices that run or will
    failed: int = one(7, UINT64)  # slices that have failed, and wait until they are retried
    stopped: int = one(8, UINT32)  # platforms that are stopped by their breaker
    paused: int = one(9, UINT32)  # platforms
    problems: int = one(10, UINT32)  # platforms that have a problem
    orders: int = one(11, UINT32)  # that it has not carried out, or has not passed to all of its platforms
    problem: str = one(12, TEXT)  # why it carries out no orders
    task_id: str = one(13, TEXT)  # of the task that is the source
    values: Sequence[SliceSetting] = many(14, message(SliceSetting))  # that are set for it; not in lists
    history: Sequence[SliceChange] = many(15, message(SliceChange))  # the newest, the oldest first; not in lists
    only_on: str = one(16, TEXT)  # the node that has these values and platforms in a store of its own; "": all nodes do
    version: int = one(
        17, UINT64
    )  # of its values: grows with each change of them, also by the configuration, and when the clock was set back


@dataclass(frozen=True)
class Platform:
    """A platform of a source of time slices."""

    source: str = one(1, TEXT)
    name: str = one(2, TEXT)
    cursor: datetime | None = one(3, TIME)  # the start of its next slice; None: it has not begun
    low_water: datetime | None = one(4, TIME)  # all slices before it have ended
    cursor_lag: timedelta | None = one(5, DURATION)  # the time from its cursor to the present
    next: datetime | None = one(6, TIME)  # when its cursor runs next; None: at the next order
    running: int = one(7, UINT32)  # slices that run or will
    failed: int = one(8, UINT32)  # slices that have failed, and wait until they are retried
    stopped: PlatformStop | None = one(9, message(PlatformStop))  # by its breaker; None: it is not
    paused: SourcePause | None = one(10, message(SourcePause))  # None: it is not
    removed: bool = one(11, BOOL)
    orders: int = one(12, UINT32)  # that were accepted and are not carried out yet
    problem: str = one(13, TEXT)  # why it does not go on, or why its newest values are not in force
    made: int = one(14, UINT64)  # slices, since it was added
    done: int = one(15, UINT64)
    given_up: int = one(16, UINT64)  # slices whose tasks were cancelled or failed by hand
    task_id: str = one(17, TEXT)  # of its cursor
    settings: Sequence[SliceSetting] = many(18, message(SliceSetting))  # in force, by name; not in lists
    slices: Sequence[OpenSlice] = many(19, message(OpenSlice))  # that have not ended; not in lists
    history: Sequence[SliceChange] = many(20, message(SliceChange))  # the newest, the oldest first; not in lists
    version: int = one(21, UINT64)  # grows with each change of its own values, and when it is added or removed
    own: Mapping[str, str] = texts(22)  # the values that were set for it while nodes ran, after its orders
    configured: bool = one(23, BOOL)  # the configuration of the source names it


@dataclass(frozen=True)
class PlatformRow:
    """How apply_platforms makes a platform."""

    name: str = one(1, TEXT)
    values: Mapping[str, str] = texts(2)  # of its own, as in set_slices
    replace: bool = one(3, BOOL)  # values of its own that are not in values are unset
    removed: bool = one(4, BOOL)  # it makes no slices; otherwise it is added if there is none, or if it was removed
    if_version: int | None = optional(5, UINT64)  # the version that it must have, 0 if there must be none; None: any


@dataclass(frozen=True)
class AppliedPlatform:
    """The effect of apply_platforms on one platform. Without an error, outcome is created, updated, removed or unchanged."""

    name: str = one(1, TEXT)
    outcome: str = one(2, TEXT)
    version: int = one(3, UINT64)  # of the platform then; 0 if there is none, or its row was not applied
    code: str = one(4, TEXT)  # such as aborted for another version; empty if the row was applied
    error: str = one(5, TEXT)


MESSAGES: tuple[type[Any], ...] = (
    SliceSetting, SliceChange, OpenSlice, PlatformStop, SliceSource, Platform, PlatformRow, AppliedPlatform,
)  # fmt: skip
