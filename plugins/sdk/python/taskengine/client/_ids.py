"""Ids of tasks."""

from __future__ import annotations

import os
import threading
import time
from typing import Callable

_DRAW = 4096  # random bytes at once: a multiple of 8


class Ids:
    """Makes UUIDs of version 7 that strictly increase. Any thread may call it.

    They are made as the Go client makes them: the twelve bits after the millisecond are the
    fraction of it, and the last byte puts the id into the shard of the task's keys.
    """

    def __init__(self, clock: Callable[[], int] = time.time_ns, random: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()
        self._last = 0  # guarded by _lock: the newest milliseconds << 12 | fraction
        self._drawn = b""  # guarded by _lock: random bytes, of which each is used once
        self._used = 0  # guarded by _lock: how many of them were used
        self._pid = 0  # guarded by _lock: the process that has drawn them; another one would use them again

    def next(self, task_type: str, key: str, ordering_key: str) -> str:
        """A new id for a task with these keys. Where several databases hold the tasks, it is of the
        database that has the tasks of the key."""
        ms, ns = divmod(max(0, self._clock()), 1_000_000)
        stamp = ms << 12 | (ns << 12) // 1_000_000
        with self._lock:
            self._last = stamp = max(stamp, self._last + 1)
            if self._used == len(self._drawn) or self._pid != os.getpid():
                self._drawn, self._used, self._pid = self._random(_DRAW), 0, os.getpid()
            drawn = self._drawn[self._used : self._used + 8]
            self._used += 8
        tail = int.from_bytes(drawn, "big") & 0x3FFFFFFFFFFFFFFF | 0x8000000000000000
        value = (stamp >> 12 & 0xFFFFFFFFFFFF) << 80 | (0x7000 | stamp & 0xFFF) << 64 | tail
        if key or ordering_key:
            shard = _hash(ordering_key if ordering_key else task_type + "\0" + key) & 0xFF
            value = value & ~0xFF | shard ^ (value >> 96 & 0xFF) ^ (value >> 64 & 0xFF)
        h = "%032x" % value
        return "%s-%s-%s-%s-%s" % (h[:8], h[8:12], h[12:16], h[16:20], h[20:])


def _hash(name: str) -> int:
    """FNV-1a with 32 bits."""
    h = 0x811C9DC5
    for byte in name.encode():
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return h
