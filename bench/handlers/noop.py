"""The handler program of scenarios with `handler: python`: its tasks do nothing.

It is started with the name of the tasks and the number of their types."""

import sys

from taskengine import handler, run

name, count = sys.argv[1], int(sys.argv[2])
width = len(str(count - 1))


def noop(task):
    return None


for i in range(count):
    handler(name if count == 1 else f"{name}-{i:0{width}d}")(noop)

run()
