"""A handler program: it serves the task type "upper".

Needs the package in plugins/sdk/python, installed or named in PYTHONPATH."""

from taskengine import handler, run


@handler("upper")
def upper(task):
    return task.payload.upper()


run()
