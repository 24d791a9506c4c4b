"""Tasks that are submitted with children, in as many requests as these need."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from . import _calls
from ._base import together
from ._requests import Instant, Receipt

MAX_CHILDREN = 10_000
"""How many children one request may have."""

MAX_BYTES = 8 << 20
"""How many bytes of children one request has, give or take one child."""


def part_of(children: Sequence[bytes], start: int) -> Sequence[bytes]:
    """The children from one on, as many as a request may have."""
    size, end = 0, min(len(children), start + MAX_CHILDREN)
    for i in range(start, end):
        size += len(children[i])
        if size > MAX_BYTES and i > start:
            return children[start:i]
    return children[start:end]


class ChildrenAdded(NamedTuple):
    """The children of a task that was submitted with open children."""

    added: int  # how many the task has
    open: bool  # more can be added


def adding(
    task_id: str, name: str, start: int, children: Sequence[bytes], closes: bool, count: int, or_failed: bool
) -> Generator[_calls.Call[Any], Any, ChildrenAdded]:
    """Yields the calls that add children from a number on, and that close them, and is sent their answers."""
    sent = 0
    while True:
        part = part_of(children, sent)
        sent += len(part)
        is_last = sent == len(children)
        wait = (count, or_failed) if closes and is_last else (0, False)
        there = yield _calls.add_children(task_id, name, start, part, closes and is_last, *wait)
        if is_last:
            return ChildrenAdded(*there)
        start += len(part)


def opening(
    task: tuple[bytes, str, bool], children: Sequence[bytes], name: str, until: Instant | None
) -> Generator[_calls.Call[Any], Any, Receipt]:
    """Yields the calls that add a task with its first children, to which others are added."""
    part = part_of(children, 0)
    receipts, is_open = yield _calls.submit_with_children(task[0], part, name, 0, False, until, True)
    receipt = together([task], receipts)[0]
    if is_open and len(part) < len(children):
        yield from adding(receipt.id, name, len(part), children[len(part) :], False, 0, False)
    return receipt


def submitting(
    task: tuple[bytes, str, bool],
    children: Sequence[bytes],
    name: str,
    count: int,
    or_failed: bool,
    until: Instant | None,
) -> Generator[_calls.Call[Any], Any, Receipt]:
    """Yields the calls that add a task and its children, and is sent their answers. If the task was there
    before, it adds those that are missing, if the task takes more."""
    part = part_of(children, 0)
    follow = len(part) < len(children)
    wait = (0, False) if follow else (count, or_failed)
    receipts, is_open = yield _calls.submit_with_children(task[0], part, name, *wait, until, follow)
    receipt = together([task], receipts)[0]
    start = len(part)
    if is_open and not receipt.created:
        start, is_open = yield _calls.add_children(receipt.id, name, 0, (), False, 0, False)
    while is_open:
        start = min(start, len(children))
        part = part_of(children, start)
        closes = start + len(part) == len(children)
        wait = (count, or_failed) if closes else (0, False)
        _, is_open = yield _calls.add_children(receipt.id, name, start, part, closes, *wait)
        start += len(part)
    return receipt
