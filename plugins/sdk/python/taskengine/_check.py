"""What a handler learns of tasks that it means to add."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from . import _wire

_REASONS = ("invalid", "invalid", "too_large", "too_many", "forbidden", "backlog", "key_taken", "unknown_type")


@dataclass(frozen=True)
class Refusal:
    """A task would be refused, or would not do what it asks for.

    reason is "invalid", "too_large", "too_many", "forbidden" or "backlog": the answer that has the task fails. Or it
    is "key_taken": nothing is added, and id is that of the task that has the key. Or it is "unknown_type": the task is
    added, and no node is known that runs tasks of its type.
    """

    index: int
    """Of the task among those that were given."""
    reason: str
    message: str = ""
    """For people."""
    id: str = ""

    @property
    def fails(self) -> bool:
        """Whether an answer with the task fails."""
        return self.reason not in ("key_taken", "unknown_type")


def refusals_of(answer: _wire.Checked) -> list[Refusal]:
    """The refusals in the answer of a host."""
    return [
        Refusal(
            r.position,
            _REASONS[r.reason] if r.reason < len(_REASONS) else "invalid",
            r.message,
            str(uuid.UUID(bytes=r.task_id)) if r.task_id else "",
        )
        for r in answer.refusals
    ]


def fitting(children: list[bytes], most: int) -> tuple[list[bytes], list[Refusal]]:
    """The encoded children that fit into an answer of so many bytes, and the refusals of the others; 0 is any number."""
    size = 0
    for index, child in enumerate(children):
        size += len(child)
        if 0 < most < size:
            text = "the tasks that are added have %d bytes, max_result of the type allows %d"
            large = text % (sum(map(len, children)), most)
            return children[:index], [Refusal(i, "too_large", large) for i in range(index, len(children))]
    return children, []
