"""What a handler may raise to say more than that it failed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Union

Seconds = Union[float, timedelta]
"""A span of time."""

Instant = Union[float, datetime]
"""A point in time: Unix seconds, or a datetime with a time zone."""


class Permanent(Exception):
    """The task failed and no retry can mend it."""

    def __init__(self, message: str = "", *, error_class: str = "") -> None:
        super().__init__(message)
        self.error_class = error_class


class Retry(Exception):
    """The attempt failed, and has certainly not done its work: it is tried again as the type's retry
    policy says, also with at_most_once."""

    def __init__(self, message: str = "", *, error_class: str = "") -> None:
        super().__init__(message)
        self.error_class = error_class


class InDoubt(Exception):
    """The attempt failed, and may have done its work all the same, such as one that got no answer from a
    payment service. With at_most_once it is not tried again, and a person decides; otherwise the type's
    retry policy does. An exception that is none of this package is in doubt, too."""

    def __init__(self, message: str = "", *, error_class: str = "") -> None:
        super().__init__(message)
        self.error_class = error_class


class RetryIn(Exception):
    """The attempt failed, and has certainly not done its work; the next one shall come after delay (seconds or timedelta)."""

    def __init__(self, delay: Seconds, message: str = "", *, error_class: str = "") -> None:
        super().__init__(message)
        self.delay = micros(delay)
        self.error_class = error_class


class Snooze(Exception):
    """Call again after delay (seconds or timedelta), without counting this attempt."""

    def __init__(self, delay: Seconds) -> None:
        super().__init__("snoozed")
        self.delay = micros(delay)


class Again(Exception):
    """The work is done for now, with this result, and due again at the given time: an
    aware datetime or Unix seconds.

    The task runs again with this payload and this checkpoint, each of which is whatever a
    handler may return. Without a payload (None) it keeps the one that it has, and without a
    checkpoint it has none. With a host that does not support that, the answer becomes a
    permanent error of class "unsupported".
    """

    def __init__(
        self, at: Instant, result: object = None, *, payload: object = None, checkpoint: object = None
    ) -> None:
        super().__init__("runs again")
        self.at = unix_micros(at)
        self.delay = 0  # in place of at, if that is 0
        self.result = result
        self.payload = payload
        self.checkpoint = checkpoint


class WaitFor(Exception):
    """The work is done for now, with this result, and the task goes on when it gets a signal of one of
    these names, or after timeout (seconds or timedelta), or at the time until. Without both it waits
    for ever. A task that waits takes no slot. task.woken tells the attempt that follows which it was.

    payload and checkpoint are those of Again. With a host that does not support waits, the answer becomes a permanent
    error of class "unsupported".
    """

    def __init__(
        self,
        *names: str,
        timeout: Seconds | None = None,
        until: Instant | None = None,
        result: object = None,
        payload: object = None,
        checkpoint: object = None,
    ) -> None:
        super().__init__("waits for a signal")
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError('name the signals: WaitFor("paid")')
        if timeout is not None and until is not None:
            raise ValueError("give either a timeout or until")
        self.names: tuple[str, ...] = names
        self.at = 0 if until is None else unix_micros(until) or -1
        self.delay = 0 if timeout is None else max(1, micros(timeout))
        self.result = result
        self.payload = payload
        self.checkpoint = checkpoint


@dataclass(frozen=True)
class ChildrenWait:
    """What a task waits for of its children of one name: until count of them have ended, all if that is 0, or with
    or_failed until one has failed or was cancelled."""

    name: str
    count: int = 0
    or_failed: bool = False


class WaitForChildren(WaitFor):
    """As WaitFor, but the task goes on when one of these waits for its children is over; a name stands for all children
    of that name. task.children tells the attempt that follows how they have ended. task.add_children adds children. With
    a host that does not support that, the answer becomes a permanent error of class "unsupported"."""

    def __init__(
        self,
        *waits: str | ChildrenWait,
        timeout: Seconds | None = None,
        until: Instant | None = None,
        result: object = None,
        payload: object = None,
        checkpoint: object = None,
    ) -> None:
        options: dict[str, Any] = {"result": result, "payload": payload, "checkpoint": checkpoint}
        super().__init__("children", timeout=timeout, until=until, **options)
        if not waits or not all(isinstance(wait, (str, ChildrenWait)) for wait in waits):
            raise TypeError('name the children: WaitForChildren("page")')
        self.names = ()
        self.waits = tuple(ChildrenWait(wait) if isinstance(wait, str) else wait for wait in waits)


class NotStored(Exception):
    """A checkpoint is not stored, or whether it is is unknown."""


class NotChecked(Exception):
    """It is not known which tasks would be refused."""


class NotRead(Exception):
    """A document was not read."""


class Ended(Exception):
    """The handler has ended the attempt itself, by a function of the database that has the
    tasks, in a transaction that has committed.

    The node looks what the task is now. If the attempt has not ended, it has failed.
    """

    def __init__(self) -> None:
        super().__init__("ended in a transaction")


class Cancelled(BaseException):
    """The task must stop. It is no Exception, so that "except Exception" does not catch it.

    Its text is for display. reason is "deadline" if the task ran for too long, "cancelled" if
    it was cancelled or the node stops, "host gone" if the host no longer takes its answer.
    """

    def __init__(self, message: str = "cancelled", reason: str = "cancelled") -> None:
        super().__init__(message)
        self.reason = reason


_MAX = (1 << 63) - 1


def micros(delay: Seconds) -> int:
    """Rounds up: a delay asked for is never cut short."""
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    return min(max(0, math.ceil(delay * 1_000_000)), _MAX)


def unix_micros(at: Instant) -> int:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError("give the time as a datetime with a time zone, or as Unix seconds")
        at = at.timestamp()
    return min(max(-_MAX, round(at * 1_000_000)), _MAX)
