"""A pool of threads that runs jobs."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

J = TypeVar("J")


class Pool(Generic[J]):
    """Runs all jobs concurrently, without a limit on the number of threads.

    One thread is woken at a time: a thread that takes a job wakes the next one if there are more
    jobs. While jobs are short, one thread runs them all without a switch of threads. A job that
    waits, or computes for longer than the interpreter's switch interval, lets the next thread
    start.
    """

    def __init__(self, do: Callable[[J], None]) -> None:
        self._do = do
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()  # one for each thread to be woken
        self._lock = threading.Lock()  # guards the fields below
        self._jobs: deque[J] = deque()
        self._idle = 0  # threads that wait to be woken
        self._threads = 0  # threads that were started
        self._coming = False  # a thread was woken or started and has not looked for a job yet

    def add(self, jobs: Iterable[J]) -> None:
        with self._lock:
            self._jobs.extend(jobs)
            start = self._call()
        if start:
            self._start()

    def _call(self) -> bool:
        """Has one more thread come if there is something to do. True means that the caller has
        to start it. The lock must be held."""
        if not self._jobs or self._coming:
            return False
        self._coming = True
        if self._idle == 0:
            return True
        self._idle -= 1
        self._calls.put(None)
        return False

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, name="taskengine", daemon=True).start()
        except RuntimeError:  # the system gives no more of them: those there are do all the jobs
            with self._lock:
                self._coming = False
                if self._threads == 0:
                    raise
        else:
            with self._lock:
                self._threads += 1

    def _work(self) -> None:
        came = True
        while True:
            with self._lock:
                if came:
                    self._coming = came = False
                if self._jobs:
                    job = self._jobs.popleft()
                    start = self._call()
                else:
                    self._idle += 1
                    came = True
            if came:
                self._calls.get()
                continue
            if start:
                self._start()
            self._do(job)
            del job  # an idle thread holds no payload
