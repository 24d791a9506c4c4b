"""The calls about nodes, workers, tokens and the history of waiting."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from .._wire import _fields
from ._calls import Call, _checked, _read, _read_all, _texts
from ._cluster_messages import NewSecret, Node, NodeList, SilentNode, Token, Wait, WaitHistory, Worker, WorkerList
from ._codec import TIME, give_duration, integer, sized, text
from ._requests import Id, Seconds, seconds


@_checked
def nodes(node: str) -> Call[NodeList]:
    found, silent = _read_all(Node, 1), _read_all(SilentNode, 2)
    return Call("ListNodes", text(1, node), lambda buf: NodeList(found(buf), silent(buf)), True)


@_checked
def drain_node(node: str, by: str) -> Call[Node]:
    return Call("DrainNode", text(1, node) + text(2, by), _read(Node), False)


def _read_workers(buf: bytes) -> WorkerList:
    return WorkerList(_read_all(Worker, 1)(buf), _read_all(SilentNode, 2)(buf))


def workers() -> Call[WorkerList]:
    return Call("ListWorkers", b"", _read_workers, True)


@_checked
def drain_worker(worker: str) -> Call[WorkerList]:
    return Call("DrainWorker", text(1, worker), _read_workers, True)


def _read_secret(buf: bytes) -> NewSecret:
    return NewSecret(_read(Token)(buf), bytes(dict(_fields(buf)).get(2, b"")).decode())


@_checked
def add_token(
    name: str, roles: Iterable[str], types: Iterable[str], expires_in: Seconds | None, by: str
) -> Call[NewSecret]:
    request = text(1, name) + _texts(2, roles) + _texts(3, types) + text(5, by)
    if expires_in is not None:
        request += sized(4, give_duration(seconds(expires_in)))
    return Call("AddToken", request, _read_secret, False)


@_checked
def tokens(revoked: bool) -> Call[list[Token]]:
    read = _read_all(Token, 1)
    return Call("ListTokens", integer(1, int(revoked)), lambda buf: list(read(buf)), True)


@_checked
def revoke_token(name: str, force: bool, by: str) -> Call[Token]:
    return Call("RevokeToken", text(1, name) + integer(2, int(force)) + text(3, by), _read(Token), True)


@_checked
def rotate_token(name: str, grace: Seconds | None, by: str) -> Call[NewSecret]:
    request = text(1, name) + text(3, by)
    if grace is not None:
        request += sized(2, give_duration(seconds(grace)))
    return Call("RotateToken", request, _read_secret, False)


@_checked
def revoke_sessions(person: str, by: str) -> Call[datetime]:
    def read(buf: bytes) -> datetime:
        before: datetime = TIME.take(dict(_fields(buf)).get(1, b""))
        return before

    return Call("RevokeSessions", text(1, person) + text(2, by), read, True)


@_checked
def wait_history(id: Id) -> Call[WaitHistory]:
    waits, silent = _read_all(Wait, 3), _read_all(SilentNode, 6)

    def read(buf: bytes) -> WaitHistory:
        of = dict(_fields(buf))
        since = TIME.take(of[4]) if 4 in of else None
        return WaitHistory(waits(buf), since, bytes(of.get(5, b"")).decode(), silent(buf))

    return Call("Why", text(1, str(id)) + integer(2, 1), read, True)
