"""What ended the wait of a task for a signal or for children."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from . import _wire

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NAMES = {
    _wire.BY_SIGNAL: "signal",
    _wire.BY_TIMEOUT: "timeout",
    _wire.BY_USER: "user",
    _wire.BY_CHILDREN: "children",
}


@dataclass(frozen=True)
class Woken:
    """The end of a wait: by is "signal", "timeout", "children", or "user" if a user has resumed the
    task. The other fields are those of the signal."""

    by: str
    id: str = ""
    name: str = ""
    at: datetime | None = None
    data: bytes = b""

    def text(self) -> str:
        """The data as text."""
        return self.data.decode()

    def json(self) -> Any:
        """The data as JSON."""
        return json.loads(self.data)


def woken_of(w: _wire.Woken | None) -> Woken | None:
    """What a host has sent."""
    if w is None or w.by not in NAMES:
        return None
    if w.by != _wire.BY_SIGNAL:
        return Woken(NAMES[w.by])
    return Woken("signal", str(uuid.UUID(bytes=w.id)), w.name, _EPOCH + timedelta(microseconds=w.at), w.data)
