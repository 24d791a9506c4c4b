"""Middleware and spans, with a real node."""

import asyncio
import contextlib
import unittest

from taskengine import Permanent, Program, Snooze
from taskengine.testing import Engine

from .node import PROGRAM

try:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
except ImportError:
    TracerProvider = None


@unittest.skipUnless(PROGRAM, "TASKENGINE_PROGRAM does not name the program of a node")
class Surrounded(unittest.TestCase):
    def setUp(self):
        self.engine = Engine(types={"plain": {"retry": {"max": 1}}, "later": {"retry": {"max": 1}}, "batch": None})
        self.addCleanup(self.engine.close)

    def test_calls_are_made_in_what_surrounds_them(self):
        program, said = Program(), []

        @contextlib.contextmanager
        def note(tasks):
            said.append("begin " + ",".join(task.type for task in tasks))
            try:
                yield
            except ValueError as e:
                said.append("failed " + str(e))
                raise
            said.append("end")

        @contextlib.contextmanager
        def swallow(tasks):
            with contextlib.suppress(KeyError):
                yield

        program.around(note)
        program.around(swallow)

        @program.handler("plain")
        def plain(task):
            if task.text() == "fail":
                raise ValueError("no")
            raise KeyError

        @program.handler("later")
        async def later(task):
            await asyncio.sleep(0)
            raise ValueError("not now")

        @program.handler("batch", batch=2)
        def batch(tasks):
            return [task.payload for task in tasks]

        self.engine.serve(program)
        for task_type, payload in (("plain", b"fail"), ("plain", b"x"), ("later", b"x"), ("batch", b"x")):
            self.engine.client.submit(task_type, payload)
            self.engine.advance()
        self.assertEqual(
            said,
            ["begin plain", "failed no", "begin plain", "end", "begin later", "failed not now", "begin batch", "end"],
        )
        self.assertEqual([t.state for t in self.engine.tasks()], ["error", "done", "error", "done"])


@unittest.skipUnless(PROGRAM and TracerProvider, "there is no node, or no opentelemetry-sdk")
class Traced(unittest.TestCase):
    def setUp(self):
        from taskengine.tracing import Tracer

        self.exported = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exported))
        self.tracer = Tracer(self.provider)
        self.engine = Engine(types={"plain": {"retry": {"max": 1}}, "later": None, "batch": None})
        self.addCleanup(self.engine.close)
        self.program = Program()
        self.program.around(self.tracer.around)

    def spans(self):
        return {span.name: span for span in self.exported.get_finished_spans()}

    def test_a_request_its_tasks_and_what_these_add_are_one_trace(self):
        from taskengine.client import Client

        with Client(self.engine.address, decorate=self.tracer.decorate) as client:

            @self.program.handler("plain")
            def plain(task):
                client.submit("later", b"x")

            @self.program.handler("later")
            async def later(task):
                with self.provider.get_tracer("own").start_as_current_span("own"):
                    await asyncio.sleep(0)

            self.engine.serve(self.program)
            with self.provider.get_tracer("shop").start_as_current_span("request"):
                client.submit("plain", b"x")
            self.engine.advance()
        spans = self.spans()
        self.assertEqual(set(spans), {"request", "handle plain", "handle later", "own"})
        parents = {name: span.parent and span.parent.span_id for name, span in spans.items()}
        ids = {name: span.context.span_id for name, span in spans.items()}
        self.assertEqual(
            parents,
            {
                "request": None,
                "handle plain": ids["request"],
                "handle later": ids["handle plain"],
                "own": ids["handle later"],
            },
        )
        self.assertEqual(len({span.context.trace_id for span in spans.values()}), 1)
        plain_span = spans["handle plain"]
        self.assertEqual(plain_span.attributes["messaging.destination.name"], "plain")
        self.assertEqual(plain_span.attributes["taskengine.attempt"], 1)
        self.assertEqual(plain_span.attributes["messaging.message.id"], str(self.engine.only("plain").id))
        self.assertEqual(plain_span.attributes["taskengine.outcome"], "completed")

    def test_errors_and_other_ends(self):
        raises = {b"a": ValueError("no"), b"b": Permanent("never", error_class="funds"), b"c": Snooze(60)}

        @self.program.handler("plain")
        def plain(task):
            raise raises[task.payload]

        self.engine.serve(self.program)
        for payload in raises:
            self.engine.client.submit("plain", payload)
            self.engine.advance()
        got = [
            (
                s.attributes["taskengine.outcome"],
                s.attributes.get("error.type"),
                s.status.status_code.name,
                len(s.events),
            )
            for s in self.exported.get_finished_spans()
        ]
        want = [("errored", "ValueError", "ERROR", 1), ("errored", "funds", "ERROR", 1), ("snoozed", None, "UNSET", 0)]
        self.assertEqual(got, want)

    def test_a_batch_is_linked_to_its_tasks(self):
        @self.program.handler("batch", batch=2, wait=60)
        def batch(tasks):
            return None

        contexts = ["00-%032x-%016x-01" % (n, n) for n in (1, 2)]
        for traceparent in contexts:
            self.engine.client.submit("batch", b"x", headers={"Traceparent": traceparent})
        self.engine.serve(self.program)
        self.engine.advance()
        span = self.spans()["handle batch"]
        self.assertIsNone(span.parent)
        self.assertEqual([link.context.trace_id for link in span.links], [1, 2])
        self.assertEqual(span.attributes["messaging.batch.message_count"], 2)


if __name__ == "__main__":
    unittest.main()
