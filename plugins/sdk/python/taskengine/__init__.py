"""Write task handlers for taskengine.

    from taskengine import handler, run

    @handler("upper")
    def upper(task):
        return task.payload.upper()

    run()
"""

from ._program import Program
from ._task import Again, Cancelled, Permanent, RetryIn, Snooze, Task

__version__ = "1.0.0"
__all__ = ["Again", "Cancelled", "Permanent", "Program", "RetryIn", "Snooze", "Task", "handler", "run"]

_program = Program()

handler = _program.handler
run = _program.run
