"""What a handler sees of a task, and what it may raise."""

import json
import math
import threading
import time
import uuid
from datetime import datetime, timedelta


class Permanent(Exception):
    """The task failed and no retry can mend it."""

    def __init__(self, message="", *, error_class=""):
        super().__init__(message)
        self.error_class = error_class


class RetryIn(Exception):
    """The attempt failed; the next one shall come after delay (seconds or timedelta)."""

    def __init__(self, delay, message="", *, error_class=""):
        super().__init__(message)
        self.delay = _micros(delay)
        self.error_class = error_class


class Snooze(Exception):
    """Call again after delay (seconds or timedelta), without counting this attempt."""

    def __init__(self, delay):
        super().__init__("snoozed")
        self.delay = _micros(delay)


class Again(Exception):
    """The work is done for now, with this result, and due again at the given time: an
    aware datetime or Unix seconds."""

    def __init__(self, at, result=None):
        super().__init__("runs again")
        if isinstance(at, datetime):
            if at.tzinfo is None:
                raise ValueError("Again needs a datetime with a time zone")
            at = at.timestamp()
        self.at = round(at * 1_000_000)
        self.result = result


class Cancelled(BaseException):
    """The task was cancelled. It is no Exception, so that "except Exception" lets it by."""


def _micros(delay):
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    return max(0, math.ceil(delay * 1_000_000))


class Task:
    """One attempt of one task. It belongs to the handler that gets it."""

    __slots__ = ("_run", "cancelled", "cancel_reason")

    def __init__(self, run):
        self._run = run
        self.cancelled = threading.Event()
        self.cancel_reason = ""

    @property
    def id(self):
        """The task's id, a UUID in its textual form."""
        return str(uuid.UUID(bytes=self._run.task_id))

    @property
    def version(self):
        """With id the fencing token: it names this attempt and no other."""
        return self._run.version

    @property
    def type(self):
        return self._run.type

    @property
    def attempt(self):
        """1 for the first."""
        return self._run.attempt

    @property
    def crashes(self):
        """How many earlier attempts took their process with them."""
        return self._run.crashes

    @property
    def priority(self):
        """0 (highest) to 9."""
        return self._run.priority

    @property
    def key(self):
        return self._run.key

    @property
    def ordering_key(self):
        return self._run.ordering_key

    @property
    def payload(self):
        """The input, as bytes."""
        return self._run.payload

    @property
    def headers(self):
        return self._run.headers

    @property
    def deadline(self):
        """When the attempt will be cancelled, in Unix seconds, or None."""
        return self._run.deadline / 1_000_000 if self._run.deadline else None

    def time_left(self):
        """Seconds until the deadline, at least 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    def json(self):
        """The payload as JSON. What is no JSON is a permanent error."""
        try:
            return json.loads(self._run.payload)
        except ValueError as e:
            raise Permanent("the payload is not JSON: %s" % e, error_class="bad_payload") from e

    def check(self):
        """Raises Cancelled if the task was cancelled or its deadline is over."""
        if self.cancelled.is_set():
            raise Cancelled(self.cancel_reason or "cancelled")
        if self.time_left() == 0:
            raise Cancelled("the deadline is over")

    def __repr__(self):
        return "<Task %s %s version %d attempt %d>" % (self.type, self.id, self.version, self.attempt)
