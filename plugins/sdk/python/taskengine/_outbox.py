"""What is to be sent to the host."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Union

from . import _wire
from ._check import Refusal, refusals_of
from ._document import Document, document_of
from ._verdicts import NotChecked, NotRead, NotStored

if TYPE_CHECKING:
    from ._task import Task

_PACE = 0.1  # seconds between two words of progress of a task
_MAX_LINES = 10_000  # of logs that wait to be sent

_FEATURES = {_wire.PROGRESS: "progress", _wire.CHECKPOINT: "checkpoint"}

Later = Callable[[float, Callable[[], None]], None]
"""Calls a function after so many seconds, on some other thread."""


@dataclass(frozen=True)
class Extra:
    """What a worker says besides answers."""

    credits: int = 0  # for runs, besides those that finishes give
    leaving: bool = False  # it takes no more runs


# An encoded finish, a pong, a message of the number given, a task with notes, what a worker says, or the end.
Item = Union[bytes, int, tuple[int, bytes], "Task", Extra, None]


class Items(Protocol):
    """The items of an outbox, in their order."""

    def put(self, item: Item) -> None: ...
    def get(self) -> Item: ...
    def get_nowait(self) -> Item:
        """Raises queue.Empty if there is none."""


@dataclass
class Host:
    """What the host takes. It is the same from the welcome on."""

    max_result: int = 0  # bytes; 0 is any number
    features: frozenset[str] = frozenset()
    max_payload: int = 0  # bytes of a task that runs again; 0 is any number


class Notes:
    """The newest unsent report of each kind of a task's handler. The outbox's lock guards it."""

    __slots__ = ("said", "next", "timed", "due")

    def __init__(self) -> None:
        self.said: dict[int, bytes] = {}
        self.next = 0.0  # when progress may be sent again
        self.timed = False  # a timer will send them
        self.due = False  # they may be sent now


def _tell(future: Future[None], why: str) -> None:
    try:
        if why:
            future.set_exception(NotStored(why))
        else:
            future.set_result(None)
    except InvalidStateError:
        pass  # its coroutine was cancelled


def _learn(future: Future[list[Refusal]], refusals: list[Refusal], why: str) -> None:
    try:
        if why:
            future.set_exception(NotChecked("it is not known which tasks would be refused: " + why))
        else:
            future.set_result(refusals)
    except InvalidStateError:
        pass  # its coroutine was cancelled


def _see(future: Future[Document], key: str, answer: _wire.DocumentRead) -> None:
    try:
        if answer.error:
            future.set_exception(NotRead("the document %r was not read: %s" % (key, answer.error)))
        else:
            future.set_result(document_of(key, answer))
    except InvalidStateError:
        pass  # its coroutine was cancelled


class Outbox:
    """Messages in the order in which they are to be sent. Any thread posts them; the one that
    iterates over frames sends."""

    def __init__(self, host: Host, later: Later, items: Items | None = None) -> None:
        self._host = host
        self._later = later
        self._items: Items = queue.SimpleQueue() if items is None else items
        self._lock = threading.Lock()  # guards what follows, and the notes of tasks
        self._lines = 0  # of logs among the items
        self._dropped = 0  # lines since the last that was taken

    def serves(self, feature: str) -> bool:
        """Whether the host serves an optional part of the protocol."""
        return feature in self._host.features

    def pong(self, number: int) -> None:
        self._items.put(number)

    def refuse(self, run_id: int, why: str) -> None:
        self._items.put(_wire.finish_refused(run_id, why))

    def say(self, extra: Extra) -> None:
        self._items.put(extra)

    def finish(self, task: Task, finish: bytes) -> None:
        """Posts the answer of a task, after what is left of its notes."""
        with self._lock:
            task._gone = True  # before the look at what waits: another thread of the handler may go on
        if task._saving or task._asking or task._reading:
            self.give_up(task, "the handler has returned")
        if task._notes is not None:
            with self._lock:
                for note in task._notes.said.items():
                    self._items.put(note)
                task._notes.said = {}
        self._items.put(finish)

    def note(self, task: Task, kind: int, message: bytes) -> None:
        """Posts progress or a checkpoint if the host serves it. Checkpoints go at once, progress
        no more often than every 100 ms for each task."""
        if _FEATURES[kind] not in self._host.features or task._stray:
            return
        with self._lock:
            self._note(task, kind, message)

    def _note(self, task: Task, kind: int, message: bytes) -> None:
        """Posts progress or a checkpoint. The lock must be held."""
        if kind == _wire.CHECKPOINT:
            task._kept = message
        notes = task._notes
        if notes is None:
            notes = task._notes = Notes()
        notes.said[kind] = message
        if kind == _wire.CHECKPOINT:
            self._items.put(task)
        elif not notes.timed:
            notes.timed = True
            wait = notes.next - time.monotonic()
            if wait > 0:
                self._later(wait, lambda: self._come_due(task))
            else:
                notes.due = True
                self._items.put(task)

    def save(self, task: Task, data: bytes) -> Future[None] | None:
        """Posts a checkpoint, and returns the outcome. None if the host keeps none."""
        if _FEATURES[_wire.CHECKPOINT] not in self._host.features:
            return None
        future: Future[None] = Future()
        with self._lock:
            if task._over or task._stray or task._gone:
                future.set_exception(NotStored("the checkpoint comes too late: the attempt is over"))
                return future
            task._checkpoints += 1
            task._saving.append((task._checkpoints, future))
            self._note(task, _wire.CHECKPOINT, _wire.checkpoint(task._run.run_id, data, task._checkpoints))
        return future

    def stored(self, task: Task, answer: _wire.Stored) -> None:
        """Takes the answer of the host to a checkpoint, and to those before it."""
        with self._lock:
            if answer.number == task._checkpoints:
                task._kept = None  # it need not be sent again
            answered = [future for number, future in task._saving if number <= answer.number]
            del task._saving[: len(answered)]
        for future in answered:
            _tell(future, "the host has not stored the checkpoint: " + answer.error if answer.error else "")

    def ask(self, task: Task, name: str, children: list[bytes]) -> Future[list[Refusal]]:
        """Posts a check of encoded children of a name, and returns the answer."""
        future: Future[list[Refusal]] = Future()
        with self._lock:
            if task._over or task._stray or task._gone:
                future.set_exception(NotChecked("the check comes too late: the attempt is over"))
                return future
            task._checks += 1
            message = _wire.check(task._run.run_id, task._checks, name, children)
            task._asking[task._checks] = message, future
            self._items.put((_wire.CHECK, message))
        return future

    def checked(self, task: Task, answer: _wire.Checked) -> None:
        """Takes the answer of the host to a check."""
        with self._lock:
            _, future = task._asking.pop(answer.number, (b"", None))
        if future is not None:
            _learn(future, refusals_of(answer), answer.error)

    def read(self, task: Task, key: str) -> Future[Document]:
        """Posts a read of a document, and returns the answer."""
        future: Future[Document] = Future()
        with self._lock:
            if task._over or task._stray or task._gone:
                future.set_exception(NotRead("the read of a document comes too late: the attempt is over"))
                return future
            task._reads += 1
            message = _wire.read_document(task._run.run_id, task._reads, key)
            task._reading[task._reads] = message, key, future
            self._items.put((_wire.READ, message))
        return future

    def document(self, task: Task, answer: _wire.DocumentRead) -> None:
        """Takes the answer of the host to a read."""
        with self._lock:
            _, key, future = task._reading.pop(answer.number, (b"", "", None))
        if future is not None:
            _see(future, key, answer)

    def questions(self, task: Task) -> list[Item]:
        """The checks and reads of a task that the host has not answered."""
        with self._lock:
            asked: list[Item] = [(_wire.CHECK, message) for message, _ in task._asking.values()]
            return asked + [(_wire.READ, message) for message, _, _ in task._reading.values()]

    @property
    def max_result(self) -> int:
        """How many bytes an answer may have; 0 is any number."""
        return self._host.max_result

    def give_up(self, task: Task, why: str) -> None:
        """Ends the wait for answers to the checkpoints, checks and reads of a task, and takes no more of them."""
        with self._lock:
            task._gone = True
            unanswered, task._saving = task._saving, []
            asked, task._asking = task._asking, {}
            read, task._reading = task._reading, {}
        for _, future in unanswered:
            _tell(future, "whether the checkpoint is stored is unknown: " + why)
        for _, answer in asked.values():
            _learn(answer, [], why)
        for _, key, document in read.values():
            _see(document, key, _wire.DocumentRead(error=why))

    def mute(self, task: Task) -> None:
        """Sends nothing more of what a task says."""
        with self._lock:
            task._stray = True
            if task._notes is not None:
                task._notes.said = {}

    def _come_due(self, task: Task) -> None:
        with self._lock:
            if task._notes is not None:
                task._notes.due = True
        self._items.put(task)

    def log(self, run_id: int, level: int, message: str, at: int, fields: dict[str, str]) -> None:
        """Posts a line of the log, unless too many wait already: then it only counts it."""
        with self._lock:
            if self._lines == _MAX_LINES:
                self._dropped += 1
                return
            dropped, self._dropped = self._dropped, 0
            self._lines += 1
        if dropped:
            fields = {**fields, "lines_dropped_before": str(dropped)}
        self._items.put((_wire.LOG, _wire.log_line(run_id, level, message, at, fields)))

    def close(self) -> None:
        """Ends frames after what has been posted."""
        self._items.put(None)

    def frames(self, items: Items | None = None) -> Iterator[bytes]:
        """Yields what there is to send, with a credit for a new run for each finish. items is what a stream of a worker
        takes them from."""
        source = items or self._items
        get, get_now = source.get, source.get_nowait
        while True:
            finishes: list[bytes] = []
            said: list[tuple[int, bytes]] = []
            size = pong = extra = 0
            leaving = False
            item = get()
            try:
                while item is not None:
                    if isinstance(item, bytes):
                        finishes.append(item)
                        size += len(item)
                    elif isinstance(item, int):
                        pong = item
                    elif isinstance(item, Extra):
                        extra += item.credits
                        leaving = leaving or item.leaving
                    else:
                        notes = [item] if isinstance(item, tuple) else self._notes_of(item)
                        said += notes
                        size += sum(len(message) for _, message in notes)
                    if size > _wire.FRAME_BYTES or len(finishes) + len(said) >= _wire.FRAME_MESSAGES:
                        break
                    item = get_now()
            except queue.Empty:
                pass
            if said:
                self._forget_lines(said)
            if finishes or pong or said or extra or leaving:
                credits = len(finishes) + extra
                clock = int(time.time() * 1e6) if pong and items is not None else 0
                yield _wire.encode_from_handler(
                    credits=credits, finishes=finishes, pong=pong, said=said, leaving=leaving, clock=clock
                )
            if item is None:
                return

    def _notes_of(self, task: Task) -> list[tuple[int, bytes]]:
        """Takes what may be sent of the task's notes."""
        with self._lock:
            notes = task._notes
            if notes is None:
                return []
            if notes.due:
                notes.due = notes.timed = False
                notes.next = time.monotonic() + _PACE
                taken, notes.said = notes.said, {}
                return list(taken.items())
            checkpoint = notes.said.pop(_wire.CHECKPOINT, None)
            return [] if checkpoint is None else [(_wire.CHECKPOINT, checkpoint)]

    def _forget_lines(self, said: list[tuple[int, bytes]]) -> None:
        lines = sum(1 for number, _ in said if number == _wire.LOG)
        with self._lock:
            self._lines -= lines
