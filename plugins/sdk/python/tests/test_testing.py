"""The test kit, with a real node."""

import os
import tempfile
import threading
import unittest
from datetime import datetime, timedelta, timezone
from unittest import mock

from taskengine import Again, Program
from taskengine.testing import Engine

from .node import PROGRAM

NEW_YEAR = datetime(2030, 1, 1, tzinfo=timezone.utc)


@unittest.skipUnless(PROGRAM, "TASKENGINE_PROGRAM does not name the program of a node")
class Testing(unittest.TestCase):
    def engine(self, **options):
        engine = Engine(now=NEW_YEAR, **options)
        self.addCleanup(engine.close)
        return engine

    def test_what_is_due_is_done_at_its_time(self):
        engine = self.engine(
            types={"mail": {"retry": {"backoff": {"fixed": ["1h", "2h"], "jitter": 0}, "max": 3}}, "tick": None}
        )
        calls = []

        def mail(task):
            calls.append((task.type, task.attempt, task.json()))
            if task.attempt < 3:
                raise ValueError("no")
            return {"sent": True}

        def tick(task):
            calls.append((task.type, task.attempt, None))
            raise Again(NEW_YEAR + timedelta(hours=len(calls)))

        engine.handle("mail", mail)
        engine.client.submit("mail", {"to": "a"})
        engine.advance()
        self.assertEqual(calls, [("mail", 1, {"to": "a"})])
        self.assertEqual(engine.only("mail").state, "waiting")
        engine.advance("59m")
        self.assertEqual(len(calls), 1)
        engine.advance(timedelta(minutes=1))
        self.assertEqual(len(calls), 2)
        engine.advance("2h")
        task = engine.only("mail")
        self.assertEqual((task.state, task.attempt, task.result), ("done", 3, b'{"sent": true}'))
        self.assertEqual(engine.now, NEW_YEAR + timedelta(hours=3))
        engine.handle("tick", tick)
        engine.client.submit("tick", at=NEW_YEAR + timedelta(hours=3, minutes=30))
        engine.advance("1h")
        self.assertEqual([call[0] for call in calls[3:]], ["tick", "tick"])

    def test_steps_sleep_and_wait_by_the_time_of_the_node(self):
        engine = self.engine(types={"order": None})
        ran = []

        async def order(task):
            await task.step("charge", ran.append, "charge")
            await task.sleep(timedelta(hours=1))
            await task.step("ask", ran.append, "ask")
            woken = await task.wait_for("paid", timeout=timedelta(hours=2))
            return await task.step("ship", lambda: woken.by)

        engine.handle("order", order, version=1)
        engine.client.submit("order")
        engine.advance("59m")
        self.assertEqual(ran, ["charge"])
        engine.advance("1m")
        self.assertEqual(ran, ["charge", "ask"])
        engine.advance("119m")
        self.assertEqual(engine.only("order").state, "waiting")
        engine.advance("1m")
        task = engine.only("order")
        self.assertEqual((ran, task.state, task.result), (["charge", "ask"], "done", b"timeout"))

    def test_types_without_a_handler_keep_their_tasks(self):
        engine = self.engine(types={"mail": None, "page": {}})
        engine.client.submit("mail", 1)
        engine.client.submit("page", 2)
        engine.client.submit("mail", 3)
        self.assertEqual([task.payload for task in engine.tasks("mail")], [b"1", b"3"])
        self.assertEqual([task.state for task in engine.tasks()], ["submitted"] * 3)
        with self.assertRaisesRegex(AssertionError, "2 tasks of the type mail"):
            engine.only("mail")

    def test_a_configuration_has_types_and_schedules(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "taskengine.yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(
                    "storage: {driver: postgres, url: 'postgres://nowhere/'}\n"
                    "handlers: {h: {plugin: [no-such-program]}}\n"
                    "types: {report: {handler: h}}\n"
                    "schedules: {nightly: {cron: '0 3 * * *', type: report}}\n"
                )
            engine = self.engine(config=path)
        program = Program()
        ran = []

        @program.handler("report")
        async def report(task):
            ran.append(task.id)

        engine.serve(program)
        engine.advance("72h")
        self.assertEqual(len(ran), 3)
        self.assertEqual([task.state for task in engine.tasks("report")], ["done"] * 3)

    def test_time_stands_still_while_a_handler_runs(self):
        engine = self.engine(types={"slow": {"timeout": {"run": "1h"}, "retry": {"max": 1}}})
        begun, done = threading.Event(), threading.Event()

        def slow(task):
            begun.set()
            task.cancelled.wait(60)
            done.set()
            task.check()

        engine.handle("slow", slow)
        engine.client.submit("slow")
        self.assertTrue(begun.wait(60))
        with self.assertRaisesRegex(RuntimeError, "1 tasks run"):
            engine.advance("1m", patience=0.05)
        engine.advance("1h", while_running=True)
        self.assertTrue(done.wait(60))
        self.assertEqual(engine.only("slow").state, "error")

    def test_what_cannot_be_is_said(self):
        with self.assertRaisesRegex(ValueError, "either types or config"):
            Engine()
        with self.assertRaisesRegex(RuntimeError, "has ended with"):
            Engine(types={"mail": {"retri": 1}})
        with self.assertRaisesRegex(FileNotFoundError, "not in PATH"):
            with mock.patch.dict(os.environ, {"TASKENGINE_PROGRAM": "", "PATH": ""}):
                Engine(types={})
        engine = self.engine(types={"mail": None})
        with self.assertRaisesRegex(RuntimeError, "no duration"):
            engine.advance("soon")
        with self.assertRaisesRegex(RuntimeError, "no duration"):
            engine.advance("-1s")


if __name__ == "__main__":
    unittest.main()
