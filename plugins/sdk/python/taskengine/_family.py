"""Children of a task, which it learns the ends of, and the task that a child belongs to."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import _wire
from ._verdicts import Instant


@dataclass(frozen=True)
class Child:
    """A task to add as a child. payload is whatever a handler may return. Tasks that share an ordering_key run one at a
    time, in the order in which they are ready; of the children of one name all have one, or none. run_at is an aware
    datetime or Unix seconds."""

    type: str
    payload: object = None
    ordering_key: str = ""
    headers: Mapping[str, str] | None = None
    run_at: Instant | None = None
    priority: int | None = None


@dataclass(frozen=True)
class ChildSet:
    """How the children of one name have ended. They have the numbers from 0 to added - 1. A child that is in error has
    not ended: a person decides about it."""

    name: str
    added: int
    done: int
    failed: int
    cancelled: int
    _parent: bytes = field(default=b"", repr=False)
    _bits: bytes = field(default=b"", repr=False)
    _shards: bytes = field(default=b"", repr=False)

    @property
    def ended(self) -> int:
        """How many have ended."""
        return self.done + self.failed + self.cancelled

    def has_ended(self, number: int) -> bool:
        """Whether the child of this number has ended."""
        return number // 8 < len(self._bits) and bool(self._bits[number // 8] & 1 << number % 8)

    def id(self, number: int) -> str:
        """The id of the child of this number, where one database keeps the tasks."""
        return child_id(self._parent, self.name, number, self._shards)


@dataclass(frozen=True)
class Parent:
    """The task that learns of the end of this one, the name of its children, and the number of this one among them."""

    id: str
    name: str
    number: int


@dataclass(frozen=True)
class EndedChildren:
    """How the children of a step have ended."""

    count: int
    done: int
    failed: int
    cancelled: int
    _first: int = field(default=0, repr=False)
    _set: ChildSet | None = field(default=None, repr=False)

    def id(self, number: int) -> str:
        """The id of the child of this number in the step, from 0 on, where one database keeps the tasks."""
        if self._set is None or not 0 <= number < self.count:
            raise IndexError("there are %d children" % self.count)
        return self._set.id(self._first + number)


def child_id(parent: bytes, name: str, number: int, shards: bytes = b"") -> str:
    """The id of a child, which is made of that of its parent, the name and the number."""
    digest = hashlib.sha256(parent + name.encode()).digest()
    made = bytearray(parent[:6] + digest[:10])
    made[6] = made[6] & 0x0F | 0x80
    made[8] = made[8] & 0x3F | 0x80
    made[12] = made[12] & 0xF0 | number >> 16 & 0x0F
    made[13], made[14] = number >> 8 & 0xFF, number & 0xFF
    made[15] ^= number & 0xFF
    if number < len(shards):
        made[15] = made[3] ^ made[7] ^ shards[number]
    return str(uuid.UUID(bytes=bytes(made)))


def sets_of(run: _wire.Run) -> dict[str, ChildSet]:
    """The children in a run, by name."""
    return {
        s.name: ChildSet(s.name, s.added, s.done, s.failed, s.cancelled, run.task_id, s.ended, s.shards)
        for s in run.children
    }


def parent_of(run: _wire.Run) -> Parent | None:
    p = run.parent
    return None if p is None else Parent(str(uuid.UUID(bytes=p.task_id)), p.name, p.number)
