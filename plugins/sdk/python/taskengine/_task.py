"""What a handler sees of a task, and what it may say of it."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _wire
from ._check import Refusal, fitting
from ._document import Document
from ._family import Child, ChildSet, Parent, parent_of, sets_of
from ._verdicts import Cancelled, Instant, Permanent, Seconds, unix_micros
from ._woken import Woken, woken_of

if TYPE_CHECKING:
    import asyncio

    from ._log import TaskLog
    from ._outbox import Notes, Outbox
    from ._steps import Flow

T = TypeVar("T")

MAX_CHECKPOINT = 1 << 20
"""How many bytes an attempt may leave for the next one."""

MAX_AFTER = 100
"""How many tasks another one may run after."""

MAX_DOCUMENT = 256 << 10
"""How many bytes a document may have."""

MAX_DOCUMENTS = 16
"""How many documents an answer may write."""


class Flag(threading.Event):
    """An event that is true when it is set."""

    def __bool__(self) -> bool:
        return self.is_set()


class Task:
    """One attempt of one task. It belongs to the handler that gets it."""

    __slots__ = (
        "_run", "_outbox", "_notes", "_call", "_children", "_over", "_event", "_reason", "_log",
        "_signals", "_flaw", "_kept", "_stray", "_due", "_deadline", "_checkpoints", "_saving", "_gone", "_flow",
        "_checks", "_asking", "_documents", "_reads", "_reading", "cancel_reason",
    )  # fmt: skip

    def __init__(self, run: _wire.Run, outbox: Outbox | None = None) -> None:
        self._run = run
        self._due: float | None = None  # when its time is over, by the monotonic clock
        self._deadline: float | None = None  # the same, by the clock of this machine
        if run.time_left:
            self._due = time.monotonic() + run.time_left / 1e6
            self._deadline = time.time() + run.time_left / 1e6
        self._outbox = outbox
        self._notes: Notes | None = None  # the outbox's
        self._call: tuple[asyncio.Task[None], list[Task]] | None = None  # set and read on the event loop
        self._children: list[bytes] | None = None
        self._signals: list[bytes] | None = None
        self._documents: list[bytes] | None = None
        self._flaw: Permanent | None = None  # why what was to be sent with the answer is not
        self._over = False  # it has its answer: what is said from now on comes too late
        self._event: Flag | None = None
        self._reason = ""
        self._log: TaskLog | None = None
        self._kept: bytes | None = None  # the outbox's: the newest checkpoint, unless the host has stored it
        self._checkpoints = 0  # the outbox's: the number of the newest
        self._saving: list[tuple[int, Future[None]]] = []  # the outbox's: those without an answer
        self._checks = 0  # the outbox's: the number of the newest
        self._asking: dict[int, tuple[bytes, Future[list[Refusal]]]] = {}  # the outbox's: those without an answer
        self._reads = 0  # the outbox's: the number of the newest
        self._reading: dict[int, tuple[bytes, str, Future[Document]]] = {}  # the outbox's: those without an answer
        self._gone = False  # the outbox's: the host is gone
        self._flow: Flow | None = None  # of a handler in steps
        self._stray = False  # a worker was cut off, and the task runs elsewhere: what is said does not count
        self.cancel_reason = ""

    @property
    def id(self) -> str:
        """The task's id, a UUID in its textual form."""
        return str(uuid.UUID(bytes=self._run.task_id))

    @property
    def version(self) -> int:
        """With id the fencing token: it names this attempt and no other, and a later attempt
        has a higher one."""
        return self._run.version

    @property
    def type(self) -> str:
        return self._run.type

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self._run.attempt

    @property
    def crashes(self) -> int:
        """How many earlier attempts took their process with them."""
        return self._run.crashes

    @property
    def priority(self) -> int:
        """0 (highest) to 9."""
        return self._run.priority

    @property
    def key(self) -> str:
        """Unique per type; empty if the task has none."""
        return self._run.key

    @property
    def ordering_key(self) -> str:
        """Tasks that share it run one at a time, as they become ready; empty if there is none."""
        return self._run.ordering_key

    @property
    def headers(self) -> dict[str, str]:
        return self._run.headers

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of the submitter, from the headers of the task."""
        return self._run.headers.get("traceparent")

    @property
    def deadline(self) -> float | None:
        """When the attempt will be cancelled, in Unix seconds by the clock of this machine, or None.
        Setting the clock does not change when that is: see time_left."""
        return self._deadline

    def time_left(self) -> float | None:
        """Seconds until the deadline, at least 0; None without one."""
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    # --- the input

    @property
    def payload(self) -> bytes:
        """The input, as bytes."""
        return self._run.payload

    def text(self) -> str:
        """The input as text. What is no UTF-8 is a permanent error of class "bad_payload"."""
        try:
            return self._run.payload.decode()
        except ValueError as e:
            raise Permanent("the payload is not UTF-8: %s" % e, error_class="bad_payload") from e

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, check: Callable[[Any], T]) -> T: ...
    def json(self, check: Callable[[Any], Any] | None = None) -> Any:
        """The input as JSON. What is no JSON is a permanent error of class "bad_payload".

        check makes of it what the handler wants, such as Order.model_validate or
        lambda o: Order(**o). What it raises makes the same error.
        """
        try:
            value = json.loads(self._run.payload)
        except ValueError as e:
            raise Permanent("the payload is not JSON: %s" % e, error_class="bad_payload") from e
        if check is None:
            return value
        try:
            return check(value)
        except Exception as e:
            message = "the payload does not fit the handler: %s: %s" % (type(e).__name__, e)
            raise Permanent(message, error_class="bad_payload") from e

    @property
    def checkpoint(self) -> bytes:
        """What an earlier attempt kept with save_checkpoint; empty if none did."""
        return self._run.checkpoint

    @property
    def woken(self) -> Woken | None:
        """The end of the newest wait of the task, until an attempt has done its work; None if there is none."""
        return woken_of(self._run.woken)

    @property
    def children(self) -> dict[str, ChildSet]:
        """How the children of the task have ended, by the name that they were added with."""
        return sets_of(self._run)

    @property
    def parent(self) -> Parent | None:
        """The task that this one is a child of, or None."""
        return parent_of(self._run)

    # --- what the handler says meanwhile

    @property
    def log(self) -> TaskLog:
        """The task's log: task.log.info("charged %s", order, extra={"amount": 5})."""
        if self._log is None:
            from ._log import TaskLog

            self._log = TaskLog(self)
        return self._log

    def progress(self, done: int, total: int = 0, message: str = "") -> None:
        """Tells people how far the work is; total is 0 if unknown. Call it as often as you like:
        the newest is sent, at most every 100 ms, and the last one before the answer always."""
        if not (0 <= done < 1 << 64 and 0 <= total < 1 << 64):
            raise ValueError("progress is %r of %r: give numbers from 0 to 2**64 - 1" % (done, total))
        if self._outbox is not None and not self._over:
            self._outbox.note(self, _wire.PROGRESS, _wire.progress(self._run.run_id, done, total, message))

    def save_checkpoint(self, data: object) -> Awaitable[None]:
        """Keeps data for the next attempt, should this one fail, instead of what was kept before.

        In a function, it returns when the node has stored the checkpoint. In a coroutine it
        returns at once what is done then, to be awaited. NotStored is raised if the checkpoint
        is not stored, or if that cannot be known any more.

        data is bytes, or whatever a handler may return; at most 1 MiB. Nothing happens with a
        host that keeps no checkpoints.
        """
        encoded = to_bytes(data, "the checkpoint")
        if len(encoded) > MAX_CHECKPOINT:
            raise ValueError("the checkpoint has %d bytes, of %d allowed" % (len(encoded), MAX_CHECKPOINT))
        future = self._save(encoded)
        return _Stored() if future is None else _saved(future)

    def _save(self, encoded: bytes) -> Future[None] | None:
        """Sends a checkpoint. None if the host keeps none."""
        return None if self._outbox is None else self._outbox.save(self, encoded)

    # --- steps

    def step(self, name: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs a step of a handler in steps, which has a version: work(*args, **kwargs), unless an
        attempt has done so before. Returns its result, as JSON has it. In a coroutine it is to be
        awaited, and work may be a coroutine function.

        What work raises is raised and not kept: the next attempt runs the step again. It is kept
        if the handler goes on to another step: later attempts raise a StepError here then. If the
        task was cancelled, no step begins.
        """
        flow = self._steps()
        if flow.asynchronous:
            return flow.step_async(name, work, args, kwargs)
        return flow.step(name, work, args, kwargs)

    def wait_for(self, *names: str, timeout: Seconds | None = None) -> Any:
        """Ends the attempt of a handler in steps. The task waits, and takes no slot. The handler is
        called again when a signal of one of these names has come, or after timeout (seconds or
        timedelta), or when a user resumes the task. This returns a Woken then, which says what it
        was. In a coroutine it is to be awaited."""
        flow = self._steps()
        return flow.later(flow.wait_for, names, timeout) if flow.asynchronous else flow.wait_for(names, timeout)

    def sleep(self, delay: Seconds) -> Any:
        """Ends the attempt of a handler in steps, which is called again after delay (seconds or
        timedelta). In a coroutine it is to be awaited."""
        flow = self._steps()
        return flow.later(flow.sleep, delay) if flow.asynchronous else flow.sleep(delay)

    def run_children(self, name: str, *children: Child) -> Any:
        """Ends the attempt of a handler in steps, and adds children with that. They run beside each
        other. The handler is called again when all of them have ended, and this returns an
        EndedChildren then, which says how. In a coroutine it is to be awaited. A child that has
        failed raises nothing. One that is in error has not ended: a person decides about it."""
        flow = self._steps()
        if flow.asynchronous:
            return flow.run_children_async(name, children)
        return flow.run_children(name, children)

    @property
    def step_key(self) -> str:
        """The key of the step that runs, or that is next: the same in all attempts, and another one
        for each step of each task. A receiver that remembers it does the work of the step once."""
        return self._steps().key

    @property
    def step_version(self) -> int:
        """The version of the code with which the task began."""
        return self._steps().version

    def _steps(self) -> Flow:
        if self._flow is None:
            raise RuntimeError("the handler of %r has no steps: @handler(%r, version=1)" % (self.type, self.type))
        return self._flow

    # --- what happens if and only if the handler succeeds

    def spawn(
        self,
        task_type: str,
        payload: object = None,
        *,
        key: str = "",
        ordering_key: str = "",
        headers: Mapping[str, str] | None = None,
        run_at: Instant | None = None,
        priority: int | None = None,
        after: Iterable[str] = (),
        after_any: bool = False,
    ) -> None:
        """Submits a task if and only if this one succeeds. With a host that takes no children, the
        answer becomes a permanent error of class "unsupported".

        payload is whatever a handler may return. Tasks that share an ordering_key run one at a
        time, in the order in which they are ready. run_at is an aware datetime or Unix seconds.

        after has the ids of up to 100 tasks that exist, and goes without run_at: the task runs when
        all of them are done, and is cancelled if one of them fails or is cancelled; with after_any
        it runs when all have ended, however. If one is not in the store, the attempt fails: a task
        that this one adds with the same answer is not there yet. With a host that does not support
        that, a permanent error of class "unsupported" is raised.
        """
        child = Child(task_type, payload, ordering_key, headers, run_at, priority)
        ids = _predecessors(after, after_any, run_at)
        if ids:
            self._need("after", "tasks that run after others")
        encoded = _wire.child(*_parts(child, key), "", ids, after_any)
        with _state_lock:
            self._must_run("spawn a task")
            if self._children is None:
                self._children = []
            self._children.append(encoded)

    def add_children(self, name: str, *children: Child) -> None:
        """Adds children if and only if this task succeeds, runs again or waits. Unlike a task that is
        spawned, it learns of their ends: see WaitForChildren and children. The children of one name
        are numbered, across all attempts of the task. With a host that does not support that, a
        permanent error of class "unsupported" is raised.
        """
        self._need("family", "children that a task learns the ends of")
        if not name:
            raise ValueError("children need a name")
        encoded = [_wire.child(*_parts(child), name) for child in children]
        with _state_lock:
            self._must_run("add children")
            self._children = (self._children or []) + encoded

    def check_children(self, name: str, *children: Child) -> Any:
        """Which of these children would be refused if the task ended with them now: a list of Refusal,
        empty if all would be added. A handler asks before it does what it cannot undo. Nothing is
        reserved, so the answer is advice: a backlog may be full later. In a coroutine it is to be
        awaited. NotChecked is raised if the host cannot say it, and a permanent error of class
        "unsupported" if it never does.
        """
        if not name:
            raise ValueError("children need a name")
        return self._check(name, [_wire.child_content(*_parts(child)) for child in children])

    def check_spawn(
        self,
        task_type: str,
        payload: object = None,
        *,
        key: str = "",
        ordering_key: str = "",
        headers: Mapping[str, str] | None = None,
        run_at: Instant | None = None,
        priority: int | None = None,
        after: Iterable[str] = (),
        after_any: bool = False,
    ) -> Any:
        """The same for a task to spawn."""
        child = Child(task_type, payload, ordering_key, headers, run_at, priority)
        ids = _predecessors(after, after_any, run_at)
        if ids and self._outbox is not None and not self._outbox.serves("after"):
            raise Permanent("the host does not support tasks that run after others", error_class="unsupported")
        return self._check("", [_wire.child_content(*_parts(child, key), "", ids, after_any)])

    def _check(self, name: str, children: list[bytes]) -> Any:
        future: Future[list[Refusal]] = Future()
        refused: list[Refusal] = []
        if self._outbox is not None:
            if not self._outbox.serves("check"):
                text = "the host does not say which tasks would be refused"
                raise Permanent(text, error_class="unsupported")
            children, refused = fitting(children, self._outbox.max_result)
        if self._outbox is None or not children:
            future.set_result([])
        else:
            future = self._outbox.ask(self, name, children)
        return _awaited(future, lambda others: others + refused)

    def send_signal(
        self,
        name: str,
        data: object = None,
        *,
        to: str = "",
        task_type: str = "",
        key: str = "",
        ordering_key: str = "",
        signal_id: str = "",
        keep: bool = False,
    ) -> None:
        """Sends a signal to another task if and only if this one succeeds, runs again or waits: to
        the task with the id to, or to that of task_type with the key and the ordering_key. With an
        id, the task_type is empty or that of the task; a worker with a token for some types names
        it. data is whatever a handler may return.

        A task gets signals of one signal_id once. A task that does not wait for it keeps a signal
        with keep; otherwise it is dropped. With a host that does not support that, a permanent
        error of class "unsupported" is raised.
        """
        self._need("signals", "signals that are sent with the end of an attempt")
        if not name or not (to or task_type and key):
            raise ValueError("a signal needs a name, and the id of a task or a task_type and a key")
        ids = [uuid.UUID(text).bytes if text else b"" for text in (to, signal_id)]
        encoded = to_bytes(data, "the data of a signal")
        signal = _wire.signal(ids[0], task_type, key, ordering_key, ids[1], name, encoded, keep)
        with _state_lock:
            self._must_run("send a signal")
            self._signals = (self._signals or []) + [signal]

    # --- documents

    def read_document(self, key: str) -> Any:
        """Reads a document, a small state that tasks share: a Document, with the version 0 if there is none of the key.
        In a coroutine it is to be awaited. NotRead is raised if the host cannot read it, and a permanent error of class
        "unsupported" if it never does.
        """
        future: Future[Document] = Future()
        if self._outbox is None:
            future.set_result(Document(key))
        else:
            if not self._outbox.serves("documents"):
                raise Permanent("the host does not support documents", error_class="unsupported")
            future = self._outbox.read(self, key)
        return _awaited(future)

    def write_document(
        self,
        document: str | Document,
        data: object,
        *,
        if_version: int | None = None,
        expires_at: Instant | None = None,
    ) -> None:
        """Writes a document if and only if this task succeeds, runs again or waits. document is its key, or one that
        the task has read. data is whatever a handler may return, of up to 256 KiB.

        The write of a document that was read replaces its version, and keeps the time at which it expires. if_version
        is the version that a document with this key has to have; 0 is that there is none, and None is any. If it has
        another one, nothing of this answer is stored, the attempt does not count, and the task runs again soon. From
        expires_at on, an aware datetime or Unix seconds, the document does not exist. With a host that does not
        support documents, a permanent error of class "unsupported" is raised.
        """
        encoded = to_bytes(data, "a document")
        if isinstance(document, Document) and expires_at is None:
            expires_at = document.expires_at
        at = 0 if expires_at is None else unix_micros(expires_at)
        self._write(document, encoded, False, if_version, at)

    def delete_document(self, document: str | Document, *, if_version: int | None = None) -> None:
        """Deletes a document in the same way, whether it exists or not."""
        self._write(document, b"", True, if_version, 0)

    def _write(self, document: str | Document, data: bytes, delete: bool, if_version: int | None, at: int) -> None:
        self._need("documents", "documents")
        key = document
        if isinstance(document, Document):
            if if_version is not None:
                raise ValueError("a document that was read has a version: give its key and if_version for another one")
            key, if_version = document.key, document.version
        if not isinstance(key, str) or not key:
            raise ValueError("a document needs a key")
        if if_version is not None and not 0 <= if_version < 1 << 64:
            raise ValueError("if_version is %r: give the version of a document, or 0 for none" % (if_version,))
        if len(data) > MAX_DOCUMENT:
            raise ValueError("the document has %d bytes, of %d allowed" % (len(data), MAX_DOCUMENT))
        write = _wire.write_document(key, data, delete, if_version, at)
        with _state_lock:
            self._must_run("write a document")
            if len(self._documents or []) == MAX_DOCUMENTS:
                raise ValueError("an answer writes at most %d documents" % MAX_DOCUMENTS)
            self._documents = (self._documents or []) + [write]

    def _need(self, feature: str, what: str) -> None:
        """Raises if the host does not serve a feature. The task fails then, also if that is caught."""
        if self._outbox is not None and not self._outbox.serves(feature):
            self._flaw = Permanent("the host does not support %s" % what, error_class="unsupported")
            raise self._flaw

    def _must_run(self, what: str) -> None:
        """Raises if what is to be sent with the answer would be lost. The lock must be held."""
        if self._over:
            raise RuntimeError("task %s cannot %s: it has its answer already" % (self.id, what))

    def _end(self) -> None:
        """Takes no more of what is sent with the answer."""
        with _state_lock:
            self._over = True

    # --- cancellation

    @property
    def cancelled(self) -> Flag:
        """True when the task shall stop. It is a threading.Event, too, which is set then."""
        if self._event is None:
            with _state_lock:
                if self._event is None:
                    self._event = Flag()
        return self._event

    @property
    def cancellation(self) -> Cancelled | None:
        """Why the task shall stop, or None if it may go on."""
        if self._is_cancelled():
            return Cancelled(self.cancel_reason or "cancelled", self._reason or "cancelled")
        if self.time_left() == 0:
            return Cancelled("the deadline is over", "deadline")
        return None

    def check(self) -> None:
        """Raises Cancelled if the task was cancelled or its deadline is over."""
        cancellation = self.cancellation
        if cancellation is not None:
            raise cancellation

    def _is_late(self) -> bool:
        """Whether the deadline is over, by the clock of this machine or that of the host."""
        return self._reason == "deadline" or self.time_left() == 0

    def _is_cancelled(self) -> bool:
        return self._event is not None and self._event.is_set()

    def _cancel(self, reason: str, message: str) -> None:
        self._reason = reason
        self.cancel_reason = message
        self.cancelled.set()

    def __repr__(self) -> str:
        return "<Task %s %s version %d attempt %d>" % (self.type, self.id, self.version, self.attempt)


class _Stored:
    """What is done already, to be awaited."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def _awaited(future: Future[T], then: Callable[[T], T] = lambda answer: answer) -> Any:
    """Waits, or returns what is to be awaited by the coroutine that calls it."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return then(future.result())

    async def answer() -> T:
        return then(await asyncio.wrap_future(future, loop=loop))

    return answer()


def _saved(future: Future[None]) -> Awaitable[None]:
    """Waits, or returns what is to be awaited by the coroutine that calls it."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        future.result()
        return _Stored()
    awaited = asyncio.wrap_future(future, loop=loop)
    awaited.add_done_callback(lambda f: f.cancelled() or f.exception())  # no one has to await it
    return awaited


_state_lock = threading.Lock()  # guards _over, _children, _signals, _documents and the making of _event, of all tasks


def _predecessors(after: Iterable[str], after_any: bool, run_at: Instant | None) -> list[bytes]:
    """The tasks before one to spawn, as they are sent."""
    if isinstance(after, (str, bytes)):
        raise TypeError("after is a text: give a list of ids")
    ids = [uuid.UUID(text).bytes for text in after]
    if len(ids) > MAX_AFTER:
        text = "after has %d tasks, of %d allowed: have the task run after one that runs after some of them"
        raise ValueError(text % (len(ids), MAX_AFTER))
    if after_any and not ids:
        raise ValueError("it has after_any, and after names no task")
    if ids and run_at is not None:
        raise ValueError("it has a time, and after: it runs when the tasks of after have ended")
    for number, task_id in enumerate(ids):
        if not any(task_id):
            raise ValueError("after has an id that is zero")
        if task_id in ids[:number]:
            raise ValueError("after has the task %s twice" % uuid.UUID(bytes=task_id))
    return ids


def _parts(child: Child, key: str = "") -> tuple[str, str, str, bytes, Mapping[str, str], int, int | None]:
    if not child.type:
        raise ValueError("a child needs a type")
    if child.priority is not None and not 0 <= child.priority <= 9:
        raise ValueError("the priority is %r: give 0 to 9" % (child.priority,))
    encoded = to_bytes(child.payload, "the payload of a child")
    at = 0 if child.run_at is None else unix_micros(child.run_at)
    return child.type, key, child.ordering_key, encoded, child.headers or {}, at, child.priority


def to_bytes(value: object, what: str = "the value") -> bytes:
    """The bytes of what a handler returns. What cannot be encoded is a permanent error of class
    "bad_result": another attempt would do the work once more, and end in the same way."""
    try:
        return encode(value)
    except BaseException as e:  # a value may do anything while it is encoded
        text = "%s cannot be encoded: %s: %s" % (what, type(e).__name__, _words(e))
        raise Permanent(text, error_class="bad_result") from e


def encode(value: object) -> bytes:
    """The bytes of what a handler returns, or a client submits. Raises whatever encoding it raises."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return json.dumps(value, allow_nan=False).encode()


def _words(e: BaseException) -> str:
    try:
        return str(e)
    except BaseException:
        return "(its text raised an exception too)"
