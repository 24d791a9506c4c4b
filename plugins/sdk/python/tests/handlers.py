"""The program that the Go tests of the host run."""

import os
import sys
import threading
import time
from datetime import datetime, timezone

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from taskengine import Again, Ended, Permanent, RetryIn, Snooze, handler, run  # noqa: E402


@handler("noop")
def noop(task):
    return None


@handler("upper")
def upper(task):
    return task.payload.upper()


@handler("mirror")
def mirror(task):
    return {
        "id": task.id, "version": task.version, "type": task.type, "attempt": task.attempt,
        "crashes": task.crashes, "priority": task.priority, "key": task.key, "ordering_key": task.ordering_key,
        "payload": task.json(), "headers": task.headers, "deadline": task.deadline,
    }  # fmt: skip


@handler("error")
def error(task):
    kind = task.payload.decode()
    if kind == "permanent":
        raise Permanent("no money")
    if kind == "retry in":
        raise RetryIn(90, "no money")
    if kind == "class":
        raise Permanent("no money", error_class="funds")
    if kind == "snooze":
        raise Snooze(3600)
    if kind == "again":
        raise Again(datetime.fromtimestamp(2e9, timezone.utc), "so far")
    if kind == "again with":
        at = datetime.fromtimestamp(2e9, timezone.utc)
        raise Again(at, "so far", payload=b"p\xff", checkpoint=b"")
    if kind == "ended":
        raise Ended
    if kind == "exit":
        sys.exit("as asked")
    if kind == "bad json":
        return task.json()
    if kind == "bad text":
        raise ValueError("no \udcff money")
    raise ValueError("no money")


@handler("wait")
def wait(task):
    while True:
        time.sleep(0.005)
        task.check()


@handler("hang")
def hang(task):
    if task.payload:
        open(task.payload.decode(), "x").close()
    while True:
        time.sleep(1)


@handler("say")
def say(task):
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    while not os.path.exists(task.payload.decode()):
        time.sleep(0.005)
        task.check()


@handler("die")
def die(task):
    print("farewell", flush=True)
    os._exit(9)


@handler("shout")
def shout(task):
    print("x" * (240 << 10))
    sys.stdout.flush()
    os.write(1, b"\x00\xfe{" * 100000)
    print('{"@message": 7}', file=sys.stderr)
    return "alive"


@handler("big")
def big(task):
    return bytes(int(task.payload))


_now = _most = 0
_lock = threading.Lock()


@handler("most")
def most(task):
    global _now, _most
    with _lock:
        _now += 1
        _most = max(_most, _now)
    time.sleep(0.002)
    with _lock:
        _now -= 1
        return _most


run(version="v7")
