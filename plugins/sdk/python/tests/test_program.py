"""Real handler processes, seen by a host of a few lines."""

import os
import queue
import subprocess
import sys
import tempfile
import unittest

import grpc

from taskengine import _wire

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "handlers.py")


def launch(directory, stderr, cookie=_wire.COOKIE_VALUE):
    env = {
        "PLUGIN_UNIX_SOCKET_DIR": directory, "PLUGIN_PROTOCOL_VERSIONS": "1",
        _wire.COOKIE_KEY: cookie, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    return subprocess.Popen([sys.executable, PROGRAM], env=env, stdout=subprocess.PIPE, stderr=stderr)


class Host:
    """The other end of the stream."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel("unix:" + address)
        self.out = queue.SimpleQueue()
        work = self.channel.stream_stream("/taskengine.handler.v1.Handler/Work")
        self.stream = work(iter(self.out.get, None), timeout=30)
        self.out.put(b"\x0a\x04\x08\x01\x20\x02")  # welcome: protocol 1, 2 slots
        self.hello = next(self.stream)

    def say(self, frame):
        self.out.put(frame)


class Process(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(self.directory.cleanup)
        self.stderr = tempfile.TemporaryFile()  # a pipe would fill up
        self.addCleanup(self.stderr.close)

    def program(self, **options):
        p = launch(self.directory.name, self.stderr, **options)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def log(self):
        self.stderr.seek(0)
        return self.stderr.read()

    def connected(self):
        p = self.program()
        parts = p.stdout.readline().decode().strip().split("|")
        self.assertEqual(parts[:3] + parts[4:5], ["1", "1", "unix", "grpc"])
        host = Host(parts[3])
        self.addCleanup(host.channel.close)
        return p, host

    def test_started_by_a_person_it_explains_itself(self):
        p = self.program(cookie="")
        out, _ = p.communicate(timeout=20)
        self.assertEqual((p.returncode, out), (1, b""))
        self.assertIn(b"started by taskengine", self.log())

    def test_it_answers_pings_and_refuses_what_it_does_not_serve(self):
        _, host = self.connected()
        self.assertTrue(host.hello.endswith(b"\x10\x02"), "two slots, two credits")
        host.say(b"\x28\x05")
        self.assertEqual(next(host.stream), b"\x20\x05")
        host.say(b"\x12\x05\x08\x09\x22\x01?")
        self.assertIn(b"does not serve", next(host.stream))

    def test_runs_beyond_its_slots_are_refused(self):
        _, host = self.connected()
        host.say(b"".join(b"\x12\x08\x08" + bytes([n]) + b"\x22\x04hang" for n in (1, 2, 3)))
        answer = next(host.stream)
        self.assertIn(b"runs 2 tasks already", answer)
        self.assertIn(b"\x08\x03", answer)

    def test_it_exits_when_the_host_ends_the_stream(self):
        p, host = self.connected()
        host.say(None)
        self.assertEqual(p.wait(timeout=20), 0)

    def test_it_exits_when_the_host_is_gone_though_a_task_hangs(self):
        p, host = self.connected()
        host.say(b"\x12\x08\x08\x01\x22\x04hang")
        host.channel.close()
        self.assertEqual(p.wait(timeout=20), 0)

    def test_print_goes_to_the_log(self):
        p, host = self.connected()
        host.say(b"\x12\x09\x08\x01\x22\x05shout")
        self.assertIn(b"alive", next(host.stream))
        host.say(None)
        out, _ = p.communicate(timeout=20)
        self.assertEqual(out, b"")
        self.assertIn(b"x" * 1000, self.log())


if __name__ == "__main__":
    unittest.main()
