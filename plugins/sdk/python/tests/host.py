"""A host of a few lines, for the tests of real handler processes."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import defaultdict

import grpc

from taskengine import _wire

HERE = os.path.dirname(os.path.abspath(__file__))
EVERYTHING = ("after", "check", "checkpoint", "children", "ended", "family", "progress", "rerun", "signals", "wait")
PATIENCE = 120  # seconds in which whatever a test waits for must have happened


def fields(message):
    """A message by the numbers of its fields, each with the list of its values."""
    out = defaultdict(list)
    for number, value in _wire._fields(message):
        out[number].append(value)
    return out


def run(run_id, task_type, payload=b"", time_left=0, checkpoint=b"", woken=None):
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    content = _wire._int(1, run_id) + _wire._bytes(2, bytes(range(16))) + _wire._text(4, task_type)
    content += _wire._bytes(10, text) + _wire._int(12, time_left) + _wire._bytes(13, checkpoint)
    return _wire._message(2, content + (b"" if woken is None else _wire._message(14, woken)))


def cancel(run_id, reason, message=""):
    return _wire._message(3, _wire._int(1, run_id) + _wire._int(2, reason) + _wire._text(3, message))


def drain():
    return _wire._message(4, b"")


class Host:
    """The other end of the stream."""

    def __init__(self, address, slots, features, listen):
        self.channel = grpc.insecure_channel("unix:" + address, [("grpc.max_receive_message_length", -1)])
        self.out = queue.SimpleQueue()
        work = self.channel.stream_stream("/taskengine.handler.v1.Handler/Work")
        self.stream = work(iter(self.out.get, None), timeout=3 * PATIENCE)
        welcome = _wire._int(1, 1) + _wire._int(4, slots) + _wire._int(5, 1000)
        self.say(_wire._message(1, welcome + b"".join(_wire._text(6, f) for f in features)))
        first = fields(next(self.stream))
        self.hello, self.credits = fields(first[1][0]), first[2][0]
        self.changed = threading.Condition()  # guards what follows
        self.heard = defaultdict(list)  # what came, by the number of the frame's field
        self.finishes = {}  # fields by run id
        self.stores = True  # checkpoints are answered
        if listen:
            threading.Thread(target=self._listen, daemon=True).start()

    def say(self, *frame):
        self.out.put(b"".join(frame))

    def stored(self, run_id, number, error=""):
        """Answers a checkpoint."""
        self.say(_wire._message(8, _wire._int(1, run_id) + _wire._int(2, number) + _wire._text(3, error)))

    def end(self):
        self.out.put(None)

    def _listen(self):
        try:
            for frame in self.stream:
                with self.changed:
                    for number, values in fields(frame).items():
                        self.heard[number] += values
                    for f in map(fields, fields(frame)[3]):
                        self.finishes[f[1][0]] = f
                    if self.stores:
                        for k in map(fields, fields(frame)[_wire.CHECKPOINT]):
                            self.stored(k[1][0], k[3][0])
                    self.changed.notify_all()
        except grpc.RpcError:
            pass  # the process has ended

    def wait_for(self, what):
        """Returns what the function returns once that is true."""
        with self.changed:
            if not self.changed.wait_for(what, PATIENCE):
                raise AssertionError("it did not happen; what was heard: %r" % dict(self.heard))
            return what()

    def finish(self, run_id):
        return self.wait_for(lambda: self.finishes.get(run_id))

    def result(self, run_id):
        finish = self.finish(run_id)
        if not finish[2]:
            raise AssertionError("run %d has no result: %r" % (run_id, dict(finish)))
        return finish[2][0].decode()

    def error(self, run_id):
        """The message, class and whether it is permanent."""
        error = fields(self.finish(run_id)[3][0])
        return error[1][0].decode(), (error[2] or [b""])[0].decode(), bool(error[3])


class ProcessTest(unittest.TestCase):
    """Starts handler programs and hosts, and ends them."""

    program = "conformance.py"

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(self.directory.cleanup)
        self.stderr = tempfile.TemporaryFile()  # a pipe would fill up
        self.addCleanup(self.stderr.close)

    def launch(self, *arguments, **env):
        env = {
            "PLUGIN_UNIX_SOCKET_DIR": self.directory.name, "PLUGIN_PROTOCOL_VERSIONS": "1",
            _wire.COOKIE_KEY: _wire.COOKIE_VALUE, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.path.dirname(HERE), **env,
        }  # fmt: skip
        command = [sys.executable, *(arguments or [os.path.join(HERE, self.program)])]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=self.stderr)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def connected(self, *arguments, slots=16, features=EVERYTHING, listen=True):
        process = self.launch(*arguments)
        parts = process.stdout.readline().decode().strip().split("|")
        self.assertEqual(parts[:3] + parts[4:], ["1", "1", "unix", "grpc", ""], self.log())
        host = Host(parts[3], slots, features, listen)
        self.addCleanup(host.channel.close)
        return process, host

    def wait_for_log(self, words):
        end = time.monotonic() + PATIENCE
        while words not in self.log():
            self.assertLess(time.monotonic(), end, "%r is not in the log %r" % (words, self.log()))
            time.sleep(0.005)

    def log(self):
        self.stderr.seek(0)
        return self.stderr.read()
