"""Workers, against a node of a few lines."""

import asyncio
import os
import queue
import tempfile
import threading
import time
import unittest
from concurrent import futures
from unittest import mock

import grpc

from taskengine import Connection, NotStored, Program, _dial, _lease, _wire
from taskengine._connection import from_environment

from .host import fields

PATIENCE = 60  # seconds in which whatever a test waits for must have happened


def until(holds):
    """Waits until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("it does not happen")
        time.sleep(0.001)


def text(message, number):
    return message[number][0].decode() if message[number] else ""


class Line:
    """A stream of a worker, as a node has it."""

    def __init__(self, requests):
        self.out = queue.SimpleQueue()
        self.offer = self.hello = None
        self.order = []  # "checkpoint" and "finish", with run ids
        self.credits = 0
        self.pongs = []
        self.refused = []  # why runs were handed back
        self.earlier = []  # answers to attempts of sessions before
        self.said = []  # the numbers of the fields of notes
        self.is_leaving = False
        threading.Thread(target=self._listen, args=(requests,), daemon=True).start()

    def _listen(self, requests):
        try:
            for data in requests:
                frame = fields(data)
                for checkpoint in map(fields, frame[_wire.CHECKPOINT]):
                    self.order.append(("checkpoint", checkpoint[1][0]))
                for finish in map(fields, frame[3]):
                    if finish[6]:
                        self.refused.append(fields(finish[6][0])[1][0].decode())
                    if finish[9]:
                        attempt = fields(finish[9][0])
                        of = attempt[1][0], attempt[2][0], attempt[3][0]
                        self.earlier.append((finish[1], *of, bool(finish[3])))
                    else:
                        self.order.append(("finish", finish[1][0]))
                self.said += [n for n in (_wire.PROGRESS, _wire.CHECKPOINT) for _ in frame[n]]
                self.credits += sum(frame[2])
                self.pongs += frame[4]
                self.is_leaving = self.is_leaving or bool(frame[9])
                if frame[1]:
                    self.hello, self.offer = fields(frame[1][0]), fields(frame[8][0])
        except grpc.RpcError:
            pass

    @property
    def finishes(self):
        return [run_id for what, run_id in self.order if what == "finish"]

    @property
    def held(self):
        """The runs of the offer."""
        return _wire._numbers(self.offer[4][0]) if self.offer[4] else []

    def welcome(
        self,
        protocol=1,
        slots=2,
        features=(),
        resumed=0,
        received=0,
        runs=(),
        liveness=0,
        reconnect=60_000_000,
        lease=0,
    ):
        w = _wire._int(1, protocol) + _wire._text(2, "node 1") + _wire._text(3, "h") + _wire._int(4, slots)
        w += b"".join(_wire._text(6, f) for f in features) + _wire._int(8, resumed) + _wire._int(9, received)
        w += b"".join(_wire._int(10, run_id) for run_id in runs) + _wire._int(11, liveness) + _wire._int(12, reconnect)
        w += _wire._int(13, lease)
        self.out.put(_wire._message(1, w))

    def run(self, *run_ids):
        for run_id in run_ids:
            run = _wire._int(1, run_id) + _wire._bytes(2, bytes(16)) + _wire._int(3, 10 + run_id) + _wire._text(4, "x")
            self.out.put(_wire._message(2, run))

    def ping(self, number, heard=0):
        self.out.put(_wire._int(5, number) + _wire._int(7, heard))

    def received(self, finishes):
        self.out.put(_wire._int(6, finishes))

    def end(self, error=None):
        """Ends the stream in order, or with an error."""
        self.out.put(ConnectionError(error) if error else None)


class Node:
    """A node that says what a test has it say."""

    def __init__(self, case):
        self.lines = []
        folder = tempfile.TemporaryDirectory()
        case.addCleanup(folder.cleanup)
        self.address = "unix:" + os.path.join(folder.name, "s")
        server = grpc.server(futures.ThreadPoolExecutor(8))
        methods = {"Work": grpc.stream_stream_rpc_method_handler(self._work)}
        service = grpc.method_handlers_generic_handler("taskengine.handler.v1.Workers", methods)
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(self.address)
        server.start()
        case.addCleanup(lambda: server.stop(None).wait())

    def _work(self, requests, context):
        line = Line(requests)
        self.lines.append(line)
        while True:
            item = line.out.get()
            if item is None:
                return
            if isinstance(item, Exception):
                context.abort(grpc.StatusCode.UNAVAILABLE, str(item))
            yield item

    def line(self, n):
        """The n-th stream, once its offer has come."""
        until(lambda: len(self.lines) > n and self.lines[n].offer is not None)
        return self.lines[n]


class Gate:
    """A handler whose tasks return when the test says so."""

    def __init__(self):
        self.tasks = []
        self.heeding = []  # tasks that end with an error if they are cancelled
        self._lock = threading.Lock()
        self._events = []

    def __call__(self, task):
        event = threading.Event()
        with self._lock:
            self._events.append(event)
            self.tasks.append(task)
        event.wait(PATIENCE)
        if task in self.heeding:
            task.check()

    def open(self, n):
        self._events[n].set()


class Worker:
    """A worker of nodes, on a loop of its own until the test ends."""

    def __init__(self, case, node, function, slots=2, batch=None, **options):
        self.said = []
        program = Program()
        program.handler("x", batch=batch)(function)
        connection = Connection(**{"addresses": [node.address], **options})
        patch = mock.patch.object(_dial, "_log", self.said.append)
        patch.start()
        case.addCleanup(patch.stop)
        started = threading.Event()

        async def run():
            self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
            started.set()
            await program.work(connection, version="1.2", slots=slots, ending=self._ending)

        self._thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        self._thread.start()
        started.wait()
        case.addCleanup(self._end, node)

    def leave(self):
        self._loop.call_soon_threadsafe(self._ending.set)

    def join(self):
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise AssertionError("the worker does not end")

    def _end(self, node):
        if self._thread.is_alive():
            self.leave()
            for line in node.lines:
                line.end()
            self.join()


class Workers(unittest.TestCase):
    def test_a_worker_offers_what_it_is_and_leaves_when_it_is_asked_to(self):
        node = Node(self)
        worker = Worker(self, node, lambda task: task.type, handler="h", labels={"region": "eu"})
        line = node.line(0)
        hello, offer = line.hello, line.offer
        self.assertEqual((text(hello, 2), hello[5], hello[6], text(hello, 4)), ("python", [b"x"], [2], "1.2"))
        self.assertEqual((text(offer, 1), len(offer[3][0]), line.held, line.credits), ("h", 16, [], 0))
        self.assertEqual(_wire._entry(offer[2][0]), ("region", "eu"))
        self.assertTrue(text(offer, 5).endswith(":%d" % os.getpid()))
        line.welcome()
        until(lambda: line.credits == 2)
        line.run(1)
        until(lambda: line.finishes == [1])
        self.assertEqual(line.credits, 3)
        self.assertRegex(worker.said[0], "connected to the node node 1 at unix:.* as handler h with 2 slots")
        worker.leave()
        until(lambda: line.is_leaving)
        line.end()
        worker.join()

    def test_what_may_not_have_arrived_is_sent_again_and_what_runs_goes_on(self):
        node, gate = Node(self), Gate()
        Worker(self, node, gate)
        first = node.line(0)
        first.welcome(features=["checkpoint"])
        first.run(1, 2)
        until(lambda: len(gate.tasks) == 2)
        runs = [task._run.run_id for task in gate.tasks]
        gate.tasks[1]._save(b"page 7")
        gate.open(0)
        until(lambda: first.finishes == [runs[0]] and first.said == [_wire.CHECKPOINT])
        first.run(3)
        until(lambda: len(gate.tasks) == 3)
        first.received(1)
        gate.open(2)
        until(lambda: first.finishes == [runs[0], 3])
        first.end("the network is gone")
        second = node.line(1)
        self.assertEqual(second.offer[3], first.offer[3])
        self.assertEqual(sorted(second.held), sorted([runs[1], 3]))
        second.welcome(features=["checkpoint"], resumed=1, received=1, runs=[runs[1], 3])
        until(lambda: second.credits == 1)
        self.assertEqual(second.order, [("checkpoint", runs[1]), ("finish", 3)])
        gate.open(1)
        until(lambda: second.finishes == [3, runs[1]])
        self.assertEqual(gate.tasks[1].cancel_reason, "")

    def test_the_checkpoint_of_an_answer_is_sent_before_it_if_neither_has_arrived(self):
        node = Node(self)
        Worker(self, node, lambda task: task._save(b"done") and None)
        first = node.line(0)
        first.welcome(features=["checkpoint"])
        first.run(1)
        until(lambda: first.finishes == [1])
        first.end("the network is gone")
        second = node.line(1)
        second.welcome(features=["checkpoint"], resumed=1, runs=[1])
        until(lambda: second.finishes == [1])
        self.assertEqual(second.order, [("checkpoint", 1), ("finish", 1)])

    def test_what_runs_elsewhere_is_stopped_and_says_nothing(self):
        for resumed in (1, 0):
            with self.subTest(resumed=resumed):
                self.cut_off(resumed)

    def cut_off(self, resumed):
        """The node keeps one of two runs of a session that it knows, and no run of another."""
        node, gate = Node(self), Gate()
        worker = Worker(self, node, gate)
        first = node.line(0)
        first.welcome()
        first.run(1, 2)
        until(lambda: len(gate.tasks) == 2)
        stray, other = gate.tasks
        first.end("the network is gone")
        second = node.line(1)
        kept = [other._run.run_id] if resumed else []
        second.welcome(features=["checkpoint", "progress"], resumed=resumed, runs=kept)
        until(lambda: stray.cancel_reason)
        self.assertIn("the task runs elsewhere", stray.cancel_reason)
        with self.assertRaisesRegex(NotStored, "too late"):
            stray.save_checkpoint("x")
        stray.progress(1)
        self.assertEqual(second.credits, 0)  # its handler has not returned
        gate.open(0)
        until(lambda: second.credits == 1)
        gate.open(1)
        until(lambda: second.credits == 2)
        self.assertEqual((second.finishes, second.said), (kept, []))
        worker.leave()
        until(lambda: second.is_leaving)
        second.end()
        worker.join()

    def test_it_begins_anew_when_the_node_has_given_its_runs_to_others(self):
        node, gate = Node(self), Gate()
        Worker(self, node, gate)
        first = node.line(0)
        first.welcome(reconnect=1)
        first.run(1)
        until(lambda: len(gate.tasks) == 1)
        first.end("the network is gone")
        second = node.line(1)
        self.assertNotEqual(second.offer[3], first.offer[3])
        self.assertEqual(second.held, [])
        until(lambda: gate.tasks[0].cancel_reason)
        gate.open(0)
        second.welcome()
        until(lambda: second.credits == 2)
        self.assertEqual(second.finishes, [])

    def test_answers_are_given_to_the_node_that_comes_after_theirs(self):
        for reconnect in (60_000_000, 1):  # the answers of a session, or of one that is over
            with self.subTest(reconnect=reconnect):
                self.outlive(reconnect)

    def outlive(self, reconnect):
        node, gate = Node(self), Gate()
        worker = Worker(self, node, gate, slots=3)
        first = node.line(0)
        first.welcome(slots=3, reconnect=reconnect)
        first.run(1, 2, 3)
        until(lambda: len(gate.tasks) == 3)
        answered, late, cancelled = gate.tasks
        gate.open(0)
        until(lambda: first.finishes)
        first.end("the node has died")
        second = node.line(1)
        self.assertEqual(sorted(second.held), [] if reconnect == 1 else [1, 2, 3])
        second.welcome(slots=3, features=["earlier"])
        until(lambda: second.earlier and late.cancel_reason)
        gate.open(1)  # its handler does not care
        until(lambda: len(second.earlier) == 2)
        gate.heeding.append(cancelled)
        gate.open(2)
        until(lambda: second.credits == 3)
        attempts = [([], bytes(16), 10 + t._run.run_id, b"x", False) for t in (answered, late)]
        self.assertEqual((second.earlier, second.finishes), (attempts, []))
        second.end("this one, too")
        third = node.line(2)
        self.assertEqual(third.held, [])
        third.welcome(slots=3, resumed=1, received=1)  # it has not got the other one
        until(lambda: third.credits == 3)
        self.assertEqual(third.earlier, attempts[1:])
        third.received(2)
        third.end("and this one")
        fourth = node.line(3)
        fourth.welcome(slots=3, features=["earlier"])
        until(lambda: fourth.credits == 3)
        self.assertEqual(fourth.earlier, [])
        worker.leave()
        until(lambda: fourth.is_leaving)
        fourth.end()
        worker.join()

    def test_it_connects_again_to_a_node_that_is_silent_or_speaks_another_protocol(self):
        node = Node(self)
        worker = Worker(self, node, lambda task: None)
        node.line(0).welcome(protocol=9)
        node.line(1).welcome(slots=0)
        node.line(2).welcome(liveness=200_000)
        node.line(3)
        self.assertRegex("\n".join(worker.said), "(?s)version 9 of the protocol.*no slot.*silent for 0.2 s")

    def test_one_that_was_not_heard_begins_nothing(self):
        begun = []

        def one(task):
            begun.append(task)

        async def coroutine(task):
            begun.append(task)

        def many(tasks):
            begun.extend(tasks)

        async def many_as_coroutine(tasks):
            begun.extend(tasks)

        for function, batch in ((one, {}), (coroutine, {}), (many, {"batch": 2}), (many_as_coroutine, {"batch": 2})):
            with self.subTest(function.__name__):
                begun.clear()
                now = _lease.since_boot()
                with mock.patch.object(_lease, "since_boot", lambda: now):
                    node = Node(self)
                    worker = Worker(self, node, function, **batch)
                    line = node.line(0)
                    line.welcome(lease=4_000_000)
                    line.ping(1)
                    line.ping(2, heard=1)
                    line.run(1)
                    until(lambda: len(begun) == 1 and len(line.finishes) == 1)
                    now += 4.001  # it stood still
                    line.ping(3)
                    line.run(2, 3)
                    line.ping(4)
                    until(lambda: len(line.refused) == 2)
                    self.assertIn("may not have heard this worker for 4.001 s", line.refused[0])
                    self.assertEqual(len(begun), 1)
                    line.ping(5, heard=4)
                    line.run(4)
                    until(lambda: len(begun) == 2)
                    worker.leave()

    def test_what_is_heard_and_not_answered_proves_nothing(self):
        begun = []
        now = _lease.since_boot()
        with mock.patch.object(_lease, "since_boot", lambda: now):
            node = Node(self)
            worker = Worker(self, node, begun.append)
            line = node.line(0)
            line.welcome(lease=4_000_000)
            for n in range(1, 6):
                line.ping(n)
                until(lambda n=n: n in line.pongs)
                now += 1
            line.run(1)
            until(lambda: len(line.refused) == 1)
            self.assertEqual(begun, [])
            worker.leave()

    def test_it_answers_pings_and_ends_when_the_node_drains_it(self):
        node = Node(self)
        worker = Worker(self, node, lambda task: None)
        line = node.line(0)
        line.welcome()
        line.out.put(_wire._int(5, 7))
        until(lambda: line.pongs == [7])
        line.out.put(_wire._message(4, b""))
        line.end()
        worker.join()

    def test_one_that_waits_for_a_node_ends_when_it_is_asked_to(self):
        node = Node(self)
        worker = Worker(self, node, lambda task: None, addresses=[node.address + ".none"])
        until(lambda: worker.said)
        worker.leave()
        worker.join()
        self.assertIn("no connection to the node at unix:", worker.said[0])

    def test_coroutines_are_cancelled_whose_tasks_run_elsewhere(self):
        node, begun, cancelled = Node(self), threading.Event(), threading.Event()

        async def wait(task):
            begun.set()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        Worker(self, node, wait)
        first = node.line(0)
        first.welcome(reconnect=1)
        first.run(1)
        self.assertTrue(begun.wait(PATIENCE))
        first.end("the network is gone")
        self.assertTrue(cancelled.wait(PATIENCE))
        second = node.line(1)
        second.welcome()
        until(lambda: second.credits == 2)
        self.assertEqual(second.finishes, [])

    def test_the_slots_are_divided_among_nodes(self):
        nodes = [Node(self), Node(self)]
        worker = Worker(self, nodes[0], lambda task: None, slots=5, addresses=[n.address for n in nodes])
        lines = [node.line(0) for node in nodes]
        self.assertEqual([line.hello[6] for line in lines], [[3], [2]])
        for line in lines:
            line.welcome()
        until(lambda: all(line.credits for line in lines))
        worker.leave()
        until(lambda: all(line.is_leaving for line in lines))
        for line in lines:
            line.end()
        worker.join()


class Connections(unittest.TestCase):
    def test_they_come_from_the_environment(self):
        c = from_environment(
            {
                "TASKENGINE_ADDRESS": "a:1, unix:/s, http://b:2,",
                "TASKENGINE_WORKER_HANDLER": "h",
                "TASKENGINE_WORKER_LABELS": "region=eu, disk = fast,",
                "TASKENGINE_TOKEN": "te_x",
                "TASKENGINE_CA": "/no/such/file",
            }
        )
        self.assertEqual((c.addresses, c.handler, c.token), (["a:1", "unix:/s", "http://b:2"], "h", "te_x"))
        self.assertEqual(
            (c.labels, c.problem()),
            (
                {"region": "eu", "disk": "fast"},
                "'http://b:2' is a URL of http, and there are options of TLS; write https",
            ),
        )
        with self.assertRaisesRegex(ValueError, "TASKENGINE_CA: .*/no/such/file"):
            c.ca()
        with self.assertRaisesRegex(ValueError, "'eu': give NAME=value"):
            from_environment({"TASKENGINE_WORKER_LABELS": "eu"})

    def test_what_cannot_be_is_refused(self):
        program = Program()
        program.handler("x")(lambda task: None)
        for options, says in (
            ({"addresses": []}, "give the addresses"),
            ({"addresses": "a:1"}, "as a list"),
            ({"addresses": [""]}, "'' is no address"),
            ({"addresses": ["a:1", "ftp://a"]}, "'ftp://a' is no URL"),
            ({"addresses": ["http://a/b"]}, "'http://a/b' is no URL"),
            ({"addresses": ["http://a"], "ca": b"c"}, "write https"),
            ({"addresses": ["unix:"]}, "has no path"),
            ({"addresses": [7]}, "an address is a string and not 7"),
            ({"addresses": ["a:1"], "key": b"k"}, "give both"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, says):
                asyncio.run(program.work(Connection(**options)))
        with self.assertRaisesRegex(ValueError, "slots is how many"):
            asyncio.run(program.work(Connection(["a:1"]), slots=0))
        with self.assertRaisesRegex(ValueError, "no handler"):
            asyncio.run(Program().work(Connection(["a:1"])))


if __name__ == "__main__":
    unittest.main()
