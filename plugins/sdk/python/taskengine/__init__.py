"""Write task handlers for taskengine.

    from taskengine import handler, run

    @handler("upper")
    def upper(task):
        return task.payload.upper()

    run()

And add tasks, with taskengine.client, whose Client and AsyncClient are here, too. README.md is the
manual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._check import Refusal
from ._connection import Connection
from ._document import Document
from ._family import Child, ChildSet, EndedChildren, Parent
from ._log import LogHandler
from ._program import Program
from ._steps import StepError
from ._task import Task
from ._verdicts import (
    Again,
    Cancelled,
    ChildrenWait,
    Ended,
    InDoubt,
    NotChecked,
    NotRead,
    NotStored,
    Permanent,
    Retry,
    RetryIn,
    Snooze,
    WaitFor,
    WaitForChildren,
)
from ._version import VERSION as __version__
from ._woken import Woken

if TYPE_CHECKING:
    from .client import AsyncClient, Client

__all__ = [
    "Again", "AsyncClient", "Cancelled", "Child", "ChildSet", "ChildrenWait", "Client", "Connection", "Document",
    "Ended", "EndedChildren", "InDoubt", "LogHandler", "NotChecked", "NotRead", "NotStored", "Parent", "Permanent", "Program",
    "Refusal", "Retry", "RetryIn", "Snooze", "StepError", "Task", "WaitFor", "WaitForChildren", "Woken", "__version__", "around",
    "handler", "run", "serve", "work",
]  # fmt: skip

_program = Program()

around = _program.around
handler = _program.handler
run = _program.run
serve = _program.serve
work = _program.work


def __getattr__(name: str) -> Any:
    """The clients, which a program that has only handlers does not load."""
    if name in ("AsyncClient", "Client"):
        from . import client

        return getattr(client, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
