"""A handler program: its handlers, and its life from the handshake to the exit."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _wire
from ._around import Around, surrounded
from ._batch import Served
from ._connection import Connection, from_environment, is_named
from ._steps import in_steps
from ._task import Task
from ._verdicts import Seconds, micros

if TYPE_CHECKING:
    from ._work import Worker

_DEFAULT_SLOTS = 16
_FIRST_CONTACT = 60  # seconds until a host must have connected
_LAST_ANSWERS = 1  # seconds for handlers to return once the host is gone
_LAST_MOMENTS = 2  # seconds until the process ends then, whatever happens

One = TypeVar("One", bound=Callable[[Task], object])
Many = TypeVar("Many", bound=Callable[["list[Task]"], object])


class Program:
    """Handlers by the task types they serve. Most programs use the module's own one."""

    def __init__(self) -> None:
        self._served: dict[str, Served] = {}
        self._arounds: list[Around] = []

    @property
    def handlers(self) -> dict[str, Callable[..., Any]]:
        """The functions by the types they handle."""
        return {task_type: served.function for task_type, served in self._served.items()}

    def around(self, function: Callable[[Sequence[Task]], AbstractContextManager[Any]]) -> None:
        """Has every call of a handler made in the context manager that the function returns for its tasks: one, or
        those of a batch. Of several functions the first is outermost. What a handler raises passes through the context
        manager. What that raises is as if the handler had raised it, and if it swallows an exception, the handler has
        returned None."""
        self._arounds.append(function)

    def _surrounded(self) -> dict[str, Served]:
        return {task_type: surrounded(served, tuple(self._arounds)) for task_type, served in self._served.items()}

    @overload
    def handler(
        self, task_type: str, *, version: int | None = ..., oldest: int | None = ...
    ) -> Callable[[One], One]: ...
    @overload
    def handler(self, task_type: str, *, batch: int, wait: Seconds = ...) -> Callable[[Many], Many]: ...
    def handler(
        self,
        task_type: str,
        *,
        batch: int | None = None,
        wait: Seconds = 0.05,
        version: int | None = None,
        oldest: int | None = None,
    ) -> Callable[..., Any]:
        """Decorates the function, or coroutine function, that handles the tasks of a type.

        With batch it is called with a list of tasks: as many as batch, or those that are there
        when the first of them has waited for so long (seconds or timedelta). It returns a list
        with what it would return for each, in the same order, or None; an exception in the list
        is the answer of one task, an exception raised that of them all.

        With version, it is a handler in steps, see Task.step, and version is that of its code: 1 or
        more. Raise it with a change of the steps, and let the code look at task.step_version to do
        the steps of before for tasks that began with them. oldest is the oldest version whose steps
        the code still knows, by default the present one. A task that began with an older one ends
        with a permanent error of class "steps_changed".
        """
        if not isinstance(task_type, str) or not task_type:
            raise TypeError('name the task type: @handler("upper")')
        if batch is not None and (not isinstance(batch, int) or batch < 1):
            raise ValueError("batch is the most tasks in a call, at least 1, not %r" % (batch,))
        if version is not None and batch is not None or version is None and oldest is not None:
            raise ValueError("the versions of steps are those of a handler of one task: give version, and no batch")

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(function):
                raise TypeError("the handler of %r is no function: %r" % (task_type, function))
            if task_type in self._served:
                raise ValueError("there are two handlers of %r" % task_type)
            called = function if version is None else in_steps(function, _is_async(function), version, oldest)
            self._served[task_type] = Served(called, _is_async(function), batch or 0, micros(wait) / 1e6)
            return function

        return register

    def run(self, *, version: str = "", slots: int | None = None) -> None:
        """Serves the handlers until the host ends the process or goes away. Coroutines run on an
        event loop of this thread's, functions on threads of their own.

        If no host has started the program and TASKENGINE_ADDRESS has addresses of nodes, separated
        by commas, the program is a worker of these nodes until it gets SIGTERM or SIGINT. The
        variables TASKENGINE_WORKER_HANDLER, TASKENGINE_WORKER_LABELS (such as region=eu,disk=fast),
        TASKENGINE_TOKEN, TASKENGINE_CA, TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY are the
        other fields of its Connection.

        In a process of multiprocessing that imports the program to know its functions, it returns
        and does nothing: a pool that starts by spawn or forkserver imports it in each process.

        version is the program's own, for people. slots is how many tasks to run at once unless
        the host says so: 16, or as many as the largest batch. After it has returned the process
        has about a second to close what is open.
        """
        asyncio.run(self.serve(version=version, slots=slots))

    async def serve(self, *, version: str = "", slots: int | None = None) -> None:
        """Does what run does, on the running event loop: for programs that open things on it."""
        if _is_preparing():
            return
        is_hosted = os.environ.get(_wire.COOKIE_KEY) == _wire.COOKIE_VALUE
        problem = self._problem(slots) or (_problem_of_host() if is_hosted else _problem_alone())
        if problem:
            _give_up(problem)
        if not is_hosted:
            return await self._work_from_environment(version, slots)
        from ._work import Worker

        slots = slots or self._default_slots()
        worker = Worker(self._surrounded(), version, slots, _exit_soon)
        server = _listen(worker)
        try:
            await asyncio.wait_for(worker.met.wait(), _FIRST_CONTACT)
            await worker.over.wait()
        except asyncio.TimeoutError:
            _give_up("no host connected within %d s" % _FIRST_CONTACT)
        finally:
            _exit_soon()
            server.stop(None)
        try:
            await asyncio.wait_for(worker.rest.wait(), _LAST_ANSWERS)
        except asyncio.TimeoutError:
            pass

    async def work(
        self,
        connection: Connection,
        *,
        version: str = "",
        slots: int | None = None,
        ending: asyncio.Event | None = None,
    ) -> None:
        """Runs tasks of nodes in this process, as a worker of theirs, until ending is set and the tasks
        that have begun by then are answered, or until every node has drained the worker. It
        connects again when a connection breaks. Raises ValueError for what cannot be."""
        if _is_preparing():
            return
        problem = self._problem(slots) or connection.problem()
        if problem:
            raise ValueError(problem)
        from ._worker import work

        await work(self._surrounded(), connection, version, slots or self._default_slots(), ending or asyncio.Event())

    async def _work_from_environment(self, version: str, slots: int | None) -> None:
        ending, loop = asyncio.Event(), asyncio.get_running_loop()

        def end(number: int) -> None:
            ending.set()
            loop.remove_signal_handler(number)  # the second signal ends the process

        if threading.current_thread() is threading.main_thread():  # no other thread may handle signals
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, end, number)
        try:
            await self.work(from_environment(os.environ), version=version, slots=slots, ending=ending)
        except ValueError as e:
            _give_up(str(e))
        _exit_soon()

    def _default_slots(self) -> int:
        return max(_DEFAULT_SLOTS, *(served.batch for served in self._served.values()))

    def _problem(self, slots: int | None) -> str | None:
        """What keeps the program from running, for a person to read."""
        if not self._served:
            return 'the program has no handler: decorate one with @handler("type") before run()'
        if slots is not None and (not isinstance(slots, int) or slots < 1):
            return "slots is how many tasks to run at once, at least 1, not %r" % (slots,)
        return None


def _problem_of_host() -> str | None:
    """What keeps the program from serving the host that has started it."""
    theirs = os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "")
    if str(_wire.PROTOCOL) not in theirs.split(","):
        return "it speaks version %d of the handler protocol, the host %r" % (_wire.PROTOCOL, theirs)
    return _problem_of_library()


def _problem_alone() -> str | None:
    """What keeps the program from running that no host has started."""
    if is_named():
        return _problem_of_library()
    return (
        "this program handles tasks: name it as a handler's command in the configuration of taskengine, which starts"
        " it, or set TASKENGINE_ADDRESS to the address of a node, host:port, to run as its worker"
    )


def _problem_of_library() -> str | None:
    try:
        import grpc  # noqa: F401
    except ImportError as e:
        return "it needs grpcio (pip install grpcio, or apt-get install python3-grpcio): %s" % e
    return None


def _is_async(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - of objects that are no functions
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _is_preparing() -> bool:
    """Whether this process imports the program for multiprocessing, and is not the program."""
    return getattr(multiprocessing.current_process(), "_inheriting", False)


def _give_up(problem: str) -> None:
    sys.stderr.write("taskengine: %s\n" % problem)
    sys.exit(1)


def _listen(worker: Worker) -> Any:
    """Starts the server and shakes hands. From then on what is printed goes to the log."""
    import grpc

    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=4, thread_name_prefix="taskengine grpc"),
        options=[
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ],
    )
    methods: dict[str, Any] = {"Work": grpc.stream_stream_rpc_method_handler(worker.work)}
    service = grpc.method_handlers_generic_handler("taskengine.handler.v1.Handler", methods)
    server.add_generic_rpc_handlers((service,))
    path = os.path.join(os.environ.get("PLUGIN_UNIX_SOCKET_DIR", "/tmp"), "s%d" % os.getpid())
    try:
        bound = server.add_insecure_port("unix:" + path)
    except RuntimeError:
        bound = 0
    if not bound:
        _give_up("cannot listen on the socket %r: its directory must exist, and its name may have 103 bytes" % path)
    server.start()
    handshake = os.dup(1)
    os.dup2(2, 1)
    if sys.stdout is not None:
        sys.stdout.flush()  # what was printed before run() is no handshake either
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)
    os.write(handshake, ("1|%d|unix|%s|grpc|\n" % (_wire.PROTOCOL, path)).encode())
    os.close(handshake)
    return server


def _exit_soon() -> None:
    """Ends the process even if something keeps the interpreter from it."""

    def end() -> None:
        try:
            sys.stderr.flush()
        finally:
            os._exit(0)

    timer = threading.Timer(_LAST_MOMENTS, end)
    timer.daemon = True
    timer.start()
