"""What both clients have for time slices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Callable, TypeVar

from . import _slice_calls
from ._calls import Call, Page
from ._requests import Instant
from ._slice_messages import Platform, SliceSource

T = TypeVar("T")


class Slices:
    """The methods of the client that blocks."""

    def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
        raise NotImplementedError

    def slice_sources(self, *, timeout: float | None = None) -> Sequence[SliceSource]:
        """The sources of time slices in the configuration of the node, by name, without their values and history."""
        return self._call(_slice_calls.slice_sources(), timeout)

    def slice_source(self, name: str, *, timeout: float | None = None) -> SliceSource:
        """A source of time slices with its values and its history."""
        return self._call(_slice_calls.slice_source(name), timeout)

    def platforms(self, source: str, prefix: str = "") -> Iterator[Platform]:
        """The platforms of a source with names that begin with prefix, by name, also removed ones. Each page is a call
        of its own."""
        return self._items(lambda token: _slice_calls.platforms(source, prefix, token))

    def platform(self, source: str, platform: str, *, timeout: float | None = None) -> Platform:
        """A platform with its settings, its open slices and its history."""
        return self._call(_slice_calls.platform(source, platform), timeout)

    # --- orders to platforms: durable when the call returns, and carried out when orders of platform() is 0. by and
    # reason are kept in the history

    def set_slices(
        self,
        source: str,
        values: Mapping[str, str],
        platform: str = "",
        *,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Sets values of a platform or, without one, of all platforms of the source that have none of their own: as texts
        of a configuration, by their names. An empty text unsets a value. Returns the platform, and None for a source."""
        return self._call(_slice_calls.set_slices(source, platform, values, by, reason), timeout)

    def add_platform(
        self, source: str, platform: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform:
        """Adds a platform to a source, or one again that was removed: it goes on at its cursor."""
        return self._call(_slice_calls.change_platform("AddPlatform", source, platform, by, reason), timeout)

    def remove_platform(
        self, source: str, platform: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform:
        """Stops a platform from making slices until add_platform. Its open slices go on."""
        return self._call(_slice_calls.change_platform("RemovePlatform", source, platform, by, reason), timeout)

    def pause_slices(
        self, source: str, platform: str = "", *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform | None:
        """Stops a platform or, without one, all platforms of the source from making slices until resume_slices."""
        return self._call(_slice_calls.change_slices("PauseSlices", source, platform, by, reason), timeout)

    def resume_slices(
        self, source: str, platform: str = "", *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform | None:
        """Ends pauses, as pause_slices begins them."""
        return self._call(_slice_calls.change_slices("ResumeSlices", source, platform, by, reason), timeout)

    def reset_platform(
        self,
        source: str,
        platform: str,
        to: Instant,
        *,
        cursor: Instant | None = None,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform:
        """Moves the cursor of a platform: slices are made from there on, also of times that had slices before. Raises
        Conflict, and changes nothing, if cursor is given and the cursor is not there. The call is not repeated."""
        return self._call(_slice_calls.reset_platform(source, platform, to, cursor, by, reason), timeout)

    def retry_slices(
        self,
        source: str,
        platform: str = "",
        *,
        start: Instant | None = None,
        end: Instant | None = None,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Has the failed slices of a platform or, without one, of all platforms of the source run again: those with a part
        between start and end, where None is no bound. The call is not repeated."""
        return self._call(_slice_calls.retry_slices(source, platform, start, end, by, reason), timeout)


class AsyncSlices:
    """The methods of the client for coroutines."""

    async def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> AsyncIterator[T]:
        raise NotImplementedError

    async def slice_sources(self, *, timeout: float | None = None) -> Sequence[SliceSource]:
        """The sources of time slices in the configuration of the node, by name, without their values and history."""
        return await self._call(_slice_calls.slice_sources(), timeout)

    async def slice_source(self, name: str, *, timeout: float | None = None) -> SliceSource:
        """A source of time slices with its values and its history."""
        return await self._call(_slice_calls.slice_source(name), timeout)

    def platforms(self, source: str, prefix: str = "") -> AsyncIterator[Platform]:
        """The platforms of a source with names that begin with prefix, by name, also removed ones. Each page is a call
        of its own."""
        return self._items(lambda token: _slice_calls.platforms(source, prefix, token))

    async def platform(self, source: str, platform: str, *, timeout: float | None = None) -> Platform:
        """A platform with its settings, its open slices and its history."""
        return await self._call(_slice_calls.platform(source, platform), timeout)

    # --- orders to platforms: durable when the call returns, and carried out when orders of platform() is 0. by and
    # reason are kept in the history

    async def set_slices(
        self,
        source: str,
        values: Mapping[str, str],
        platform: str = "",
        *,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Sets values of a platform or, without one, of all platforms of the source that have none of their own: as texts
        of a configuration, by their names. An empty text unsets a value. Returns the platform, and None for a source."""
        return await self._call(_slice_calls.set_slices(source, platform, values, by, reason), timeout)

    async def add_platform(
        self, source: str, platform: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform:
        """Adds a platform to a source, or one again that was removed: it goes on at its cursor."""
        return await self._call(_slice_calls.change_platform("AddPlatform", source, platform, by, reason), timeout)

    async def remove_platform(
        self, source: str, platform: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform:
        """Stops a platform from making slices until add_platform. Its open slices go on."""
        return await self._call(_slice_calls.change_platform("RemovePlatform", source, platform, by, reason), timeout)

    async def pause_slices(
        self, source: str, platform: str = "", *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform | None:
        """Stops a platform or, without one, all platforms of the source from making slices until resume_slices."""
        return await self._call(_slice_calls.change_slices("PauseSlices", source, platform, by, reason), timeout)

    async def resume_slices(
        self, source: str, platform: str = "", *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform | None:
        """Ends pauses, as pause_slices begins them."""
        return await self._call(_slice_calls.change_slices("ResumeSlices", source, platform, by, reason), timeout)

    async def reset_platform(
        self,
        source: str,
        platform: str,
        to: Instant,
        *,
        cursor: Instant | None = None,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform:
        """Moves the cursor of a platform: slices are made from there on, also of times that had slices before. Raises
        Conflict, and changes nothing, if cursor is given and the cursor is not there. The call is not repeated."""
        return await self._call(_slice_calls.reset_platform(source, platform, to, cursor, by, reason), timeout)

    async def retry_slices(
        self,
        source: str,
        platform: str = "",
        *,
        start: Instant | None = None,
        end: Instant | None = None,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Has the failed slices of a platform or, without one, of all platforms of the source run again: those with a part
        between start and end, where None is no bound. The call is not repeated."""
        return await self._call(_slice_calls.retry_slices(source, platform, start, end, by, reason), timeout)
