"""What surrounds the calls of handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

from ._batch import Served
from ._task import Task

Around = Callable[[Sequence[Task]], AbstractContextManager[Any]]
"""Returns what a call with these tasks is made in."""


def surrounded(served: Served, arounds: Sequence[Around]) -> Served:
    """A handler whose calls are made in what arounds return, the first outermost."""
    if not arounds:
        return served
    function = served.function

    def enter(stack: ExitStack, given: Any) -> None:
        tasks = given if served.batch else [given]
        for around in arounds:
            stack.enter_context(around(tasks))

    def call(given: Any) -> Any:
        with ExitStack() as stack:
            enter(stack, given)
            return function(given)

    async def call_async(given: Any) -> Any:
        with ExitStack() as stack:
            enter(stack, given)
            return await function(given)

    return replace(served, function=call_async if served.asynchronous else call)
