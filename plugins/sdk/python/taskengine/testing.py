"""A node in memory for the tests of a program, whose time stands still.

    from taskengine.testing import Engine

    def test_a_mail_is_tried_again():
        with Engine(types={"mail": {"retry": {"max": 3}}}) as engine:
            engine.handle("mail", send)
            engine.client.submit("mail", {"to": "a@example.org"})
            engine.advance("2h")
            assert engine.only("mail").state == "done"

It is the program taskengine, which is looked for in PATH, or is the one that the environment variable
TASKENGINE_PROGRAM names.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import Any

from ._connection import Connection
from ._program import Program
from .client import Client, Task

__all__ = ["Engine"]


class Engine:
    """A node for tests, with a client of it. The methods may be called by one thread at a time."""

    client: Client

    def __init__(
        self,
        *,
        types: Mapping[str, Any] | None = None,
        config: str | os.PathLike[str] | None = None,
        now: datetime | None = None,
        program: str | None = None,
    ) -> None:
        """types are the settings of types, as in the section types of a configuration, without handlers. config is
        the path of a configuration: its types, limits and schedules are used, and nothing else of it. now is the time
        at the start; without it, that of the machine."""
        if (types is None) == (config is None):
            raise ValueError("give either types or config")
        command = [_find(program), "testserver"]
        self._folder = tempfile.TemporaryDirectory(prefix="taskengine-")
        self._workers: list[_Worker] = []
        if types is not None:
            config = os.path.join(self._folder.name, "taskengine.yaml")
            settings = {name: {"handler": "test", **(settings or {})} for name, settings in types.items()}
            with open(config, "w", encoding="utf-8") as f:
                json.dump({"handlers": {"test": {"remote": {}}}, "types": settings}, f)  # JSON is YAML
        command += ["--config", os.fspath(config or "")]
        if now is not None:
            command += ["--at", _utc(now)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            first = self._answer()
        except BaseException:
            self._end()
            raise
        self._address: str = first["api"]
        self._now = _time(first["now"])
        self.client = Client(self._address)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers and the node, and forgets its tasks."""
        for worker in self._workers:
            worker.close()
        self.client.close()
        self._end()

    @property
    def now(self) -> datetime:
        """The time of the node."""
        return self._now

    @property
    def address(self) -> str:
        """The address of the API of the node."""
        return self._address

    def handle(self, task_type: str, function: Callable[..., Any], **options: Any) -> None:
        """Has a function handle the tasks of a type, as Program.handler does with these options. A type that is not
        handled keeps its tasks."""
        program = Program()
        decorate: Callable[..., Any] = program.handler(task_type, **options)
        decorate(function)
        self.serve(program)

    def serve(self, program: Program) -> None:
        """Has the handlers of a program handle tasks, each those of its type."""
        self._workers.append(_Worker(program, self._address))
        for task_type in program.handlers:
            self._ask(worker=task_type)

    def advance(self, by: str | timedelta = "0s", *, while_running: bool = False, patience: float = 10.0) -> None:
        """Lets time pass, such as "90m". The node does what is due meanwhile, each thing at its time. Returns when
        nothing is left to be done, or raises RuntimeError after so many seconds of the machine. Handlers take no
        time; with while_running it does not wait for them."""
        if isinstance(by, timedelta):
            by = "%dus" % (by // timedelta(microseconds=1))
        self._ask(advance=by, while_running=while_running, patience="%dms" % (patience * 1000))

    def tasks(self, task_type: str | None = None) -> Sequence[Task]:
        """The tasks of a type, or all, in the order of their creation, with payloads and results."""
        self.advance()
        found = self.client.tasks(types=[task_type] if task_type else [])
        return [self.client.get(task.id) for task in reversed(list(found))]

    def only(self, task_type: str) -> Task:
        """The task of a type of which there must be exactly one."""
        tasks = self.tasks(task_type)
        if len(tasks) != 1:
            raise AssertionError("there are %d tasks of the type %s, and should be one" % (len(tasks), task_type))
        return tasks[0]

    def _ask(self, **request: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # the node has ended: there is no answer either
        self._now = _time(self._answer()["now"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the node for tests has ended with %d; see its output" % self._process.wait())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def _end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


class _Worker:
    """Runs the handlers of a program, on a thread of its own."""

    def __init__(self, program: Program, address: str) -> None:
        self._program = program
        self._address = address
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="taskengine test", daemon=True)
        self._thread.start()
        self._begun.wait()

    async def _run(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._begun.set()
        ways = [Connection([self._address], handler=task_type) for task_type in self._program.handlers]
        await asyncio.gather(*(self._program.work(way, ending=self._ending) for way in ways))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()


def _find(program: str | None) -> str:
    found = program or os.environ.get("TASKENGINE_PROGRAM") or shutil.which("taskengine")
    if found is None:
        raise FileNotFoundError("the program taskengine is not in PATH: install it, or set TASKENGINE_PROGRAM")
    return found


def _time(text: str) -> datetime:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    at = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
    return at + timedelta(microseconds=int(fraction[:6].ljust(6, "0")))


def _utc(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
