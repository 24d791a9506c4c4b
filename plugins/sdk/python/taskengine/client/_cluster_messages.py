"""Nodes, workers, tokens and the history of waiting, as nodes describe them. The proto file of the API describes each field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ._codec import BOOL, DURATION, INT64, TEXT, TIME, UINT32, UINT64, many, message, one, texts
from ._messages import Limit


@dataclass(frozen=True)
class SilentNode:
    """A node that is alive and did not answer the node that was asked: what it alone knows is missing."""

    node: str = one(1, TEXT)  # its name
    id: str = one(2, TEXT)
    address: str = one(3, TEXT)  # of its API; empty if it announces none
    problem: str = one(4, TEXT)  # why there is no answer


@dataclass(frozen=True)
class NodeStatus:
    """The status that a node reports of itself."""

    started_at: datetime | None = one(1, TIME)  # by its clock
    uptime: timedelta | None = one(2, DURATION)
    roles: Sequence[str] = many(3, TEXT)  # that it has in the cluster
    shards: int = one(4, UINT32)  # of which it starts the tasks, of shards_total
    shards_total: int = one(5, UINT32)
    running: int = one(6, UINT32)  # tasks with a slot
    slots: int = one(7, UINT32)  # that its tasks may take at once; 0: as many as there are tasks
    waiting: int = one(8, UINT64)  # ready tasks in its memory; the store may have more
    clock_ahead: timedelta | None = one(9, DURATION)  # of that of the cluster; None: the cluster has none of its own
    clock_within: timedelta | None = one(10, DURATION)  # the bound of the error of clock_ahead
    workers: int = one(11, UINT32)  # that are connected to it


@dataclass(frozen=True)
class Node:
    """A node of the cluster that is alive."""

    name: str = one(1, TEXT)  # several nodes may have the same one
    id: str = one(2, TEXT)  # new with every start
    address: str = one(3, TEXT)  # of its API, for other nodes; empty if it announces none
    version: str = one(4, TEXT)  # of its program
    labels: Mapping[str, str] = texts(5)
    types: Sequence[str] = many(6, TEXT)  # that it runs
    draining: bool = one(7, BOOL)  # it starts no tasks, and ends after its running ones
    here: bool = one(8, BOOL)  # it is the node that was asked
    status: NodeStatus | None = one(9, message(NodeStatus))  # None if it did not answer


@dataclass(frozen=True)
class Worker:
    """A program that has connected to a node to run the tasks of a handler."""

    id: str = one(1, TEXT)  # names it on its node, for as long as the node runs
    name: str = one(2, TEXT)  # that the program has given itself; several may have the same one
    handler: str = one(3, TEXT)
    state: str = one(4, TEXT)  # serving; draining; or lost: its connection broke, and it may connect again
    slots: int = one(5, UINT32)  # tasks that it takes of the node at once
    running: int = one(6, UINT32)  # tasks of the node that it runs
    connected_at: datetime | None = one(7, TIME)  # the first time
    sdk: str = one(8, TEXT)  # the library that it uses, and its version
    version: str = one(9, TEXT)  # that the program has given itself
    clock_ahead: timedelta | None = one(10, DURATION)  # of that of the node, about; None: it does not say
    node: str = one(11, TEXT)  # that it is connected to


class NodeList(NamedTuple):
    """Nodes by name. Those that did not answer are among them, without a status."""

    nodes: Sequence[Node]
    silent: Sequence[SilentNode]


class WorkerList(NamedTuple):
    """Workers by node, without those of the nodes that did not answer."""

    workers: Sequence[Worker]
    silent: Sequence[SilentNode]


class LimitList(NamedTuple):
    """Limits by name and value. The uses of the nodes that did not answer are missing."""

    limits: Sequence[Limit]
    silent: Sequence[SilentNode]


@dataclass(frozen=True)
class LimitTask:
    """A task that takes slots of a limit."""

    id: str = one(1, TEXT)
    type: str = one(2, TEXT)
    slots: int = one(3, UINT32)  # how many it takes: its weight
    started_at: datetime | None = one(4, TIME)  # None: it is being started
    node: str = one(5, TEXT)  # that runs it


@dataclass(frozen=True)
class LimitQueue:
    """How many tasks of a type wait for a limit in the memory of a node."""

    type: str = one(1, TEXT)
    tasks: int = one(2, INT64)
    node: str = one(3, TEXT)


@dataclass(frozen=True)
class LimitNode:
    """A node that has permits of a limit, or waits for some."""

    node: str = one(1, TEXT)  # its name; empty if the node that answers does not know it
    held: int = one(2, INT64)  # permits
    want: int = one(3, INT64)  # permits that it wants to have in all
    since: datetime | None = one(4, TIME)  # when it last got permits, or if it has none, since when it waits


@dataclass(frozen=True)
class LimitReasons:
    """Why a limit holds tasks up: what uses it, and what waits for it.

    tasks take slots of it, on all nodes, at most 100 of each. queued are ready tasks in the memory of nodes; the store may have
    more. With the scope cluster, nodes are those with permits, in the order in which they last got some, and then those that
    wait, in their order.
    """

    limit: Limit = one(1, message(Limit))
    tasks: Sequence[LimitTask] = many(2, message(LimitTask))
    queued: Sequence[LimitQueue] = many(3, message(LimitQueue))
    next_start: datetime | None = one(4, TIME)  # when its rate allows the next start; None: now, or there is no rate
    nodes: Sequence[LimitNode] = many(5, message(LimitNode))
    nodes_problem: str = one(6, TEXT)  # why nodes are not known; empty if they are
    silent: Sequence[SilentNode] = many(7, message(SilentNode))  # nodes that are missing in tasks and queued


@dataclass(frozen=True)
class Token:
    """A token of clients without its secret."""

    name: str = one(1, TEXT)
    state: str = one(2, TEXT)  # valid, expired or revoked
    roles: Sequence[str] = many(3, TEXT)
    types: Sequence[str] = many(4, TEXT)  # of tasks; none: all
    created_at: datetime | None = one(5, TIME)
    by: str = one(6, TEXT)  # who added it; empty for one of a file
    expires_at: datetime | None = one(7, TIME)  # None: never
    in_file: bool = one(8, BOOL)  # it is in the file of the node that was asked, and not kept by the cluster
    rotated_at: datetime | None = one(9, TIME)  # when it got its secret; None: when it was added
    rotated_by: str = one(10, TEXT)
    earlier_until: datetime | None = one(11, TIME)  # until when the secret from before the rotation is accepted
    revoked_at: datetime | None = one(12, TIME)
    revoked_by: str = one(13, TEXT)


class NewSecret(NamedTuple):
    """A token and the secret that requests send, which is kept nowhere."""

    token: Token
    secret: str


@dataclass(frozen=True)
class Wait:
    """How long a task has waited for one thing, or has run."""

    code: str = one(1, TEXT)
    text: str = one(2, TEXT)
    limit: str = one(3, TEXT)
    value: str = one(4, TEXT)
    total: timedelta | None = one(5, DURATION)
    from_: datetime | None = one(6, TIME)  # of the first time
    until: datetime | None = one(7, TIME)  # of the last time


@dataclass(frozen=True)
class WaitHistory:
    """How long a task has waited for what."""

    waits: Sequence[Wait]  # in the order in which the task began to wait for each
    noted_since: datetime | None  # from when on the node knows what it kept waiting; before, the code is unknown
    node: str  # the name of the node that answers
    silent: Sequence[SilentNode]  # the node that knows more, if it did not answer


MESSAGES: tuple[type[Any], ...] = (
    SilentNode,
    NodeStatus,
    Node,
    Worker,
    LimitTask,
    LimitQueue,
    LimitNode,
    LimitReasons,
    Token,
    Wait,
)
