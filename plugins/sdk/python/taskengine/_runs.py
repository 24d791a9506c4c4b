"""The runs of a program: they begin, are cancelled and are answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from . import _answer, _wire
from ._batch import Gathering, Job, Served
from ._log import current
from ._outbox import Host, Outbox
from ._task import Task
from ._workpool import Pool

FEATURES = ("checkpoint", "children", "ended", "progress", "rerun", "wait")
_REASONS = {_wire.REASON_DEADLINE: ("deadline", "the deadline is over")}


class Runs:
    """Calls the handlers: functions on threads, coroutines on the loop."""

    def __init__(self, handlers: Mapping[str, Served], slots: int, outbox: Callable[[Host], Outbox]) -> None:
        """Must be called on the event loop. outbox makes the outbox for answers to a host."""
        self._handlers = handlers
        self._slots = slots
        self._loop = asyncio.get_running_loop()
        self._host = Host()
        self._outbox = outbox(self._host)
        self._pool = Pool(self._do)
        self._lock = threading.Lock()  # guards what follows
        self._running: dict[int, Task] = {}  # by run id
        self._gathering = {name: Gathering(served) for name, served in handlers.items() if served.batch}

    def _agree(self, welcome: dict[str, Any]) -> None:
        """Takes the terms of a host."""
        self._slots = welcome["slots"] or self._slots
        self._host.max_result = welcome["max_result_bytes"]
        self._host.max_payload = welcome["max_payload_bytes"]
        self._host.features = frozenset(welcome["features"])

    def _take(self, frame: dict[str, Any]) -> None:
        """Processes a frame of the host."""
        if frame["ping"]:
            self._outbox.pong(frame["ping"])
        self._begin(frame["runs"])
        for cancel in frame["cancels"]:
            self._cancel(cancel)
        for stored in frame["stored"]:
            with self._lock:
                task = self._running.get(stored.run_id)
            if task is not None:
                self._outbox.stored(task, stored)
        for checked in frame["checked"]:
            with self._lock:
                task = self._running.get(checked.run_id)
            if task is not None:
                self._outbox.checked(task, checked)
        for document in frame["documents"]:
            with self._lock:
                task = self._running.get(document.run_id)
            if task is not None:
                self._outbox.document(task, document)
        if frame["drain"]:
            self._drain()

    def _occupied(self) -> int:
        """How many slots are not free. The lock must be held."""
        return len(self._running)

    def _on_loop(self, do: Callable[..., Any], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(do, *args)
        except RuntimeError:
            pass  # it is closed: the process ends

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        self._on_loop(self._loop.call_later, seconds, do)

    # --- the beginning and the end of runs

    def _begin(self, runs: list[_wire.Run]) -> None:
        jobs: list[Job] = []
        with self._lock:
            for run in runs:
                served = self._handlers.get(run.type)
                if served is None:
                    self._outbox.refuse(run.run_id, "the program does not serve the type %r" % run.type)
                elif self._occupied() >= self._slots:
                    self._outbox.refuse(run.run_id, "the program runs %d tasks already" % self._slots)
                else:
                    task = self._running[run.run_id] = Task(run, self._outbox)
                    if served.batch:
                        self._gather(task, served, jobs)
                    else:
                        jobs.append((served, [task]))
            if self._occupied() >= self._slots:
                jobs += self._gathered()
        self._start(jobs)

    def _drain(self) -> None:
        with self._lock:
            jobs = self._gathered()
        self._start(jobs)

    def _gathered(self) -> list[Job]:
        """Takes the tasks that would wait for others in vain. The lock must be held."""
        return [g.take() for g in self._gathering.values() if g.tasks]

    def _gather(self, task: Task, served: Served, jobs: list[Job]) -> None:
        """Adds task to those that wait for others of its type. The lock must be held."""
        gathering = self._gathering[task.type]
        gathering.tasks.append(task)
        if len(gathering.tasks) == served.batch:
            jobs.append(gathering.take())
        elif len(gathering.tasks) == 1:
            self._later(served.wait, partial(self._release, gathering, gathering.number))

    def _release(self, gathering: Gathering, number: int) -> None:
        with self._lock:
            if gathering.number != number or not gathering.tasks:
                return
            job = gathering.take()
        self._start([job])

    def _start(self, jobs: list[Job]) -> None:
        coroutines = [job for job in jobs if job[0].asynchronous]
        if len(coroutines) < len(jobs):
            self._pool.add(job for job in jobs if not job[0].asynchronous)
        if coroutines:
            self._on_loop(self._start_coroutines, coroutines)

    def _start_coroutines(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._loop.create_task(self._do_async(*job))  # its tasks hold it as soon as it runs

    def _cancel(self, cancel: dict[str, Any]) -> None:
        with self._lock:
            task = self._running.get(cancel["run_id"])
            waits = task is not None and self._withdraw(task)
        if task is None:
            return
        reason, text = _REASONS.get(cancel["reason"], ("cancelled", ""))
        self._stop(task, reason, cancel["message"] or text)
        if waits:
            self._answer(task, _answer.error(task, asyncio.CancelledError(), self._host))

    def _withdraw(self, task: Task) -> bool:
        """Takes task out of the batch in which it waits, if it does. The lock must be held."""
        gathering = self._gathering.get(task.type)
        if gathering is None or task not in gathering.tasks:
            return False
        gathering.tasks.remove(task)
        if not gathering.tasks:
            gathering.number += 1  # the next task has a timer of its own
        return True

    def _stop(self, task: Task, reason: str, message: str) -> None:
        task._cancel(reason, message)
        if reason == "host gone":
            self._outbox.give_up(task, message)
        if self._handlers[task.type].asynchronous:
            self._on_loop(self._stop_coroutine, task)

    def _stop_coroutine(self, task: Task) -> None:
        """Cancels the call that task is in, if that is meant for all of its tasks."""
        if task._call is not None:
            call, tasks = task._call
            if all(t._is_cancelled() for t in tasks):
                call.cancel(task.cancel_reason or "cancelled")

    def _answer(self, task: Task, finish: bytes) -> None:
        raise NotImplementedError

    def _why_not(self, task: Task) -> str | None:
        """Why the handler of a task must not be called any more, or None."""
        return None

    def _admitted(self, tasks: list[Task]) -> list[Task]:
        """The tasks with which a handler may be called. The others are handed back."""
        admitted = []
        for task in tasks:
            why = self._why_not(task)
            if why is None:
                admitted.append(task)
            else:
                task._end()
                self._answer(task, _wire.finish_refused(task._run.run_id, why))
        return admitted

    # --- calls of handlers: whatever these do, every task gets its answer

    def _do(self, job: Job) -> None:
        """Calls a function, on a thread of the pool."""
        served, tasks = job
        tasks = self._admitted(tasks)
        if not tasks:
            return
        if served.batch:
            try:
                answers = served.function(list(tasks))
            except BaseException as e:
                return self._fail(tasks, e)
            return self._succeed(tasks, answers)
        task = tasks[0]
        current.set(task)
        try:
            finish = _answer.result(task, served.function(task), self._host)
        except BaseException as e:  # SystemExit too: a task must not end the process
            finish = _answer.error(task, e, self._host)
        current.set(None)
        self._answer(task, finish)

    async def _do_async(self, served: Served, tasks: list[Task]) -> None:
        """Calls a coroutine function, on the event loop."""
        tasks = self._admitted(tasks)
        if not tasks:
            return
        call = asyncio.current_task()
        assert call is not None
        for task in tasks:
            task._call = call, tasks
        if not served.batch:
            current.set(task)
        try:
            if all(t._is_cancelled() for t in tasks):
                raise asyncio.CancelledError
            value = await served.function(list(tasks) if served.batch else task)
        except BaseException as e:
            return self._fail(tasks, e)
        if served.batch:
            self._succeed(tasks, value)
        else:
            self._answer(task, _answer.result(task, value, self._host))

    def _fail(self, tasks: list[Task], e: BaseException) -> None:
        for task in tasks:
            self._answer(task, _answer.error(task, e, self._host))

    def _succeed(self, tasks: list[Task], answers: object) -> None:
        """Gives every task of a batch its answer."""
        if answers is None:
            answers = [None] * len(tasks)
        try:
            if not isinstance(answers, (list, tuple)):
                raise TypeError("a batch handler returns a list of answers, not %s" % type(answers).__name__)
            if len(answers) != len(tasks):
                raise ValueError("the batch handler gave %d answers to %d tasks" % (len(answers), len(tasks)))
        except Exception as e:
            return self._fail(tasks, e)
        for task, answer in zip(tasks, answers):
            make = _answer.error if isinstance(answer, BaseException) else _answer.result
            self._answer(task, make(task, answer, self._host))
