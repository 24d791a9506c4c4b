"""The calls about time slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._wire import _fields
from ._calls import Call, Page, _checked, _read, _read_all, _read_page
from ._codec import decode, encode, integer, mapping, sized, text
from ._requests import Instant, instant
from ._slice_messages import AppliedPlatform, Platform, PlatformRow, SliceSource


def _read_platform(buf: bytes) -> Platform | None:
    found = dict(_fields(buf)).get(1)
    return None if found is None else decode(Platform, found)


def _order(source: str, platform: str, by: str, reason: str, first: int) -> bytes:
    """An order with its author and its reason, which are the fields from a number on."""
    return text(1, source) + text(2, platform) + text(first, by) + text(first + 1, reason)


def slice_sources() -> Call[Sequence[SliceSource]]:
    return Call("ListSliceSources", b"", _read_all(SliceSource, 1), True)


@_checked
def slice_source(name: str) -> Call[SliceSource]:
    return Call("GetSliceSource", text(1, name), _read(SliceSource), True)


@_checked
def platforms(source: str, prefix: str, token: str) -> Call[Page[Platform]]:
    request = text(1, source) + text(2, prefix) + integer(3, 1000) + text(4, token)
    return Call("ListPlatforms", request, _read_page(Platform), True)


@_checked
def platform(source: str, platform: str) -> Call[Platform]:
    return Call("GetPlatform", text(1, source) + text(2, platform), _read(Platform), True)


@_checked
def set_slices(source: str, platform: str, values: Mapping[str, str], by: str, reason: str) -> Call[Platform | None]:
    request = _order(source, platform, by, reason, 4) + mapping(3, values)
    return Call("SetSlices", request, _read_platform, True)


@_checked
def add_platform(source: str, platform: str, values: Mapping[str, str], by: str, reason: str) -> Call[Platform]:
    request = _order(source, platform, by, reason, 3) + mapping(5, values)
    return Call("AddPlatform", request, _read(Platform), True)


@_checked
def remove_platform(source: str, platform: str, by: str, reason: str) -> Call[Platform]:
    return Call("RemovePlatform", _order(source, platform, by, reason, 3), _read(Platform), True)


@_checked
def apply_platforms(
    source: str, rows: Sequence[PlatformRow], dry_run: bool, by: str, reason: str
) -> Call[Sequence[AppliedPlatform]]:
    request = text(1, source) + b"".join(sized(2, encode(row)) for row in rows) + integer(3, dry_run)
    request += text(4, by) + text(5, reason)
    return Call("ApplyPlatforms", request, _read_all(AppliedPlatform, 1), True)


@_checked
def change_slices(method: str, source: str, platform: str, prefix: str, by: str, reason: str) -> Call[Platform | None]:
    """PauseSlices or ResumeSlices."""
    request = _order(source, platform, by, reason, 3) + text(5, prefix)
    return Call(method, request, _read_platform, True)


@_checked
def reset_platform(
    source: str, platform: str, to: Instant, cursor: Instant | None, by: str, reason: str
) -> Call[Platform]:
    request = _order(source, platform, by, reason, 5) + sized(3, instant(to))
    if cursor is not None:
        request += sized(4, instant(cursor))
    return Call("ResetPlatform", request, _read(Platform), False)


@_checked
def retry_slices(
    source: str, platform: str, prefix: str, start: Instant | None, end: Instant | None, by: str, reason: str
) -> Call[Platform | None]:
    request = _order(source, platform, by, reason, 5) + text(7, prefix)
    if start is not None:
        request += sized(3, instant(start))
    if end is not None:
        request += sized(4, instant(end))
    return Call("RetrySlices", request, _read_platform, False)
