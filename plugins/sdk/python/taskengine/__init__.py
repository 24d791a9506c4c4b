"""Write task handlers for taskengine.

    from taskengine import handler, run

    @handler("upper")
    def upper(task):
        return task.payload.upper()

    run()

README.md is the manual.
"""

from ._log import LogHandler
from ._program import Program
from ._task import Task
from ._verdicts import Again, Cancelled, Ended, Permanent, RetryIn, Snooze
from ._version import VERSION as __version__

__all__ = [
    "Again", "Cancelled", "Ended", "LogHandler", "Permanent", "Program", "RetryIn", "Snooze", "Task",
    "__version__", "handler", "run", "serve",
]  # fmt: skip

_program = Program()

handler = _program.handler
run = _program.run
serve = _program.serve
