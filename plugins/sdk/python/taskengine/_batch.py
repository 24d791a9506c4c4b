"""Tasks of a type that wait for others, to share a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ._task import Task


@dataclass(frozen=True)
class Served:
    """A function, and how it is called."""

    function: Callable[..., Any]
    asynchronous: bool = False
    batch: int = 0  # the most tasks in a call; 0 has it called with one, not in a list
    wait: float = 0.0  # seconds for which the first task of a batch waits for others


Job = tuple[Served, "list[Task]"]


@dataclass
class Gathering:
    """The tasks that wait to be called together. The worker's lock guards it."""

    served: Served
    tasks: list[Task] = field(default_factory=list)
    number: int = 0  # of batches that were taken, by which a timer knows whether it is too late

    def take(self) -> Job:
        tasks, self.tasks = self.tasks, []
        self.number += 1
        return self.served, tasks
