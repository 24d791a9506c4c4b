"""What nodes say of tasks, workflows, limits, schedules and sources. The proto file of the API describes each field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ._codec import (
    BOOL,
    BYTES,
    DURATION,
    INT64,
    TEXT,
    TIME,
    UINT32,
    UINT64,
    Kind,
    decode,
    encode,
    many,
    message,
    one,
    optional,
    texts,
)  # fmt: skip

_STEP = Kind("WorkflowStep", lambda buf: decode(WorkflowStep, buf), encode, None)  # of a field of itself


@dataclass(frozen=True)
class Progress:
    """What an attempt has reported of how far it is."""

    done: int = one(1, UINT64)
    total: int = one(2, UINT64)  # 0 if unknown
    message: str = one(3, TEXT)
    at: datetime | None = one(4, TIME)


@dataclass(frozen=True)
class Attempt:
    """An attempt that ended without finishing its task."""

    number: int = one(1, UINT32)
    started_at: datetime | None = one(2, TIME)
    ended_at: datetime | None = one(3, TIME)
    outcome: str = one(4, TEXT)
    error: str = one(5, TEXT)
    node: str = one(6, TEXT)  # that ran it, by its name
    by: str = one(7, TEXT)  # who has edited or erased the task
    job: str = one(8, TEXT)  # the bulk job that has done so


@dataclass(frozen=True)
class ReceivedSignal:
    """A signal that a task has got."""

    name: str = one(1, TEXT)
    at: datetime | None = one(2, TIME)
    data: bytes = one(3, BYTES)


@dataclass(frozen=True)
class Parent:
    """The place of a task among the children of another."""

    id: str = one(1, TEXT)  # of the other
    name: str = one(2, TEXT)  # of the set of children
    index: int = one(3, UINT32)  # in the set, from 0 on


@dataclass(frozen=True)
class ChildSet:
    """The children of a task that have one name, and how many of them have ended. One in the state error has not."""

    name: str = one(1, TEXT)
    added: int = one(2, UINT32)
    done: int = one(3, UINT32)
    failed: int = one(4, UINT32)
    cancelled: int = one(5, UINT32)
    awaits: int = one(6, UINT32)  # the task waits until so many have ended
    or_failed: bool = one(7, BOOL)  # likewise, or until one has failed or was cancelled
    open: bool = one(8, BOOL)  # the task waits until the last children are added


@dataclass(frozen=True)
class After:
    """The tasks after which a task runs, and how many of them have ended. One in the state error has not."""

    tasks: Sequence[str] = many(1, TEXT)  # their ids
    done: int = one(2, UINT32)
    failed: int = one(3, UINT32)
    cancelled: int = one(4, UINT32)
    any: bool = one(5, BOOL)  # the task runs when they have ended, however; only while it waits for them


@dataclass(frozen=True)
class Task:
    """A task with its state and history."""

    id: str = one(1, TEXT)
    type: str = one(2, TEXT)
    state: str = one(3, TEXT)
    version: int = one(4, UINT64)
    attempt: int = one(5, UINT32)
    crashes: int = one(6, UINT32)
    priority: int = one(7, UINT32)
    key: str = one(8, TEXT)
    ordering_key: str = one(9, TEXT)
    headers: Mapping[str, str] = texts(10)
    created_at: datetime | None = one(11, TIME)
    ready_at: datetime | None = one(12, TIME)
    next_event_at: datetime | None = one(13, TIME)
    expires_at: datetime | None = one(14, TIME)
    started_at: datetime | None = one(15, TIME)
    updated_at: datetime | None = one(16, TIME)
    payload: bytes = one(17, BYTES)  # not in lists
    result: bytes = one(18, BYTES)  # not in lists
    error: str = one(19, TEXT)
    history: Sequence[Attempt] = many(20, message(Attempt))
    progress: Progress | None = one(21, message(Progress))
    checkpoint: bytes = one(22, BYTES)  # not in lists
    turn: str = one(25, TEXT)
    inherited_priority: int | None = optional(26, UINT32)  # with which a head runs
    tombstone: bool = one(27, BOOL)  # it is done, and its payload and result were removed
    node: str = one(28, TEXT)  # that runs it, or ran its newest attempt, by its name
    awaits: Sequence[str] = many(29, TEXT)  # the names of the signals that it waits for, or taskengine.children
    woken_by: str = one(30, TEXT)  # what ended its newest wait: signal, children, timeout or user
    woken_signal: ReceivedSignal | None = one(31, message(ReceivedSignal))  # not in lists
    kept_signals: Sequence[ReceivedSignal] = many(32, message(ReceivedSignal))  # not in lists
    parent: Parent | None = one(33, message(Parent))  # the task that learns of its end
    children: Sequence[ChildSet] = many(34, message(ChildSet))  # that it has added; not in lists
    after: After | None = one(35, message(After))  # the tasks after which it runs; not in lists
    followers: Sequence[str] = many(36, TEXT)  # the ids of the tasks that run after it; not in lists

    @property
    def has_ended(self) -> bool:
        """Whether it is done, error, failed or cancelled."""
        return self.state in ("done", "error", "failed", "cancelled")


@dataclass(frozen=True)
class TreeTask:
    """A task of a tree."""

    task: Task = one(1, message(Task))  # without payload and result, but with its children
    depth: int = one(2, UINT32)  # how many tasks of the tree are above it


@dataclass(frozen=True)
class CancelledTree:
    """What has become of a task and the tasks below it."""

    task: Task  # after the change
    cancelled: int  # how many tasks were cancelled
    missing: int  # how many children were not found although they have not ended: cancel the tree again


@dataclass(frozen=True)
class Signaled:
    """What has become of a signal: woke, kept, repeated, dropped, no_room or ended."""

    outcome: str
    task: Task  # after that


@dataclass(frozen=True)
class WorkflowStep:
    """A step of a workflow. Its tasks are those of its newest run."""

    name: str = one(1, TEXT)
    type: str = one(2, TEXT)  # of its tasks; empty for a wait
    state: str = one(3, TEXT)  # pending, running, done, failed, cancelled or skipped
    after: Sequence[str] = many(4, TEXT)
    waits: Sequence[str] = many(5, TEXT)  # the steps for which a pending one waits
    count: int = one(6, UINT32)  # of its tasks
    done: int = one(7, UINT32)
    failed: int = one(8, UINT32)
    cancelled: int = one(9, UINT32)
    task_ids: Sequence[str] = many(10, TEXT)  # of the first hundred
    began: datetime | None = one(11, TIME)
    ended: datetime | None = one(12, TIME)
    error: str = one(13, TEXT)
    signal: str = one(14, TEXT)  # that it waits for
    until: datetime | None = one(15, TIME)  # until when it waits
    compensation: WorkflowStep | None = one(16, _STEP)  # None if it was not compensated


@dataclass(frozen=True)
class Workflow:
    """A workflow and its steps."""

    name: str = one(1, TEXT)
    task: Task = one(2, message(Task))  # without payload and result
    steps: Sequence[WorkflowStep] = many(3, message(WorkflowStep))  # in an order in which they may run
    output: str = one(4, TEXT)  # JSON; empty if it is not done, or has none
    retries: int = one(5, UINT32)  # how often it was retried


@dataclass(frozen=True)
class StateCount:
    """How many tasks of a type are in a state."""

    state: str = one(1, TEXT)
    type: str = one(2, TEXT)
    count: int = one(3, INT64)


@dataclass(frozen=True)
class ErrorKind:
    """The tasks whose newest error is of one kind. Errors of a kind differ only in numbers, ids and addresses."""

    kind: str = one(1, TEXT)  # for a filter: error.kind=...
    pattern: str = one(2, TEXT)  # the error without numbers, ids and addresses
    tasks: int = one(3, INT64)
    first: datetime | None = one(4, TIME)  # the newest change of the task that changed first
    last: datetime | None = one(5, TIME)  # and of the one that changed last
    types: Sequence[str] = many(6, TEXT)  # at most 16
    nodes: Sequence[str] = many(7, TEXT)  # that ran the newest attempts, at most 16
    sample: str = one(8, TEXT)  # the id of the newest of the tasks
    error: str = one(9, TEXT)  # of that


@dataclass(frozen=True)
class ErrorKinds:
    """The errors of tasks, by their kinds."""

    kinds: Sequence[ErrorKind]  # those of most tasks first
    tasks: int  # with an error, also of kinds that are left out
    others: int  # with an error of a kind that is left out
    read: int  # how many tasks the node has read at least
    complete: bool  # all tasks were read; if not, the newest were
    index: (
        str  # the field of the index by which the tasks were found or counted; empty if tasks of all states were read
    )
    total: int  # of how many tasks the read ones were; 0 if the store does not count them, or an index has just the tasks that the filter selects


@dataclass(frozen=True)
class Reason:
    """A reason why a task does not run, or its present state."""

    code: str = one(1, TEXT)
    text: str = one(2, TEXT)
    limit: str = one(3, TEXT)
    value: str = one(4, TEXT)
    used: int = one(5, INT64)
    max: int = one(6, INT64)
    until: datetime | None = one(7, TIME)
    holders: Sequence[str] = many(8, TEXT)
    cluster: bool = one(9, BOOL)
    held: int = one(10, INT64)
    waiting: int = one(11, INT64)
    head: str = one(12, TEXT)
    head_state: str = one(13, TEXT)


@dataclass(frozen=True)
class Rate:
    """How many tasks may start in a time."""

    count: int = one(1, UINT32)  # 0: no limit
    per: timedelta | None = one(2, DURATION)
    burst: int = one(3, UINT32)  # how many may start at once after a pause; 0: count


@dataclass(frozen=True)
class LimitSetting:
    """What people have set for a limit."""

    max: int | None = optional(1, UINT32)
    rate: Rate | None = one(2, message(Rate))
    paused: bool = one(3, BOOL)
    version: int = one(4, UINT64)
    by: str = one(5, TEXT)
    node: str = one(6, TEXT)
    at: datetime | None = one(7, TIME)
    value: str = one(8, TEXT)
    problem: str = one(9, TEXT)


@dataclass(frozen=True)
class LimitUse:
    """How much of a limit a node uses."""

    node: str = one(1, TEXT)
    used: int = one(2, INT64)
    held: int = one(3, INT64)


@dataclass(frozen=True)
class Limit:
    """A limit as it is in force, as a whole or for one of its values."""

    name: str = one(1, TEXT)
    value: str = one(2, TEXT)
    configured: bool = one(3, BOOL)
    of: str = one(4, TEXT)
    per: str = one(5, TEXT)
    scope: str = one(6, TEXT)
    max: int = one(7, UINT32)
    rate: Rate | None = one(8, message(Rate))
    paused: bool = one(9, BOOL)
    configured_max: int = one(10, UINT32)
    configured_rate: Rate | None = one(11, message(Rate))
    setting: LimitSetting | None = one(12, message(LimitSetting))
    inherited: Sequence[LimitSetting] = many(13, message(LimitSetting))
    used: int = one(14, INT64)
    held: int = one(15, INT64)
    uses: Sequence[LimitUse] = many(16, message(LimitUse))


@dataclass(frozen=True)
class ScheduleCatchUp:
    """What happens to times at which a schedule could not run."""

    policy: str = one(1, TEXT)
    max: int = one(2, UINT32)
    window: timedelta | None = one(3, DURATION)


@dataclass(frozen=True)
class ScheduleTask:
    """The tasks that a schedule adds."""

    type: str = one(1, TEXT)  # empty if workflow is given
    payload: str = one(2, TEXT)  # of a workflow: its input, which is JSON
    priority: int | None = optional(3, UINT32)
    headers: Mapping[str, str] = texts(4)
    expires: timedelta | None = one(5, DURATION)
    workflow: str = one(6, TEXT)  # in place of type: its name in the configuration of the nodes


@dataclass(frozen=True)
class ScheduleDefinition:
    """When a schedule fires and what it adds. Either cron or every is given."""

    cron: str = one(1, TEXT)
    timezone: str = one(2, TEXT)
    gap: str = one(3, TEXT)
    repeat: str = one(4, TEXT)
    every: timedelta | None = one(5, DURATION)
    anchor: datetime | None = one(6, TIME)
    start: datetime | None = one(7, TIME)
    end: datetime | None = one(8, TIME)
    jitter: timedelta | None = one(9, DURATION)
    catch_up: ScheduleCatchUp | None = one(10, message(ScheduleCatchUp))
    overlap: str = one(11, TEXT)
    task: ScheduleTask | None = one(12, message(ScheduleTask))


@dataclass(frozen=True)
class SchedulePause:
    """Since when a schedule is paused, and why."""

    since: datetime | None = one(1, TIME)
    reason: str = one(2, TEXT)


@dataclass(frozen=True)
class ScheduleFire:
    """A task that a schedule has added."""

    time: datetime | None = one(1, TIME)
    task_id: str = one(2, TEXT)


@dataclass(frozen=True)
class Schedule:
    """A schedule with its state, as it is when its pending orders are carried out."""

    name: str = one(1, TEXT)
    definition: ScheduleDefinition | None = one(2, message(ScheduleDefinition))
    next: datetime | None = one(3, TIME)
    paused: SchedulePause | None = one(4, message(SchedulePause))
    last: ScheduleFire | None = one(5, message(ScheduleFire))
    fires: int = one(6, UINT64)
    missed: int = one(7, UINT64)
    overlapped: int = one(8, UINT64)
    waiting: Sequence[datetime] = many(9, TIME)
    running: Sequence[ScheduleFire] = many(10, message(ScheduleFire))
    orders: int = one(11, UINT32)
    task_id: str = one(12, TEXT)
    error: str = one(13, TEXT)
    attempt: int = one(14, UINT32)
    version: int = one(15, UINT64)


@dataclass(frozen=True)
class AppliedSchedule:
    """The effect of apply_schedules on one schedule. Without an error, outcome is created, updated or unchanged."""

    name: str = one(1, TEXT)
    outcome: str = one(2, TEXT)
    version: int = one(3, UINT64)
    code: str = one(4, TEXT)  # such as aborted for another version; empty if it was applied
    error: str = one(5, TEXT)


@dataclass(frozen=True)
class ScheduleFailure:
    """Why a schedule was not changed."""

    name: str = one(1, TEXT)
    error: str = one(2, TEXT)


@dataclass(frozen=True)
class SchedulesChanged:
    """The effect of a change of the schedules that a node has examined."""

    changed: int = one(1, UINT32)  # how many were changed, or would be
    unchanged: int = one(2, UINT32)  # how many are so already
    failed: Sequence[ScheduleFailure] = many(3, message(ScheduleFailure))
    next_page_token: str = one(4, TEXT)  # empty in the answers of clients


@dataclass(frozen=True)
class ScheduleTime:
    """A time at which a schedule fires."""

    time: datetime | None = one(1, TIME)
    local: str = one(2, TEXT)
    moved_from: str = one(3, TEXT)
    repeated: bool = one(4, BOOL)


@dataclass(frozen=True)
class SourcePause:
    """Since when a source is paused, and why."""

    since: datetime | None = one(1, TIME)
    reason: str = one(2, TEXT)


@dataclass(frozen=True)
class SourceLoss:
    """A range of offsets that a source could not read, because the topic did not have them any more."""

    begin: int = one(1, UINT64)  # the first offset
    end: int = one(2, UINT64)  # the offset behind the last one
    at: datetime | None = one(3, TIME)
    reason: str = one(4, TEXT)


LOSS = message(SourceLoss)  # a field of SourcePartition hides the function


@dataclass(frozen=True)
class SourcePartition:
    """A partition that a source reads."""

    topic: str = one(1, TEXT)
    partition: int = one(2, UINT32)
    position: int = one(3, UINT64)  # the offset of the next record
    end: int | None = optional(4, UINT64)  # None: it is not known
    lag: int | None = optional(5, UINT64)  # None: it is not known
    node: str = one(6, TEXT)  # that reads it; empty if none does
    message: str = one(7, TEXT)  # why it is not read at present
    records: int = one(8, UINT64)
    tasks: int = one(9, UINT64)
    unreadable: int = one(10, UINT64)
    skipped: int = one(11, UINT64)
    lost: Sequence[SourceLoss] = many(12, LOSS)
    task_id: str = one(13, TEXT)


@dataclass(frozen=True)
class Source:
    """A source of tasks: topics of Apache Kafka whose records become tasks. Counts are those of all nodes."""

    name: str = one(1, TEXT)
    topics: Sequence[str] = many(2, TEXT)  # either these are set, or pattern is
    pattern: str = one(3, TEXT)
    group: str = one(4, TEXT)
    paused: SourcePause | None = one(5, message(SourcePause))
    orders: int = one(6, UINT32)  # requests that are not carried out yet
    problem: str = one(7, TEXT)  # why it does not read all of its topics
    lag: int | None = optional(8, UINT64)  # None: it is not known of all partitions
    partition_count: int = one(9, UINT32)
    reading: int = one(10, UINT32)  # partitions that a node reads at present
    records: int = one(11, UINT64)
    tasks: int = one(12, UINT64)
    unreadable: int = one(13, UINT64)
    skipped: int = one(14, UINT64)
    lost: int = one(15, UINT64)
    partitions: Sequence[SourcePartition] = many(16, message(SourcePartition))  # not in lists
    task_id: str = one(17, TEXT)


@dataclass(frozen=True)
class SourceMove:
    """What a seek does to a partition. If target is less than position, it reads the offsets between them again."""

    topic: str = one(1, TEXT)
    partition: int = one(2, UINT32)
    position: int = one(3, UINT64)  # before the seek
    target: int = one(4, UINT64)


MESSAGES: tuple[type[Any], ...] = (
    Progress, Attempt, ReceivedSignal, Parent, ChildSet, After, Task, TreeTask, WorkflowStep, Workflow, StateCount, ErrorKind, Reason, Rate, LimitSetting, LimitUse, Limit,
    ScheduleCatchUp, ScheduleTask,
    ScheduleDefinition, SchedulePause, ScheduleFire, Schedule, AppliedSchedule, ScheduleFailure, SchedulesChanged, ScheduleTime,
    SourcePause, SourceLoss, SourcePartition, Source, SourceMove,
)  # fmt: skip
