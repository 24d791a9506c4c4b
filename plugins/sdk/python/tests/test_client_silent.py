"""Nodes that take requests and do not answer, and other addresses of no use before a healthy one."""

import asyncio
import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
from concurrent import futures

import grpc

from taskengine import client
from taskengine.client import AsyncClient, Client, NewTask

from .node import PATIENCE, Lossy, NodeTest, cut, free_address
from .test_client import Blocking


def on_both(addresses, test, **options):
    """Runs a test, a coroutine that is given a client for coroutines, with either client at the same time."""

    def blocking():
        with Client(addresses(), **options) as c:
            asyncio.run(test(Blocking(c)))

    async def coroutines():
        async with AsyncClient(addresses(), **options) as c:
            await test(c)

    with futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(blocking), pool.submit(lambda: asyncio.run(coroutines()))]:
            done.result()


async def use(c):
    """Makes calls of each kind. Of a call that is made once, it makes another one if the first has failed."""
    await c.count(types=["idle"])
    receipt = await c.submit("idle")
    await c.submit_all([NewTask("idle")])
    try:
        await c.cancel(receipt.id)
    except client.Unavailable:
        await c.cancel(receipt.id)
    await c.wait(receipt.id, timeout=PATIENCE)


@contextlib.contextmanager
def listening(serve):
    """The address of a listener whose connections are given to serve, and ended in the end."""
    listener, taken = socket.create_server(("127.0.0.1", 0)), []

    def accept():
        while True:
            try:
                taken.append(listener.accept()[0])
            except OSError:
                return
            serve(taken[-1])

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield "127.0.0.1:%d" % listener.getsockname()[1]
    finally:
        for s in (listener, *taken):
            cut(s)
            s.close()


class Every(grpc.GenericRpcHandler):
    """Serves all methods in one way."""

    def __init__(self, serve):
        self.serve = serve

    def service(self, details):
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: self.serve(details.method, requests, context)
        )


@contextlib.contextmanager
def serving(serve):
    server = grpc.server(futures.ThreadPoolExecutor(32))
    server.add_generic_rpc_handlers((Every(serve),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield "127.0.0.1:%d" % port
    finally:
        server.stop(None).wait()


class Silent(NodeTest):
    def test_a_healthy_node_is_used_whatever_the_first_one_does(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def unavailable(method, requests, context):
            context.abort(grpc.StatusCode.UNAVAILABLE, "the store is away")

        def never(method, requests, context):
            context.add_callback(over.set)
            over.wait(PATIENCE)
            yield b""

        kinds = {
            "refuses connections": contextlib.nullcontext(free_address()),
            "accepts and says nothing": listening(lambda s: None),
            "ends connections": listening(lambda s: s.close()),
            "is no node": listening(lambda s: s.sendall(b"220 mail ready\r\n")),
            "never answers a request": serving(never),
            "answers that it is not usable": serving(unavailable),
        }
        with contextlib.ExitStack() as stack, futures.ThreadPoolExecutor(len(kinds)) as pool:
            at = {name: stack.enter_context(kind) for name, kind in kinds.items()}
            running = {n: pool.submit(on_both, lambda a=a: [a, self.node.address], use) for n, a in at.items()}
            for name, done in running.items():
                with self.subTest(name):
                    done.result()
            over.set()

    def test_a_node_that_hangs_is_left(self):
        async def cancel(c, **named):
            with self.assertRaises(client.NotFound):
                try:
                    await c.cancel("01a2201c-d38d-75b7-b6fe-91647e560a93", **named)
                except client.Unavailable:
                    await c.cancel("01a2201c-d38d-75b7-b6fe-91647e560a93", **named)

        firsts = {
            "repeated": lambda c, **named: c.count(types=["idle"], **named),
            "submit": lambda c, **named: c.submit("idle", **named),
            "once": cancel,
        }

        def hang(first, timeout):
            wires = []

            def addresses():
                wires.append(Lossy(self, self.node.address, []))
                return [wires[-1].address, self.node.address]

            async def test(c):
                await use(c)
                for wire in wires:
                    wire.stall()
                await first(c, timeout=timeout)
                await use(c)

            async def alone():
                async with AsyncClient(addresses()) as c:
                    await test(c)

            with Client(addresses()) as c:
                asyncio.run(test(Blocking(c)))
            asyncio.run(alone())

        with futures.ThreadPoolExecutor(6) as pool:
            running = {(n, t): pool.submit(hang, f, t) for n, f in firsts.items() for t in (7, 60)}
            for name, done in running.items():
                with self.subTest(name):
                    done.result()

    def test_a_node_is_left_after_a_call_that_ended_at_its_deadline(self):
        wire = Lossy(self, self.node.address, [])
        with Client([wire.address, self.node.address]) as c:
            c.submit("idle")
            wire.stall()
            with self.assertRaises(client.DeadlineExceeded):
                c.count(types=["idle"], timeout=0.01)
            c.count(types=["idle"])

    def test_a_node_at_which_a_call_waits_is_not_left(self):
        used = threading.Event()
        with listening(lambda s: used.set()) as other:

            async def test(c):
                receipt = await c.submit("idle")
                with self.assertRaises(client.DeadlineExceeded):
                    await c.wait(receipt.id, timeout=9)

            on_both(lambda: [self.node.address, other], test)
        self.assertFalse(used.is_set())

    def test_a_submit_that_waits_at_a_slow_node_is_sent_once(self):
        used, sent = threading.Event(), []

        def slow(method, requests, context):
            if method.endswith("/SubmitStream"):
                sent.extend(requests)
            else:
                yield b""

        with listening(lambda s: used.set()) as other, serving(slow) as address:
            with Client([address, other]) as c:
                c.count()  # connects, which takes no part of the nine seconds
                with self.assertRaises(client.DeadlineExceeded):
                    c.submit("idle", timeout=9)
        self.assertFalse(used.is_set())
        self.assertEqual(len(sent), 1)

    def test_no_proxy_is_used(self):
        code = "import sys; from taskengine.client import Client; Client().count(types=['idle'], timeout=60)"
        proxy = "http://" + free_address()
        environment = {k: v for k, v in os.environ.items() if k.lower() not in ("no_proxy", "no_grpc_proxy")}
        environment.update(http_proxy=proxy, https_proxy=proxy, grpc_proxy=proxy, TASKENGINE_ADDRESS=self.node.address)
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=PATIENCE)


class Forked(NodeTest):
    def test_a_client_that_was_used_before_a_fork_says_so(self):
        code = """
import os, sys
from taskengine import client
used, fresh = client.Client(), client.Client()
used.submit("idle")
if os.fork() == 0:
    for call in (lambda: used.submit("idle"), lambda: used.count()):
        try:
            call()
            os._exit(1)
        except client.Closed as e:
            if "fork" not in str(e):
                os._exit(2)
    used.close()
    os._exit(0)
status = os.waitstatus_to_exitcode(os.wait()[1])
used.submit("idle")
sys.exit(status)
"""
        environment = {**os.environ, "TASKENGINE_ADDRESS": "127.0.0.1:1, " + self.node.address}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=PATIENCE)


@unittest.skipUnless(importlib.util.find_spec("gevent"), "gevent is not installed")
class Gevent(NodeTest):
    def test_calls_let_other_greenlets_run(self):
        code = """
from gevent import monkey
monkey.patch_all()
import gevent
from taskengine.client import Client
with Client() as c:
    calls = [gevent.spawn(c.submit, "echo", i) for i in range(4)]
    gevent.joinall(calls)
    waits = [gevent.spawn(c.result, call.get().id) for call in calls]
    gevent.joinall(waits)
    assert [w.get() for w in waits] == [0, 1, 2, 3]
"""
        environment = {**os.environ, "TASKENGINE_ADDRESS": self.node.address}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=PATIENCE)


class Timeouts(unittest.TestCase):
    def test_the_timeout_of_a_wait_bounds_it(self):
        def settled(method, requests, context):
            if method.endswith("/Wait"):
                yield b"\x08\x01"
            elif not method.endswith("/Get"):
                yield b""
            else:
                while context.is_active():
                    time.sleep(0.01)

        with serving(settled) as address, Client(address, timeout=10 * PATIENCE) as c:
            c.count()  # connects, which takes no part of the second
            with self.assertRaises(client.DeadlineExceeded):
                c.wait("01a2201c-d38d-75b7-b6fe-91647e560a93", timeout=1)
