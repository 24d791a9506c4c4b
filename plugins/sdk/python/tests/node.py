"""Real nodes for the tests of the client."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

PROGRAM = os.environ.get("TASKENGINE_PROGRAM", "")
PATIENCE = 60  # seconds in which whatever a test waits for must have happened

CONFIG = """
node: {log: {format: json}}
storage: {driver: pebble, path: %s}
api: {listen: "%s"%s}
%s
admin: {listen: "127.0.0.1:0"}
handlers:
  echo: {exec: [cat]}
  fail: {exec: ["false"]}
  talk: {exec: [sh, -c, "echo one >&2; echo two >&2"]}
  twice: {exec: [sh, -c, "echo one >&2; echo two >&2; exit 1"]}
types:
  echo: {handler: echo}
  fail: {handler: fail, retry: {max: 1}}
  full: {handler: echo, max_backlog: 1}
  strict: {handler: echo, unique: {on_conflict: reject}}
  prompt: {handler: echo, max_lateness: 10s}
  limited: {handler: echo, limits: [partner]}
  fetch: {handler: fail}
  talk: {handler: talk}
  twice: {handler: twice, retry: {max: 2}}
  brief: {handler: echo, retention: {done: 0s}, unique: {remember: 1h}}
workflows:
  say: {steps: {say: {type: echo, payload: {$input: ""}}}, output: {$result: say}}
limits:
  partner: {max: 2, per: key}
alerts:
  targets: {hook: {webhook: {url: "http://127.0.0.1:1"}}}
  rules: {late: {when: queue_age, match: never, older_than: 1h}}
kafka: {main: {brokers: ["127.0.0.1:1"]}}
sources:
  orders: {kafka: {topics: [orders]}, type: echo}
  shops:
    type: fetch
    slices: {interval: 1h, start: 2020-01-01T00:00:00Z, retries: 0, max_open: 4, platforms: [north, south]}
"""

# People log in at a provider that does not answer.
LOGIN = """\
ui: {oidc: {issuer: "http://127.0.0.1:1", client_id: te, client_secret: te, grants: {ops: {roles: view}}}}
"""


class Node:
    """A node in a process of its own, with a store that outlives it."""

    def __init__(self, test, address="127.0.0.1:0", is_guarded=False):
        """Its clients need tokens if it is guarded, and token may do everything then."""
        self.address = address
        self.directory = tempfile.mkdtemp(prefix="te")
        test.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        test.addCleanup(self.kill)
        self.process = None
        self.token = self.access = self.login = ""
        if is_guarded:
            tokens = os.path.join(self.directory, "tokens.json")
            create = [PROGRAM, "token", "create", "boss", "--role", "admin", "--file", tokens]
            self.token = subprocess.check_output(create).decode().strip()
            self.access = ", tokens: " + tokens
            self.login = LOGIN
        self.start()

    def start(self):
        """Runs the node, at the address that it had before, and returns when it is ready."""
        config = os.path.join(self.directory, "taskengine.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(CONFIG % (os.path.join(self.directory, "data"), self.address, self.access, self.login))
        log = os.path.join(self.directory, "log")
        with open(log, "wb") as stderr:
            self.process = subprocess.Popen([PROGRAM, "run", "-c", config], stderr=stderr)
        end = time.monotonic() + PATIENCE
        while True:
            with open(log, "rb") as f:
                said = f.read()
            ready = [line for line in said.splitlines() if b'"msg":"ready"' in line]
            if ready and said.endswith(b"\n"):
                self.address = json.loads(ready[0])["api"]
                return
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("the node did not start:\n" + said.decode())
            time.sleep(0.005)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """Has the node end in order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def free_address():
    """An address at which nothing listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % s.getsockname()[1]


@unittest.skipUnless(PROGRAM, "TASKENGINE_PROGRAM does not name the program of a node")
class NodeTest(unittest.TestCase):
    """Tests with a node of their own for each class, with tasks that differ by their keys."""

    @classmethod
    def setUpClass(cls):
        cls.cleanups = unittest.TestCase()
        cls.node = Node(cls.cleanups)

    @classmethod
    def tearDownClass(cls):
        cls.cleanups.doCleanups()


class Lossy:
    """Passes connections on to a node. Of each it passes some bytes of the answers. What the node says
    then is lost, and ends the connection."""

    def __init__(self, test, target, limits):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.limits = iter(limits)  # bytes of answers, of one connection after the other; then none is cut
        self.lost = 0
        self.gate = threading.Event()  # unset: nothing is passed on
        self.gate.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.sockets = []
        test.addCleanup(self.stop)
        threading.Thread(target=self.serve, daemon=True).start()

    def stop(self):
        """Ends all connections, and takes no more."""
        self.gate.set()
        for s in (self.listener, *self.sockets):
            cut(s)
            s.close()

    def stall(self):
        """Has nothing arrive any more. Connections stay open."""
        self.gate.clear()

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            self.sockets += near, far
            threading.Thread(target=self.pass_on, args=(near, far, None), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(far, near, next(self.limits, None)), daemon=True).start()

    def pass_on(self, source, target, limit):
        try:
            while True:
                data = source.recv(65536)
                self.gate.wait()
                if limit is not None and len(data) > limit:
                    self.lost += 1
                    target.sendall(data[:limit])
                    break
                if not data:
                    break
                limit = None if limit is None else limit - len(data)
                target.sendall(data)
        except OSError:
            pass
        cut(source)
        cut(target)


def cut(s):
    try:
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
