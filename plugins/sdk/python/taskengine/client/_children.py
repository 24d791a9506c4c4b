"""Tasks that are submitted with children, in as many requests as these need."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

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
