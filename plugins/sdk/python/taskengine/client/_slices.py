"""What both clients have for time slices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Callable, TypeVar

from . import _slice_calls
from ._calls import Call, Page
from ._requests import Instant
from ._slice_messages import AppliedPlatform, Platform, PlatformRow, SliceSource

T = TypeVar("T")


def _apply_calls(
    source: str, platforms: Iterable[PlatformRow], dry_run: bool, by: str, reason: str
) -> Iterator[Call[Sequence[AppliedPlatform]]]:
    """The calls for any number of platforms."""
    rows = list(platforms)
    for i in range(0, len(rows), 1000):
        yield _slice_calls.apply_platforms(source, rows[i : i + 1000], dry_run, by, reason)


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
        self,
        source: str,
        platform: str,
        values: Mapping[str, str] | None = None,
        *,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform:
        """Adds a platform to a source, or one again that was removed: it goes on at its cursor. Its first slice has the
        values, which are its own, as in set_slices."""
        return self._call(_slice_calls.add_platform(source, platform, values or {}, by, reason), timeout)

    def apply_platforms(
        self,
        source: str,
        platforms: Iterable[PlatformRow],
        *,
        dry_run: bool = False,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Sequence[AppliedPlatform]:
        """Adds, changes and removes platforms, 1000 with each call, and returns the effect on each. A call with a row that
        cannot be raises Invalid and changes nothing; otherwise each row is applied by itself. After an error the same call
        applies the rest. With dry_run it changes nothing, and returns the effects that there would be."""
        done: list[AppliedPlatform] = []
        for call in _apply_calls(source, platforms, dry_run, by, reason):
            applied = self._call(call, timeout)
            done += applied
        return done

    def remove_platform(
        self, source: str, platform: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform:
        """Stops a platform from making slices until add_platform. Its open slices go on."""
        return self._call(_slice_calls.remove_platform(source, platform, by, reason), timeout)

    def pause_slices(
        self,
        source: str,
        platform: str = "",
        *,
        prefix: str = "",
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Stops a platform or, without one, all platforms of the source with names that begin with prefix from making
        slices until resume_slices."""
        return self._call(_slice_calls.change_slices("PauseSlices", source, platform, prefix, by, reason), timeout)

    def resume_slices(
        self,
        source: str,
        platform: str = "",
        *,
        prefix: str = "",
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Ends pauses, as pause_slices begins them."""
        return self._call(_slice_calls.change_slices("ResumeSlices", source, platform, prefix, by, reason), timeout)

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
        prefix: str = "",
        start: Instant | None = None,
        end: Instant | None = None,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Has the failed slices of a platform or, without one, of all platforms of the source with names that begin with
        prefix run again: those with a part between start and end, where None is no bound. The call is not repeated."""
        return self._call(_slice_calls.retry_slices(source, platform, prefix, start, end, by, reason), timeout)


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
        self,
        source: str,
        platform: str,
        values: Mapping[str, str] | None = None,
        *,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform:
        """Adds a platform to a source, or one again that was removed: it goes on at its cursor. Its first slice has the
        values, which are its own, as in set_slices."""
        return await self._call(_slice_calls.add_platform(source, platform, values or {}, by, reason), timeout)

    async def apply_platforms(
        self,
        source: str,
        platforms: Iterable[PlatformRow],
        *,
        dry_run: bool = False,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Sequence[AppliedPlatform]:
        """Adds, changes and removes platforms, 1000 with each call, and returns the effect on each. A call with a row that
        cannot be raises Invalid and changes nothing; otherwise each row is applied by itself. After an error the same call
        applies the rest. With dry_run it changes nothing, and returns the effects that there would be."""
        done: list[AppliedPlatform] = []
        for call in _apply_calls(source, platforms, dry_run, by, reason):
            applied = await self._call(call, timeout)
            done += applied
        return done

    async def remove_platform(
        self, source: str, platform: str, *, by: str = "", reason: str = "", timeout: float | None = None
    ) -> Platform:
        """Stops a platform from making slices until add_platform. Its open slices go on."""
        return await self._call(_slice_calls.remove_platform(source, platform, by, reason), timeout)

    async def pause_slices(
        self,
        source: str,
        platform: str = "",
        *,
        prefix: str = "",
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Stops a platform or, without one, all platforms of the source with names that begin with prefix from making
        slices until resume_slices."""
        return await self._call(
            _slice_calls.change_slices("PauseSlices", source, platform, prefix, by, reason), timeout
        )

    async def resume_slices(
        self,
        source: str,
        platform: str = "",
        *,
        prefix: str = "",
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Ends pauses, as pause_slices begins them."""
        return await self._call(
            _slice_calls.change_slices("ResumeSlices", source, platform, prefix, by, reason), timeout
        )

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
        prefix: str = "",
        start: Instant | None = None,
        end: Instant | None = None,
        by: str = "",
        reason: str = "",
        timeout: float | None = None,
    ) -> Platform | None:
        """Has the failed slices of a platform or, without one, of all platforms of the source with names that begin with
        prefix run again: those with a part between start and end, where None is no bound. The call is not repeated."""
        return await self._call(_slice_calls.retry_slices(source, platform, prefix, start, end, by, reason), timeout)
