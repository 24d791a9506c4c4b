"""The tasks that callers submit, until each has its outcome. It decides what is sent, and waits for nothing."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol, Union

from .._wire import _encode_varint, _fields
from ._errors import Closed, DeadlineExceeded, Error, Unavailable, may_repeat
from ._requests import Receipt, decode_error, decode_receipt, first_of_two, refusal

MESSAGE_TASKS = 1000  # in one message
MESSAGE_BYTES = 1 << 20  # likewise, of a message with several tasks
MOST_SENT = 4000  # requests without an outcome, as the node allows

Outcome = Union[Receipt, Error]


class Caller(Protocol):
    """What waits for outcomes."""

    def land(self, s: Submission) -> None:
        """Takes a submission that has its outcome. It is called once for each, with the lock of the
        flow held, and must not wait."""


class Submission:
    """A task that a caller waits for."""

    __slots__ = ("message", "id", "is_own", "caller", "wait", "sequence", "outcome")

    def __init__(self, message: bytes, id: str, is_own: bool, caller: Caller) -> None:
        self.message = message
        self.id = id
        self.is_own = is_own  # the client has made its id
        self.caller = caller
        self.wait = 0.0  # seconds for which its caller waits. Set before it is added; 0 is not known
        self.sequence = 0  # guarded by the lock of the flow: when it was sent last
        self.outcome: Outcome | None = None  # guarded by the lock of the flow


class Flow:
    """The submissions of a client. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # what is_ready and can_send return may have changed
        self._queue: deque[Submission] = deque()  # guarded by _lock: to be sent
        self._sent: dict[int, Submission] = {}  # guarded by _lock: without an outcome, by sequence
        self._last = 0  # guarded by _lock: the last sequence
        self._answered = 0  # guarded by _lock: how many outcomes there were
        self._trouble: Error | None = None  # guarded by _lock: why the last stream has ended; None after an outcome
        self._is_closed = False  # guarded by _lock
        self._unanswered = threading.Condition(self._lock)  # what await_sent waits for may have come
        self._is_watched = False  # guarded by _lock: a thread waits for _unanswered
        self._is_awaited = False  # guarded by _lock: the sender waits for _changed

    @property
    def answered(self) -> int:
        """How many outcomes there were."""
        with self._lock:
            return self._answered

    def add(self, submissions: Iterable[Submission]) -> None:
        """Has submissions sent."""
        with self._lock:
            if self._is_closed:
                for s in submissions:
                    self._finish(s, Closed("the client is closed"))
                return
            self._queue.extend(submissions)
            self._wake()

    def abandon(self, submissions: Iterable[Submission]) -> None:
        """Ends submissions whose caller does not wait any longer."""
        with self._lock:
            for s in submissions:
                if s.outcome is None:
                    self._finish(s, self._lateness())

    def _lateness(self) -> Error:
        words = "the task may have been added: the timeout is over"
        if self._trouble is None:
            return DeadlineExceeded(words, "deadline_exceeded")
        words = "%s: %s" % (words, self._trouble)
        if isinstance(self._trouble, Unavailable):
            return Unavailable(words, "unavailable")
        return DeadlineExceeded(words, "deadline_exceeded")

    def _finish(self, s: Submission, outcome: Outcome) -> None:
        """Gives a submission its outcome, unless it has one."""
        if s.outcome is None:
            s.outcome = first_of_two(outcome, s.id, s.is_own) if isinstance(outcome, Receipt) else outcome
            s.caller.land(s)

    def _wake(self) -> None:
        if self._is_awaited:
            self._is_awaited = False
            self._changed.notify_all()

    # --- for the thread that sends

    def await_work(self) -> bool:
        """Waits until there is something to send, and returns False when the client is closed."""
        with self._lock:
            while not self._queue and not self._is_closed:
                self._wait()
            return not self._is_closed

    def next_message(self, stream: Stream) -> bytes | None:
        """Waits until something can be sent over the stream, and returns its next message; None at
        its end."""
        with self._lock:
            while True:
                if stream.is_over or self._is_closed:
                    return None
                if self._queue and len(self._sent) < MOST_SENT:
                    taken = self._take()
                    if taken:
                        return b"".join(self._streamed(s) for s in taken)
                    continue
                self._wait()

    def _wait(self) -> None:
        self._is_awaited = True
        self._changed.wait()

    def take(self) -> list[Submission]:
        """Moves the next submissions to those that are sent."""
        with self._lock:
            return self._take()

    def _take(self) -> list[Submission]:
        taken: list[Submission] = []
        size, queue = 0, self._queue
        while queue and len(taken) < MESSAGE_TASKS and len(self._sent) < MOST_SENT:
            s = queue[0]
            if taken and size + len(s.message) > MESSAGE_BYTES:
                break
            queue.popleft()
            if s.outcome is not None:  # abandoned
                continue
            self._last += 1
            s.sequence = self._last
            self._sent[s.sequence] = s
            size += len(s.message)
            taken.append(s)
        if taken and self._is_watched:
            self._unanswered.notify_all()
        return taken

    def _streamed(self, s: Submission) -> bytes:
        """A field of a SubmitStreamRequest."""
        body = b"\x12" + _encode_varint(len(s.message)) + s.message
        head = b"\x08" + _encode_varint(s.sequence)
        return b"\x0a" + _encode_varint(len(head) + len(body)) + head + body

    # --- for the thread that watches

    def await_sent(self, stream: Stream) -> bool:
        """Waits until something that was sent has no outcome. Returns False when the stream has ended."""
        with self._lock:
            while not self._sent and not stream.has_ended and not self._is_closed:
                self._is_watched = True
                self._unanswered.wait()
                self._is_watched = False
            return not stream.has_ended and not self._is_closed

    def impatience(self) -> tuple[float | None, int]:
        """The shortest time for which a caller waits for what was sent, and how many bytes that is."""
        with self._lock:
            waits = [s.wait for s in self._sent.values() if s.wait > 0]
            return min(waits, default=None), sum(len(s.message) for s in self._sent.values())

    # --- for the thread that receives

    def resolve(self, address: str, buf: bytes) -> bool:
        """Takes a SubmitStreamResponse, and returns whether the node accepts no more."""
        leave = False
        outcomes: list[tuple[int, Outcome]] = []
        for number, value in _fields(buf):
            if number == 1:
                outcomes.append(_outcome(address, value))
            elif number == 2:
                leave = leave or bool(value)
        with self._lock:
            for sequence, outcome in outcomes:
                s = self._sent.pop(sequence, None)
                if s is not None:
                    leave = self._settle(s, outcome) or leave
            self._wake()  # there is room for others
        return leave

    def _settle(self, s: Submission, outcome: Outcome) -> bool:
        """Takes an outcome, and returns whether another node is to be used."""
        if isinstance(outcome, Error) and may_repeat(outcome):
            self._trouble = outcome
            self._queue.append(s)
            return isinstance(outcome, Unavailable)
        self._finish(s, outcome)
        self._answered += 1
        self._trouble = None
        return False

    def settle(self, taken: list[Submission], answer: Sequence[Receipt] | Error) -> None:
        """Takes the answer to a request with these submissions."""
        with self._lock:
            for i, s in enumerate(taken):
                self._sent.pop(s.sequence, None)
                if isinstance(answer, Error):
                    self._settle(s, answer)
                else:
                    self._settle(s, refusal(answer[i]) or answer[i])

    def end_stream(self, stream: Stream) -> None:
        """Ends the messages of a stream. What has no outcome is sent again, first and in its order."""
        with self._lock:
            stream.is_over = stream.has_ended = True
            self._unanswered.notify_all()
            again = sorted(self._sent.values(), key=lambda s: s.sequence)
            self._sent.clear()
            self._queue.extendleft(reversed(again))
            self._wake()

    def stop_sending(self, stream: Stream) -> None:
        """Ends the messages of a stream whose outcomes still come."""
        with self._lock:
            stream.is_over = True
            self._wake()

    def failed(self, e: Error) -> None:
        """Records why nothing is answered."""
        with self._lock:
            self._trouble = e

    def refuse(self, e: Error) -> None:
        """Gives an error to all that is in the queue."""
        with self._lock:
            while self._queue:
                self._finish(self._queue.popleft(), e)

    def close(self) -> None:
        """Ends all submissions, and those that come."""
        closed = Closed("the client is closed: the task may have been added")
        with self._lock:
            self._is_closed = True
            for s in [*self._sent.values(), *self._queue]:
                self._finish(s, closed)
            self._sent.clear()
            self._queue.clear()
            self._is_awaited = False
            self._changed.notify_all()
            self._unanswered.notify_all()


class Stream:
    """One stream of a flow."""

    def __init__(self) -> None:
        self.is_over = False  # guarded by the lock of the flow: nothing more is sent
        self.has_ended = False  # guarded by the lock of the flow: nothing more is received


def _outcome(address: str, buf: bytes) -> tuple[int, Outcome]:
    """Decodes a SubmitOutcome."""
    sequence = 0
    outcome: Outcome | None = None
    for number, value in _fields(buf):
        if number == 1:
            sequence = value
        elif number == 2:
            outcome = decode_receipt(value)
        elif number == 3:
            outcome = decode_error(address, value)
    return sequence, outcome or decode_error(address, b"")
