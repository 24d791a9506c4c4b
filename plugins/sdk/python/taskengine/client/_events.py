"""The changes of tasks that both clients follow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import timedelta

from ._calls import Call, _checked, _texts
from ._codec import decode, give_duration, integer, sized, text
from ._event_messages import Event, EventsResponse
from ._streams import LASTS, AsyncStreams, Following, Streams


@_checked
def _request(where: str, types: Iterable[str], cursor: str, catch_up: bool) -> Call[EventsResponse]:
    request = text(1, where) + _texts(2, types) + text(3, cursor) + integer(4, int(catch_up))
    request += sized(5, give_duration(timedelta(seconds=LASTS)))
    return Call("Events", request, lambda buf: decode(EventsResponse, buf), True)


class _Following(Following[EventsResponse, Event]):
    def __init__(self, where: str, types: Iterable[str], cursor: str, catch_up: bool) -> None:
        self._where, self._types, self._catch_up = where, types if isinstance(types, str) else list(types), catch_up
        self.cursor = cursor
        self.call()  # raises Invalid

    def call(self) -> Call[EventsResponse]:
        return _request(self._where, self._types, self.cursor, self._catch_up)

    def items(self, answer: EventsResponse) -> Iterator[Event]:
        if answer.silent:
            yield Event(self.cursor, silent=answer.silent)
        if answer.gap is not None:
            yield Event(self.cursor, gap=answer.gap)
        for e in answer.events:
            self.cursor = e.cursor or answer.cursor
            yield Event(self.cursor, e.task, e.at, e.from_store)
        self.cursor = answer.cursor


class Events(Streams):
    """The method of the client that blocks."""

    def events(
        self, *, where: str = "", types: Iterable[str] = (), cursor: str = "", catch_up: bool = False
    ) -> Iterator[Event]:
        """Changes of tasks as the nodes make them, without end. where is a filter of the tasks after their change, without terms
        of payloads and results. cursor is that of an earlier event, a time in RFC 3339 or a duration such as 1h; without
        one it begins at the present. After a gap, catch_up has the tasks follow that have changed since it began, as the
        store has them.

        When its node does not answer, it goes on at another one. To go on later, keep the cursor of the last event that
        was processed: none is lost without a gap, and an event may come again."""
        self._check_process()
        return self._follow(_Following(where, types, cursor, catch_up))


class AsyncEvents(AsyncStreams):
    """The method of the client for coroutines."""

    def events(
        self, *, where: str = "", types: Iterable[str] = (), cursor: str = "", catch_up: bool = False
    ) -> AsyncIterator[Event]:
        """Changes of tasks as the nodes make them, without end. where is a filter of the tasks after their change, without terms
        of payloads and results. cursor is that of an earlier event, a time in RFC 3339 or a duration such as 1h; without
        one it begins at the present. After a gap, catch_up has the tasks follow that have changed since it began, as the
        store has them.

        When its node does not answer, it goes on at another one. To go on later, keep the cursor of the last event that
        was processed: none is lost without a gap, and an event may come again."""
        self._check_process()
        return self._follow(_Following(where, types, cursor, catch_up))
