"""A handler program: its handlers, and its life from the handshake to the exit."""

import inspect
import os
import sys
import threading
from concurrent import futures

from . import _wire, _work

_DEFAULT_SLOTS = 16
_FIRST_CONTACT = 60  # seconds until a host must have connected
_LAST_MOMENTS = 2  # seconds for handlers to return once the host is gone


class Program:
    """Handlers by the task types they serve. Most programs use the module's own one."""

    def __init__(self):
        self.handlers = {}

    def handler(self, task_type):
        """Decorates the function that handles the tasks of a type."""
        if not isinstance(task_type, str) or not task_type:
            raise TypeError('name the task type: @handler("upper")')

        def register(function):
            if inspect.iscoroutinefunction(function):
                raise TypeError("the handler of %r is a coroutine: handlers are plain functions" % task_type)
            if task_type in self.handlers:
                raise ValueError("there are two handlers of %r" % task_type)
            self.handlers[task_type] = function
            return function

        return register

    def run(self, *, version="", slots=None):
        """Serves the handlers until the host ends the process or goes away.

        version is the program's own, for people. slots is how many tasks to run at
        once unless the host says so.
        """
        problem = self._problem()
        if problem:
            sys.stderr.write("taskengine: %s\n" % problem)
            sys.exit(1)
        import grpc  # the slowest import by far, and useless without a host

        worker = _work.Worker(dict(self.handlers), version, slots or _DEFAULT_SLOTS)
        server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=4),
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ],
        )
        methods = {"Work": grpc.stream_stream_rpc_method_handler(worker.work)}
        service = grpc.method_handlers_generic_handler("taskengine.handler.v1.Handler", methods)
        server.add_generic_rpc_handlers((service,))
        path = os.path.join(os.environ.get("PLUGIN_UNIX_SOCKET_DIR", "/tmp"), "s%d" % os.getpid())
        server.add_insecure_port("unix:" + path)
        server.start()
        sys.stdout.flush()
        os.write(1, ("1|%d|unix|%s|grpc|\n" % (_wire.PROTOCOL, path)).encode())
        os.dup2(2, 1)  # print() goes to the log from here on, not into the handshake

        if not worker.met.wait(_FIRST_CONTACT):
            sys.stderr.write("taskengine: no host connected within %d s\n" % _FIRST_CONTACT)
            os._exit(1)
        worker.over.wait()
        _exit_soon()
        server.stop(None)

    def _problem(self):
        if not self.handlers:
            return 'the program has no handler: decorate one with @handler("type") before run()'
        if os.environ.get(_wire.COOKIE_KEY) != _wire.COOKIE_VALUE:
            return (
                "this program handles tasks and is started by taskengine: "
                "name it as a handler's command in the configuration"
            )
        theirs = os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "")
        if str(_wire.PROTOCOL) not in theirs.split(","):
            return "it speaks version %d of the handler protocol, the host %r" % (_wire.PROTOCOL, theirs)
        return None


def _exit_soon():
    """Ends the process even if something keeps the interpreter from it."""

    def end():
        sys.stderr.flush()
        os._exit(0)

    timer = threading.Timer(_LAST_MOMENTS, end)
    timer.daemon = True
    timer.start()
