"""Documents: small states that tasks share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from . import _wire

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Document:
    """A small state that tasks share, as it was when a task has read it."""

    key: str
    data: bytes = b""
    version: int = 0
    """Another one, and a greater one, after each write; 0 if there is no document of the key."""
    created_at: datetime | None = None
    """When it was first written."""
    updated_at: datetime | None = None
    """When it was last written."""
    expires_at: datetime | None = None
    """From when on it does not exist; None is never."""

    def text(self) -> str:
        """The data as text."""
        return self.data.decode()

    def json(self) -> Any:
        """The data as JSON; None if there is no document."""
        return json.loads(self.data) if self.version else None


def document_of(key: str, answer: _wire.DocumentRead) -> Document:
    """The document in the answer of a host."""
    times = (
        _EPOCH + timedelta(microseconds=at) if at else None
        for at in (answer.created_at, answer.updated_at, answer.expires_at)
    )
    return Document(key, answer.data, answer.version, *times)
