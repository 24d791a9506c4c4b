"""Documents, as nodes describe them. The proto file of the API describes each field."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._codec import BYTES, TEXT, TIME, UINT32, UINT64, one


@dataclass(frozen=True)
class Document:
    """A small state that tasks share."""

    key: str = one(1, TEXT)
    data: bytes = one(2, BYTES)  # not in lists
    size: int = one(3, UINT32)  # of the data, in bytes; 0 if it cannot be decoded
    version: int = one(4, UINT64)  # another one, and a greater one, after each write
    created_at: datetime | None = one(5, TIME)
    updated_at: datetime | None = one(6, TIME)
    expires_at: datetime | None = one(7, TIME)  # from when on it does not exist; None: never


MESSAGES: tuple[type[Any], ...] = (Document,)
