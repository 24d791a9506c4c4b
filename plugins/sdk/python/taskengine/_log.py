"""The standard library's logging, attached to tasks."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._task import Task

current: ContextVar[Task | None] = ContextVar("taskengine.task", default=None)
"""The task whose handler runs here; none in batches."""

_TASK, _FIELDS = "taskengine_task", "taskengine_fields"  # attributes of the records of task.log
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", _TASK, _FIELDS}


class LogHandler(logging.Handler):
    """Sends records to the host: their level, message and extra fields, and the task whose handler
    logs them. Outside of handlers they are written to the standard error, where the host reads
    them too.

        logging.basicConfig(handlers=[LogHandler()], level=logging.INFO)
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
            fields = _fields_of(record)
            task: Task | None = getattr(record, _TASK, None) or current.get()
            if task is None or task._outbox is None:
                line = {"level": record.levelname.lower(), "msg": message, **fields}
                sys.stderr.write(json.dumps(line) + "\n")
            else:
                level = (record.levelno - logging.INFO) * 4 // 10  # debug is -4, info 0, warning 4, error 8
                run_id = 0 if task._stray else task._run.run_id
                task._outbox.log(run_id, level, message, round(record.created * 1e6), fields)
        except Exception:
            self.handleError(record)


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class TaskLog(_Adapter):
    """The log of one task, with all the methods of a logger. Whatever extra has becomes a field."""

    def __init__(self, task: Task) -> None:
        super().__init__(_logger, {})
        self._task = task

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {_TASK: self._task, _FIELDS: kwargs.get("extra") or {}}
        return msg, kwargs


def _fields_of(record: logging.LogRecord) -> dict[str, str]:
    fields = {k: v for k, v in vars(record).items() if k not in _STANDARD}
    fields.update(getattr(record, _FIELDS, ()))
    if record.name != _logger.name:
        fields.setdefault("logger", record.name)
    if record.exc_info:
        fields["exception"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return {str(k): v if isinstance(v, str) else str(v) for k, v in fields.items()}


# Not one of logging.getLogger, so that no configuration disables it: what is worth keeping
# is the host's to decide.
_logger = logging.Logger("taskengine.task", logging.DEBUG)
_logger.addHandler(LogHandler())
