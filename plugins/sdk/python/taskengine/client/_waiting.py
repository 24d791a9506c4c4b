"""Waiting for nodes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc

from ._nodes import Node, Nodes
from ._silent import Patience, Silence, is_answer, probe

FIRST_PAUSE = 0.02  # seconds before the first repetition of a call
MOST_PAUSE = 1.0

TRY_ERRORS = (grpc.RpcError, grpc.FutureCancelledError, Silence, ValueError)
"""What a try of a call raises: ValueError if its answer is not valid, or its channel is closed."""


def jittered(pause: float) -> float:
    """A random half to whole of a pause, so that clients whose node was lost at the same moment do not come back at the same
    moment."""
    return pause * random.uniform(0.5, 1)


def pauses() -> Iterator[float]:
    """The seconds between the tries of a call."""
    pause = FIRST_PAUSE
    while True:
        yield jittered(pause)
        pause = min(2 * pause, MOST_PAUSE)


class Deadline:
    """When a call has to be over. None is never."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Seconds until then, at least 0."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def within(self, most: float) -> float:
        """Seconds until then, at most so many."""
        left = self.left()
        return most if left is None else min(most, left)

    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def pick(nodes: Nodes, deadline: Deadline, patience: Patience, is_sure: bool = True) -> Node | None:
    """A node that answers; None if none does. Unless is_sure, a node is taken that has answered
    before, and may have stopped since."""
    node = None if is_sure else nodes.connected()
    if node is not None:
        return node
    for node in nodes.in_turn():
        awake = threading.Event()
        asked = probe(node)
        asked.add_done_callback(lambda _, awake=awake: awake.set())
        awake.wait(deadline.within(patience.probe))
        if has_answered(node, asked):
            nodes.use(node)
            return node
        if deadline.is_over():
            break
    return None


def has_answered(node: Node, asked: Any) -> bool:
    """Whether a node has answered a probe. If there is no connection to it, the next probe makes another one."""
    if not asked.done():
        return False
    if is_answer(asked):
        return True
    if not asked.cancelled() and asked.code() is grpc.StatusCode.UNAVAILABLE:
        node.fail((asked.details() or "").rpartition("last error: ")[2].removeprefix("UNKNOWN: "))
    return False
