"""The runs of a worker, which outlive its streams."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from . import _answer, _wire
from ._batch import Served
from ._lease import Lease
from ._line import Line, Stream
from ._outbox import Extra, Item, Outbox
from ._runs import Runs
from ._task import Task

_CUT_OFF = (
    "this worker was cut off from the node, and the task runs elsewhere, or will: "
    "the answer of this run counts only if that other run has not begun"
)
_EARLIER = "earlier"  # the feature of nodes that take answers of sessions that they do not know


class Session(Runs):
    """The runs of a node."""

    def __init__(self, handlers: Mapping[str, Served], slots: int) -> None:
        """Must be called on the event loop."""
        self._line = Line()
        super().__init__(handlers, slots, lambda host: Outbox(host, self._later, self._line))
        self.rest = asyncio.Event()  # no task is running, and none will
        self._strays = 0  # guarded by the lock: tasks that were cut off and have not returned
        self._answered: dict[int, Task] = {}  # guarded by the lock: their finishes may not have arrived
        self._earlier: list[_wire.Earlier] = []  # guarded by the lock: for the next node that welcomes the worker
        self._over = False  # guarded by the lock
        self._lease = Lease()  # guarded by the lock

    @property
    def outbox(self) -> Outbox:
        return self._outbox

    def holds(self) -> list[int]:
        """The runs that the worker has for the node: those that run, and those whose finishes may not have arrived."""
        with self._lock:
            return [*self._running, *self._line.runs()]

    def resume(self, welcome: dict[str, Any], offered: float) -> Stream:
        """Goes on with a stream that began with this welcome: what may not have arrived is sent
        again, and the free slots give credits. Runs that the node does not keep are cut off. The
        offer was sent at a time of the lease's clock."""
        with self._lock:
            self._lease.renew(welcome["lease"] / 1e6, offered)
            self._agree(welcome)
            self._arrived(welcome["received"])
            kept = set(welcome["runs"]) if welcome["resumed"] else set()
            cut = [task for run_id, task in self._running.items() if run_id not in kept]
            waits = self._cut(cut)
            earlier: list[_wire.Earlier] = []
            if not welcome["resumed"]:
                self._forget()
                if _EARLIER in self._host.features:
                    earlier = self._earlier
                self._earlier = []
            first: list[Item] = [
                (_wire.CHECKPOINT, task._kept)
                for task in (*self._running.values(), *self._answered.values())
                if task._kept is not None
            ]
            for task in self._running.values():
                first += self._outbox.questions(task)
            first += earlier
            credits = self._slots - self._occupied() - self._line.finishes() - len(earlier)
            first.append(Extra(credits=max(0, credits)))
            stream = self._line.connect(first)
        self._stop_all(cut, waits)
        return stream

    def pause(self) -> None:
        """Keeps everything for the next stream."""
        self._line.disconnect()

    def lose(self) -> None:
        """Cuts all runs off, because the node has given them to others by now."""
        with self._lock:
            cut = list(self._running.values())
            waits = self._cut(cut)
            self._forget()
        self._stop_all(cut, waits)

    def leave(self) -> None:
        """Has the node send no more runs."""
        self._drain()
        self._outbox.say(Extra(leaving=True))

    def end(self) -> None:
        """Cancels everything. rest is set when all has returned."""
        with self._lock:
            self._over = True
            tasks = list(self._running.values())
            rest = self._occupied() == 0
        for task in tasks:
            self._stop(task, "host gone", "the worker ends")
        if rest:
            self._on_loop(self.rest.set)

    def take(self, frame: dict[str, Any]) -> None:
        with self._lock:
            if frame["received"]:
                self._arrived(frame["received"])
            self._lease.hear(frame)
        self._take(frame)

    def _arrived(self, finishes: int) -> None:
        for run_id in self._line.acknowledge(finishes):
            self._answered.pop(run_id, None)

    def has_answers(self) -> bool:
        """Whether there are answers that may not have arrived."""
        with self._lock:
            return bool(self._earlier) or self._line.finishes() > 0

    def _forget(self) -> None:
        """Begins with another session. The answers of this one are kept for a node that does not know it."""
        for finish in self._line.forget():
            if isinstance(finish, _wire.Earlier):
                self._earlier.append(finish)
            elif _wire.run_of(finish) in self._answered:  # else it was refused
                self._earlier.append(_wire.earlier(finish, self._answered[_wire.run_of(finish)]._run))
        self._answered.clear()

    def _cut(self, tasks: list[Task]) -> list[Task]:
        """Has what tasks say count for nothing, and returns those that wait in a batch. The lock must be held."""
        for task in tasks:
            del self._running[task._run.run_id]
            self._strays += 1
            self._outbox.mute(task)
        return [task for task in tasks if self._withdraw(task)]

    def _stop_all(self, tasks: list[Task], waits: list[Task]) -> None:
        for task in tasks:
            self._stop(task, "host gone", _CUT_OFF)
        for task in waits:
            self._answer(task, _answer.error(task, asyncio.CancelledError(), self._host))

    def _why_not(self, task: Task) -> str | None:
        with self._lock:
            return _CUT_OFF if task._stray else self._lease.over()

    def _occupied(self) -> int:
        return len(self._running) + self._strays

    def _answer(self, task: Task, finish: bytes) -> None:
        with self._lock:  # also while the finish is put into the line: the run is held by one of both
            if task._stray:
                self._strays -= 1
                if _EARLIER in self._host.features and not _wire.is_error(finish):  # of a task that was cancelled
                    self._line.put(_wire.earlier(finish, task._run))
                else:
                    self._outbox.say(Extra(credits=1))
            else:
                self._running.pop(task._run.run_id, None)
                if not _wire.is_refused(finish):
                    self._answered[task._run.run_id] = task
                self._outbox.finish(task, finish)
            rest = self._over and self._occupied() == 0
        if rest:
            self._on_loop(self.rest.set)
