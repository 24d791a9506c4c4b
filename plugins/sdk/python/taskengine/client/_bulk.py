"""What both clients have for bulk jobs, and for tasks that are set and deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Callable, TypeVar

from . import _bulk_calls
from ._bulk_messages import BulkJob, BulkOrder, BulkPreview, TaskValues
from ._calls import Call, Page
from ._messages import Task
from ._requests import Id, Instant, Seconds

T = TypeVar("T")


class Bulk:
    """The methods of the client that blocks."""

    def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
        raise NotImplementedError

    def preview_bulk_job(self, order: BulkOrder, *, timeout: float | None = None) -> BulkPreview:
        """Says which tasks a bulk job would change now. It changes nothing."""
        return self._call(_bulk_calls.preview_bulk_job(order), timeout)

    def start_bulk_job(
        self, order: BulkOrder, *, name: str = "", rate: float = 0, by: str = "", timeout: float | None = None
    ) -> BulkJob:
        """Has the nodes change all tasks that a filter selects now, each once, and returns the job that does so: rate tasks
        in a second, or as many as possible. The job goes on without the client; bulk_job says how far it is. name has
        letters, digits, ., - and _; without one the node makes one of the time. With a name the call is repeated when a
        node does not answer, and may be made again."""
        return self._call(_bulk_calls.start_bulk_job(order, name, rate, by), timeout)

    def bulk_job(self, name: str, *, timeout: float | None = None) -> BulkJob:
        """A bulk job. Jobs are kept for 30 days after their end."""
        return self._call(_bulk_calls.bulk_job(name), timeout)

    def bulk_jobs(self) -> Iterator[BulkJob]:
        """The bulk jobs without refusals and history, the newest first. Each page is a call of its own."""
        return self._items(_bulk_calls.bulk_jobs)

    def pause_bulk_job(self, name: str, *, by: str = "", reason: str = "", timeout: float | None = None) -> BulkJob:
        """Has a bulk job change no more tasks until continue_bulk_job. Of the tasks that it is at, some may still be
        changed."""
        return self._call(_bulk_calls.change_bulk_job("PauseBulkJob", name, by, reason), timeout)

    def continue_bulk_job(self, name: str, *, by: str = "", reason: str = "", timeout: float | None = None) -> BulkJob:
        """Ends a pause."""
        return self._call(_bulk_calls.change_bulk_job("ContinueBulkJob", name, by, reason), timeout)

    def set_bulk_job_rate(self, name: str, rate: float, *, by: str = "", timeout: float | None = None) -> BulkJob:
        """Changes how many tasks a bulk job changes in a second; 0 is as many as possible."""
        return self._call(_bulk_calls.set_bulk_job_rate(name, rate, by), timeout)

    def stop_bulk_job(self, name: str, *, by: str = "", reason: str = "", timeout: float | None = None) -> BulkJob:
        """Ends a bulk job. Tasks that it has changed stay so."""
        return self._call(_bulk_calls.change_bulk_job("StopBulkJob", name, by, reason), timeout)

    def set_task(
        self,
        id: Id,
        values: TaskValues,
        *,
        at: Instant | None = None,
        delay: Seconds | None = None,
        by: str = "",
        version: int = 0,
        timeout: float | None = None,
    ) -> Task:
        """Gives a task other values, or another time, and returns it. The task is waiting, submitted or in error, and stays
        so; its history has the old values."""
        return self._call(_bulk_calls.set_task(id, values, at, delay, by, version), timeout)

    def delete_task(self, id: Id, *, version: int = 0, timeout: float | None = None) -> Task:
        """Removes a task that is done, has failed or was cancelled, and returns it as it was, without payload and result."""
        return self._call(_bulk_calls.delete_task(id, version), timeout)


class AsyncBulk:
    """The methods of the client for coroutines."""

    async def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> AsyncIterator[T]:
        raise NotImplementedError

    async def preview_bulk_job(self, order: BulkOrder, *, timeout: float | None = None) -> BulkPreview:
        """Says which tasks a bulk job would change now. It changes nothing."""
        return await self._call(_bulk_calls.preview_bulk_job(order), timeout)

    async def start_bulk_job(
        self, order: BulkOrder, *, name: str = "", rate: float = 0, by: str = "", timeout: float | None = None
    ) -> BulkJob:
        """Has the nodes change all tasks that a filter selects now, each once, and returns the job that does so: rate tasks
        in a second, or as many as possible. The job goes on without the client; bulk_job says how far it is. name has
        letters, digits, ., - and _; without one the node makes one of the time. With a name the call is repeated when a
        node does not answer, and may be made again."""
        return await self._call(_bulk_calls.start_bulk_job(order, name, rate, by), timeout)

    async def bulk_job(self, name: str, *, timeout: float | None = None) -> BulkJob:
        """A bulk job. Jobs are kept for 30 days after their end."""
        return await self._call(_bulk_calls.bulk_job(name), timeout)

    def bulk_jobs(self) -> AsyncIterator[BulkJob]:
        """The bulk jobs without refusals and history, the newest first. Each page is a call of its own."""
        return self._items(_bulk_calls.bulk_jobs)

    async def pause_bulk_job(
        self, name: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> BulkJob:
        """Has a bulk job change no more tasks until continue_bulk_job. Of the tasks that it is at, some may still be
        changed."""
        return await self._call(_bulk_calls.change_bulk_job("PauseBulkJob", name, by, reason), timeout)

    async def continue_bulk_job(
        self, name: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> BulkJob:
        """Ends a pause."""
        return await self._call(_bulk_calls.change_bulk_job("ContinueBulkJob", name, by, reason), timeout)

    async def set_bulk_job_rate(self, name: str, rate: float, *, by: str = "", timeout: float | None = None) -> BulkJob:
        """Changes how many tasks a bulk job changes in a second; 0 is as many as possible."""
        return await self._call(_bulk_calls.set_bulk_job_rate(name, rate, by), timeout)

    async def stop_bulk_job(
        self, name: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> BulkJob:
        """Ends a bulk job. Tasks that it has changed stay so."""
        return await self._call(_bulk_calls.change_bulk_job("StopBulkJob", name, by, reason), timeout)

    async def set_task(
        self,
        id: Id,
        values: TaskValues,
        *,
        at: Instant | None = None,
        delay: Seconds | None = None,
        by: str = "",
        version: int = 0,
        timeout: float | None = None,
    ) -> Task:
        """Gives a task other values, or another time, and returns it. The task is waiting, submitted or in error, and stays
        so; its history has the old values."""
        return await self._call(_bulk_calls.set_task(id, values, at, delay, by, version), timeout)

    async def delete_task(self, id: Id, *, version: int = 0, timeout: float | None = None) -> Task:
        """Removes a task that is done, has failed or was cancelled, and returns it as it was, without payload and result."""
        return await self._call(_bulk_calls.delete_task(id, version), timeout)
