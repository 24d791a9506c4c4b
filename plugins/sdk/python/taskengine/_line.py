"""What a worker has to send, which outlives its streams."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterable

from . import _wire
from ._outbox import Extra, Item


class Line:
    """The items of the outbox of a worker. It keeps the finishes that a stream has taken until they have arrived, and
    gives them to the next stream again. Any thread may call it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._items: deque[Item] = deque()
        self._sent: deque[bytes] = deque()  # finishes that were taken and may not have arrived
        self._arrived = 0  # finishes of the session
        self._stream = 0  # the number of the present stream

    def put(self, item: Item) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> Item:
        raise NotImplementedError  # a stream takes items

    def get_nowait(self) -> Item:
        raise NotImplementedError

    def connect(self, first: Iterable[Item]) -> Stream:
        """Begins a stream, which gets first, then the finishes that may not have arrived, and then what waits."""
        with self._changed:
            waiting = [
                item for item in self._items if not isinstance(item, (int, Extra))
            ]  # these were for another stream
            self._items = deque([*first, *self._sent, *waiting])
            self._sent.clear()
            self._stream += 1
            self._changed.notify_all()
            return Stream(self, self._stream)

    def disconnect(self) -> None:
        """Ends the stream."""
        with self._changed:
            self._stream += 1
            self._changed.notify_all()

    def take(self, stream: int, wait: bool) -> Item:
        """Takes an item for a stream; None if that has ended. Without wait it raises queue.Empty if there is none."""
        with self._changed:
            while stream == self._stream and not self._items:
                if not wait:
                    raise queue.Empty
                self._changed.wait()
            if stream != self._stream:
                return None
            item = self._items.popleft()
            if isinstance(item, bytes):
                self._sent.append(item)
            return item

    def acknowledge(self, arrived: int) -> list[int]:
        """Notes that so many finishes of the session have arrived in all, and returns the runs of those that had not
        before."""
        with self._changed:
            news = []
            while self._arrived < arrived and self._sent:
                finish = self._sent.popleft()
                if not isinstance(finish, _wire.Earlier):
                    news.append(_wire.run_of(finish))
                self._arrived += 1
            return news

    def runs(self) -> list[int]:
        """The runs whose finishes may not have arrived."""
        with self._changed:
            return [_wire.run_of(f) for f in self._finishes() if not isinstance(f, _wire.Earlier)]

    def finishes(self) -> int:
        """How many finishes may not have arrived."""
        with self._changed:
            return len(self._finishes())

    def forget(self) -> list[bytes]:
        """Removes everything but lines of the log: another session begins. Returns the finishes that may not have
        arrived."""
        with self._changed:
            finishes = self._finishes()
            self._items = deque(i for i in self._items if isinstance(i, tuple) and i[0] == _wire.LOG)
            self._sent.clear()
            self._arrived = 0
            return finishes

    def _finishes(self) -> list[bytes]:
        return [*self._sent, *(item for item in self._items if isinstance(item, bytes))]


class Stream:
    """What one stream takes from a line."""

    def __init__(self, line: Line, number: int) -> None:
        self._line = line
        self._number = number

    def put(self, item: Item) -> None:
        self._line.put(item)

    def get(self) -> Item:
        return self._line.take(self._number, True)

    def get_nowait(self) -> Item:
        return self._line.take(self._number, False)
