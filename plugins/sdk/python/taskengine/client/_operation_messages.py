"""Types, ordering keys, alerts and configurations, as nodes describe them. The proto file of the API describes each field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ._cluster_messages import SilentNode
from ._codec import BOOL, DOUBLE, DURATION, INT64, TEXT, TIME, UINT32, many, message, one, texts
from ._messages import Task


@dataclass(frozen=True)
class TaskType:
    """A type of tasks as the node that was asked has it."""

    name: str = one(1, TEXT)
    configured: bool = one(2, BOOL)
    handled: bool = one(3, BOOL)  # the node has a handler for the type
    paused: bool = one(4, BOOL)  # its tasks are not started
    running: int = one(5, UINT32)  # its tasks with a slot of the node
    nodes: str = one(6, TEXT)  # which nodes may run it, such as "gpu=true, zone=eu|us"; empty: all
    run_by: Sequence[str] = many(7, TEXT)  # the names of the live nodes that start its tasks


class TypeList(NamedTuple):
    """Types by name."""

    types: Sequence[TaskType]
    more: bool  # there may be types that are not configured and have tasks, and are left out


@dataclass(frozen=True)
class OrderingKey:
    """An ordering key of which tasks run or wait."""

    key: str = one(1, TEXT)
    head: Task | None = one(2, message(Task))  # that runs or is to run next; None if the first task waits for its time
    behind: int = one(3, INT64)  # how many tasks are behind it, at most 1000
    behind_truncated: bool = one(4, BOOL)  # there are more
    oldest_ready_at: datetime | None = one(5, TIME)


@dataclass(frozen=True)
class Alert:
    """A rule of the configuration about one type, limit, node, handler or directory."""

    rule: str = one(1, TEXT)
    when: str = one(2, TEXT)  # the subject of the rule, as the configuration has it: errors, queue_age, ...
    labels: Mapping[str, str] = texts(3)  # type, limit, handler or path; node if it is about a node
    status: str = one(4, TEXT)  # firing, or resolved if it ended without a notification so far
    since: datetime | None = one(5, TIME)  # since when it has the status
    fired_at: datetime | None = one(6, TIME)
    resolved_at: datetime | None = one(7, TIME)  # None while it fires
    value: float = one(8, DOUBLE)  # when a notification was made last, or it began to fire
    summary: str = one(9, TEXT)  # for people
    detail: str = one(10, TEXT)  # for people; it may have any text of a task
    notified: Sequence[str] = many(11, TEXT)  # targets with a notification that it fires, sent or due
    silence: str = one(12, TEXT)  # the id of a silence that covers it; empty: none does


@dataclass(frozen=True)
class AlertSilence:
    """Keeps alerts out of notifications."""

    id: str = one(1, TEXT)
    rule: str = one(2, TEXT)  # empty: any
    labels: Mapping[str, str] = texts(
        3
    )  # that an alert must have; a value with * at its end stands for all that begin so
    until: datetime | None = one(4, TIME)
    comment: str = one(5, TEXT)
    by: str = one(6, TEXT)  # who made it
    at: datetime | None = one(7, TIME)


@dataclass(frozen=True)
class UnsentAlerts:
    """A notification that its target has not accepted yet."""

    id: str = one(1, TEXT)
    target: str = one(2, TEXT)
    rule: str = one(3, TEXT)
    summary: str = one(4, TEXT)
    at: datetime | None = one(5, TIME)  # when it was made


class Alerts(NamedTuple):
    """The alerts of all nodes that share the store."""

    alerts: Sequence[Alert]  # that fire, or ended without a notification so far, by rule and labels
    silences: Sequence[AlertSilence]  # that have not ended, by their end
    unsent: Sequence[UnsentAlerts]  # the oldest first


@dataclass(frozen=True)
class AlertTest:
    """The outcome of a test of a target."""

    target: str = one(1, TEXT)
    problem: str = one(2, TEXT)  # why the target did not accept it; empty if it did
    took: timedelta | None = one(3, DURATION)


@dataclass(frozen=True)
class ConfigChange:
    """A change of the configuration of a node."""

    key: str = one(1, TEXT)  # with its sections, such as limits.partner.max
    before: str = one(2, TEXT)  # as YAML, without secrets; empty: the key was not there
    after: str = one(3, TEXT)  # likewise
    restart: bool = one(4, BOOL)  # it takes a restart, and before is in force; otherwise it was applied


@dataclass(frozen=True)
class AppliedConfig:
    """The outcome of apply_config for one node."""

    node: str = one(1, TEXT)  # its name
    changes: Sequence[ConfigChange] = many(2, message(ConfigChange))
    problem: str = one(3, TEXT)  # why nothing was changed, or which part of changes was not applied
    unchanged: bool = one(4, BOOL)  # nothing was changed because of the problem


class ConfigList(NamedTuple):
    """Outcomes by node, without those of the nodes that did not answer, which may have applied their files."""

    nodes: Sequence[AppliedConfig]
    silent: Sequence[SilentNode]


MESSAGES: tuple[type[Any], ...] = (
    TaskType, OrderingKey, Alert, AlertSilence, UnsentAlerts, AlertTest, ConfigChange, AppliedConfig
)  # fmt: skip
