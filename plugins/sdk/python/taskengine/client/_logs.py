"""The lines of logs of tasks that both clients follow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

from ._calls import Call, _checked
from ._codec import decode, give_duration, integer, sized, text
from ._log_messages import LogEntry, MissingLines, TaskLogsResponse
from ._requests import Id
from ._streams import LASTS, AsyncStreams, Following, Streams


@_checked
def _request(id: Id, attempt: int, follow: bool, cursor: str) -> Call[TaskLogsResponse]:
    if not 0 <= attempt < 1 << 32:
        raise ValueError("the attempt is %d: give 1 or more, or 0 for all" % attempt)
    request = text(1, str(id)) + integer(2, attempt) + integer(3, int(follow)) + text(4, cursor)
    request += sized(5, give_duration(timedelta(seconds=LASTS)))
    return Call("TaskLogs", request, lambda buf: decode(TaskLogsResponse, buf), True)


class _Following(Following[TaskLogsResponse, LogEntry]):
    def __init__(self, id: Id, attempt: int, follow: bool, cursor: str) -> None:
        self._id, self._attempt, self._follows = id, attempt, follow
        self.cursor = cursor
        self._shown: set[int] = set()  # the attempts of which a line has come
        self.call()  # raises Invalid

    def call(self) -> Call[TaskLogsResponse]:
        return _request(self._id, self._attempt, self._follows, self.cursor)

    def items(self, answer: TaskLogsResponse) -> Iterator[LogEntry]:
        for n, line in enumerate(answer.lines, 1):
            self._shown.add(line.attempt)
            if n == len(answer.lines):
                self.cursor = answer.cursor
            yield LogEntry(self.cursor, line)
        self.cursor, self.is_over = answer.cursor, answer.complete
        if answer.complete:
            elsewhere = [ran for ran in answer.elsewhere if ran.attempt not in self._shown]
            if elsewhere or answer.silent:
                yield LogEntry(self.cursor, missing=MissingLines(elsewhere, answer.silent))


class Logs(Streams):
    """The method of the client that blocks."""

    def logs(self, id: Id, *, attempt: int = 0, follow: bool = False, cursor: str = "") -> Iterator[LogEntry]:
        """The lines that handlers have logged about a task, the oldest attempt first, as far as the nodes keep them, or those
        of one attempt. With follow, new lines follow as they come, until the task has ended. cursor is that of an earlier
        entry. If lines may be missing, the last entry says which. Raises NotFound if there is neither a task nor a line.

        When its node does not answer, it goes on at another one."""
        self._check_process()
        return self._follow(_Following(id, attempt, follow, cursor))


class AsyncLogs(AsyncStreams):
    """The method of the client for coroutines."""

    def logs(self, id: Id, *, attempt: int = 0, follow: bool = False, cursor: str = "") -> AsyncIterator[LogEntry]:
        """The lines that handlers have logged about a task, the oldest attempt first, as far as the nodes keep them, or those
        of one attempt. With follow, new lines follow as they come, until the task has ended. cursor is that of an earlier
        entry. If lines may be missing, the last entry says which. Raises NotFound if there is neither a task nor a line.

        When its node does not answer, it goes on at another one."""
        self._check_process()
        return self._follow(_Following(id, attempt, follow, cursor))
