"""Nodes that take requests and do not answer."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Callable

import grpc

from ._nodes import Node

MOST_QUIET = 1.5  # seconds without an answer from a node with requests under way, until it is probed
LEAST_QUIET = 0.25
MOST_PROBE = 2.0  # seconds for the answer of a node that is probed, or connected to
LEAST_PROBE = 0.5
SLOWEST = 64 << 10  # bytes a second of the slowest network: the time that a request may take to reach its node


class Silence(Exception):
    """A node takes requests and does not answer."""

    def __init__(self) -> None:
        super().__init__("the node takes requests and does not answer")


@dataclass(frozen=True)
class Patience:
    """How long a client awaits a node that says nothing. A node that is slow, because a request waits there, answers the
    probe, and is awaited as long as the caller wants."""

    quiet: float = MOST_QUIET  # until the node is probed
    probe: float = MOST_PROBE  # from then until the node is left

    def rest(self, begin: float, node: Node) -> float:
        """Seconds until a node is to be probed that has a call since a time."""
        return max(0.0, self.quiet - (time.monotonic() - max(begin, node.heard)))


def patience_of(left: float | None, size: int, has_others: bool, quiet: float = MOST_QUIET) -> Patience:
    """The patience of a call with so much time and a request of so many bytes: half of the time is for another node, if
    there is one."""
    probe = MOST_PROBE
    if left is not None and has_others:
        quiet, probe = max(LEAST_QUIET, min(quiet, left / 4)), max(LEAST_PROBE, min(probe, left / 4))
    return Patience(quiet, probe + size / SLOWEST)


def probe(node: Node) -> Any:
    """Asks the node for its version, unless it is being asked. Returns the future of the answer."""
    begin = time.monotonic()

    def over(answer: Any) -> None:
        if is_answer(answer):
            node.hear()
            node.is_suspect = False
        elif node.heard < begin and not answer.cancelled() and answer.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            node.cut("it does not answer")

    return node.probe(MOST_PROBE, over)


def is_answer(answer: Any) -> bool:
    """Whether a call that is over was answered by a node, perhaps with an error."""
    no_answer = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
    return not answer.cancelled() and answer.code() not in no_answer


def is_alive(node: Node, wait: float, call: Any = None) -> bool:
    """Probes a node, and returns whether it answers something within so many seconds. It returns early when a call is over."""
    begin = time.monotonic()
    either = threading.Event()
    asked = probe(node)
    for one in (asked,) if call is None else (asked, call):
        one.add_done_callback(lambda _: either.set())
    either.wait(wait)
    return node.heard >= begin or asked.done() and is_answer(asked)


def attempt(node: Node, method: str, request: bytes, timeout: float | None, patience: Patience) -> bytes:
    """Makes a call, and returns its answer. Raises Silence if the node is silent."""
    begin = time.monotonic()
    call = node.begin(method, request, timeout)
    done = threading.Event()
    call.add_done_callback(lambda _: done.set())
    try:
        while not done.wait(patience.rest(begin, node)):
            if not is_alive(node, patience.probe, call) and not call.done():
                raise Silence()
    finally:
        if not call.done():
            call.cancel()
    return answer_of(node, call, begin)


def answer_of(node: Node, call: Any, begin: float) -> bytes:
    """The answer of a call that is over. A node of which nothing came until a deadline is probed before it is used again."""
    if is_answer(call):
        node.hear()
    elif not call.cancelled() and call.code() is grpc.StatusCode.DEADLINE_EXCEEDED and node.heard < begin:
        suspect(node)
    answer: bytes = call.result()
    return answer


def suspect(node: Node) -> None:
    """Has a node probed before it is used again."""
    node.is_suspect = True
    try:
        probe(node)
    except ValueError:
        pass  # the client is closed


def watch(node: Node, await_sent: Callable[[], bool], over: threading.Event, patience: Callable[[], Patience]) -> bool:
    """Watches a stream until it is over, and returns whether the node was silent. await_sent waits until something
    that was sent has no outcome, and returns False at the end of the stream."""
    while await_sent():
        if node.is_silent:
            return True  # another call has found that
        begin = time.monotonic()
        now = patience()
        if over.wait(now.quiet):
            return False
        if node.heard < begin and await_sent() and not is_alive(node, now.probe) and not over.is_set():
            return True
    return False
