"""Until when a worker may begin what it has."""

from __future__ import annotations

import time
from typing import Any


def since_boot() -> float:
    """Seconds of a clock that goes on while the machine is suspended. Where none is known, it is the wall clock: setting it
    ends a lease too early, or has no effect."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.time() if clock is None else time.clock_gettime(clock)


class Lease:
    """A worker begins runs for some time after a moment at which the node has certainly heard it. Later the node may have
    given them to others, and what lies in the connection may be of any age: the process or the machine may have stood
    still. The lock of the session guards it."""

    def __init__(self) -> None:
        self._length = 0.0  # seconds; 0 is no bound
        self._from = 0.0  # when the worker was heard, or before
        self._pings: dict[int, float] = {}  # when pings came whose answers are not known to have arrived

    def renew(self, length: float, offered: float) -> None:
        """Begins with a connection, whose offer was sent at a time."""
        self._length, self._from = length, offered
        self._pings.clear()

    def hear(self, frame: dict[str, Any]) -> None:
        """Takes what a frame says of pings."""
        if not self._length:
            return
        heard = frame["heard"]
        if heard in self._pings:
            self._from = max(self._from, self._pings[heard])
            self._pings = {number: at for number, at in self._pings.items() if number > heard}
        if frame["ping"]:
            self._pings[frame["ping"]] = since_boot()  # the answer is sent later

    def over(self) -> str | None:
        """Why no run may begin, or None."""
        unheard = since_boot() - self._from
        if not self._length or unheard <= self._length:
            return None
        words = "the node may not have heard this worker for %.3f s, and may have given the task to another"
        return words % unheard
