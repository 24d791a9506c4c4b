"""The one stream of a handler process: runs come in, answers go out."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping

import grpc  # the slowest import by far: this module is imported only when a host is there

from . import _wire
from ._batch import Served
from ._outbox import Outbox
from ._runs import FEATURES, Runs
from ._task import Task
from ._version import VERSION


class Worker(Runs):
    """Serves the stream, and calls the handlers."""

    def __init__(self, handlers: Mapping[str, Served], version: str, slots: int, ended: Callable[[], None]) -> None:
        """Must be called on the event loop. ended is called when the stream has ended, on some
        other thread: a coroutine may hold the loop."""
        super().__init__(handlers, slots, lambda host: Outbox(host, self._later))
        self._tell_end = ended
        self.met = asyncio.Event()  # the stream is open
        self.over = asyncio.Event()  # the stream has ended
        self.rest = asyncio.Event()  # it has, and no task is running
        self._version = version
        self._taken = False  # guarded by the lock: the stream was opened
        self._ended = False  # guarded by the lock: the stream has ended

    def work(self, requests: Iterator[bytes], context: object) -> Iterator[bytes]:
        """The method Work: takes and gives encoded frames."""
        with self._lock:
            if self._taken:
                raise RuntimeError("a handler process has one stream, and it is open")
            self._taken = True
        self._on_loop(self.met.set)
        try:
            welcome = _wire.decode_to_handler(next(requests))["welcome"] or {}
            if welcome.get("protocol") != _wire.PROTOCOL:
                raise RuntimeError("the host speaks version %s of the protocol" % welcome.get("protocol"))
            self._agree(welcome)
            hello = _wire.encode_hello("python", VERSION, self._version, sorted(self._handlers), self._slots, FEATURES)
            yield _wire.encode_from_handler(hello=hello, credits=self._slots)
            threading.Thread(target=self._receive, args=(requests,), name="taskengine host", daemon=True).start()
            yield from self._outbox.frames()
        finally:
            self._end()

    def _receive(self, requests: Iterator[bytes]) -> None:
        try:
            for data in requests:
                self._take(_wire.decode_to_handler(data))
        except grpc.RpcError:
            pass  # the host is gone
        except Exception:  # it sends what we cannot read
            traceback.print_exc()
        self._outbox.close()

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            for gathering in self._gathering.values():
                for task in gathering.take()[1]:
                    self._running.pop(task._run.run_id, None)
            tasks = list(self._running.values())
        for task in tasks:
            self._stop(task, "host gone", "the host is gone")
        self._on_loop(self.over.set)
        if not tasks:
            self._on_loop(self.rest.set)
        self._tell_end()

    def _answer(self, task: Task, finish: bytes) -> None:
        with self._lock:
            self._running.pop(task._run.run_id, None)
            rest = self._ended and not self._running
        self._outbox.finish(task, finish)
        if rest:
            self._on_loop(self.rest.set)
