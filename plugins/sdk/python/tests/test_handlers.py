"""What handlers may do, seen by a host."""

import unittest

from taskengine import _wire
from tests import host as h

DEADLINE, CANCELLED = 1, 2


class Calls(h.ProcessTest):
    def test_functions_and_coroutines_answer(self):
        _, host = self.connected()
        host.say(h.run(1, "json", {"a": 1, "b": 2}), h.run(2, "echo", b"\xff"), h.run(3, "snooze", {"delay_ms": 5}))
        host.say(
            h.run(4, "again", {"at_ms": 7, "result": "so far"}), h.run(5, "throw", b"no"), h.run(6, "big", b"1001")
        )
        self.assertEqual(host.result(1), '{"sum": 3}')
        self.assertEqual(host.finish(2)[2], [b"\xff"])
        self.assertEqual(h.fields(host.finish(3)[4][0])[1], [5000])
        self.assertEqual(h.fields(host.finish(4)[5][0]), {1: [7000], 2: [b"so far"]})
        self.assertTrue(host.error(5)[0].startswith("ValueError: no\n"))
        self.assertEqual(host.error(5)[1:], ("ValueError", False))
        self.assertEqual(host.error(6)[1:], ("result_too_large", True))

    def test_as_many_coroutines_as_slots_run_at_once(self):
        program = """if True:
            import asyncio
            from taskengine import handler, run

            everybody = []

            @handler("meet")
            async def meet(task):
                everybody.append(task)
                while len(everybody) < 200:
                    await asyncio.sleep(0.001)

            run(slots=200)
        """
        _, host = self.connected("-c", program, slots=0)
        self.assertEqual(host.credits, 200)
        host.say(*(h.run(n, "meet") for n in range(1, 201)))
        host.wait_for(lambda: len(host.finishes) == 200)

    def test_as_many_functions_as_slots_run_at_once(self):
        program = """if True:
            import threading
            from taskengine import handler, run

            @handler("meet")
            def meet(task, barrier=threading.Barrier(100)):
                barrier.wait(120)

            run(slots=100)
        """
        _, host = self.connected("-c", program, slots=0)
        for _ in range(3):
            host.finishes.clear()
            host.say(*(h.run(n, "meet") for n in range(1, 101)))
            host.wait_for(lambda: len(host.finishes) == 100)
            self.assertEqual([host.error(n) for n, f in host.finishes.items() if not f[2]], [])

    def test_pings_are_answered_while_a_coroutine_holds_the_loop(self):
        _, host = self.connected("-c", """if True:
            import time, taskengine
            @taskengine.handler("hold")
            async def hold(task):
                time.sleep(60)
            taskengine.run()
        """)  # fmt: skip
        host.say(h.run(1, "hold"), b"\x28\x05")
        host.wait_for(lambda: host.heard[4] == [5])

    def test_system_exit_ends_its_task_only(self):
        _, host = self.connected("-c", """if True:
            import sys
            from taskengine import handler, run
            handler("function")(lambda task: sys.exit("as asked"))
            @handler("coroutine")
            async def coroutine(task):
                sys.exit("as asked")
            run()
        """)  # fmt: skip
        host.say(h.run(1, "function"), h.run(2, "coroutine"))
        self.assertEqual(host.error(1)[1:], ("SystemExit", False))
        self.assertEqual(host.error(2)[1:], ("SystemExit", False))


class Cancellation(h.ProcessTest):
    def test_functions_and_coroutines_end_with_the_reason(self):
        _, host = self.connected()
        host.say(h.run(1, "wait"), h.run(2, "wait on a thread"), h.run(3, "wait"))
        host.say(h.cancel(1, CANCELLED, "not needed"), h.cancel(2, CANCELLED, "nor this"), h.cancel(3, DEADLINE))
        self.assertEqual(host.error(1), ("cancelled: not needed", "cancelled", False))
        self.assertEqual(host.error(2), ("cancelled: nor this", "cancelled", False))
        self.assertEqual(host.error(3), ("cancelled: the deadline is over", "cancelled", False))

    def test_a_cancel_together_with_its_run_is_no_loss(self):
        _, host = self.connected(slots=50)
        for n in range(1, 51):
            host.say(h.run(n, "wait"), h.cancel(n, CANCELLED, "at once"))
        host.wait_for(lambda: len(host.finishes) == 50)
        self.assertEqual({host.error(n)[0] for n in host.finishes}, {"cancelled: at once"})

    def test_one_for_a_run_that_is_over_is_ignored(self):
        _, host = self.connected()
        host.say(h.run(1, "noop"))
        self.assertEqual(host.result(1), "")
        host.say(h.cancel(1, CANCELLED), h.cancel(7, CANCELLED), h.run(2, "noop"))
        self.assertEqual(host.result(2), "")

    def test_a_coroutine_may_look_at_the_reason_and_answer_all_the_same(self):
        _, host = self.connected("-c", """if True:
            import asyncio
            from taskengine import handler, run
            @handler("rescue")
            async def rescue(task):
                task.progress(1)
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    return "%s: %s" % (task.cancellation.reason, task.cancellation)
            run()
        """)  # fmt: skip
        host.say(h.run(1, "rescue"))
        host.wait_for(lambda: host.heard[_wire.PROGRESS])
        host.say(h.cancel(1, DEADLINE, "too slow"))
        self.assertEqual(host.result(1), "deadline: too slow")

    def test_a_cancelled_error_that_nobody_asked_for_is_an_error_of_its_own(self):
        _, host = self.connected("-c", """if True:
            import asyncio
            from taskengine import handler, run
            @handler("inner")
            async def inner(task):
                part = asyncio.ensure_future(asyncio.sleep(60))
                part.cancel()
                await part
            run()
        """)  # fmt: skip
        host.say(h.run(1, "inner"))
        self.assertEqual(host.error(1)[1:], ("CancelledError", False))


class Notes(h.ProcessTest):
    PROGRAM = """if True:
        import os, time
        from taskengine import handler, run
        def wait_for_the_end(task):
            while not os.path.exists(task.text()):
                time.sleep(0.005)
                task.check()
        @handler("much")
        def much(task):
            for n in range(10_000):
                task.progress(n, 10_000)
            task.progress(7, 9, "waiting")
            wait_for_the_end(task)
            task.progress(9, 9, "done")
        @handler("keep")
        def keep(task):
            task.progress(1)
            task.save_checkpoint("first")
            task.save_checkpoint({"second": 2})
            wait_for_the_end(task)
            task.save_checkpoint(b"last")
            raise RuntimeError("kept")
        run()
    """

    def end_of_waiting(self):
        return self.directory.name + "/end"

    def test_of_much_progress_little_is_sent_and_the_newest_always(self):
        _, host = self.connected("-c", self.PROGRAM)
        host.say(h.run(1, "much", self.end_of_waiting().encode()))
        host.wait_for(lambda: _wire.progress(1, 7, 9, "waiting") in host.heard[_wire.PROGRESS])
        open(self.end_of_waiting(), "w").close()
        host.finish(1)
        self.assertEqual(host.heard[_wire.PROGRESS][-1], _wire.progress(1, 9, 9, "done"))
        self.assertLess(len(host.heard[_wire.PROGRESS]), 200)

    def test_checkpoints_are_sent_at_once_and_before_the_answer(self):
        _, host = self.connected("-c", self.PROGRAM)
        host.say(h.run(1, "keep", self.end_of_waiting().encode()))
        host.wait_for(lambda: _wire.checkpoint(1, b'{"second": 2}', 2) in host.heard[_wire.CHECKPOINT])
        open(self.end_of_waiting(), "w").close()
        self.assertTrue(host.error(1)[0].startswith("RuntimeError: kept"))
        self.assertEqual(host.heard[_wire.CHECKPOINT][-1], _wire.checkpoint(1, b"last", 3))

    def test_a_host_gets_nothing_that_it_does_not_know(self):
        _, host = self.connected("-c", self.PROGRAM, features=())
        open(self.end_of_waiting(), "w").close()
        host.say(h.run(1, "much", self.end_of_waiting().encode()), h.run(2, "keep", self.end_of_waiting().encode()))
        host.finish(1)
        host.finish(2)
        self.assertFalse(set(host.heard) & {_wire.PROGRESS, _wire.CHECKPOINT})

    def test_children_go_with_the_answer_to_a_host_that_takes_them(self):
        child = {"type": "mail", "key": "k", "payload": "hi"}
        _, host = self.connected()
        host.say(h.run(1, "children", child))
        self.assertEqual(host.result(1), "spawned")
        self.assertEqual(h.fields(host.finish(1)[7][0]), {1: [b"mail"], 2: [b"k"], 4: [b"hi"]})
        _, host = self.connected(features=("progress",))
        host.say(h.run(1, "children", child))
        self.assertEqual(host.error(1)[1:], ("unsupported", True))

    def test_children_count_for_the_size_of_the_result(self):
        child = {"type": "mail", "key": "", "payload": "x" * 990}
        _, host = self.connected()  # which takes 1000 bytes
        host.say(h.run(1, "children", child))
        self.assertEqual(host.error(1)[1:], ("result_too_large", True))
        host.say(h.run(2, "children", {**child, "payload": "x" * 970}))
        self.assertEqual(host.result(2), "spawned")


class Logs(h.ProcessTest):
    def lines(self, host, count):
        """Lines as run id, level, message and fields, without the lines of tracebacks."""
        host.wait_for(lambda: len(host.heard[_wire.LOG]) >= count)
        out = []
        for line in map(h.fields, host.heard[_wire.LOG]):
            level = line[2][0] if line[2] else 0
            extra = dict(_wire._entry(e) for e in line[5])
            out.append((line[1][0], level >> 1 ^ -(level & 1), line[3][0].decode(), extra))
        return out

    def test_lines_keep_their_task_level_and_fields(self):
        _, host = self.connected()
        for n, level in enumerate(("debug", "info", "warn", "error"), 1):
            fields = {"name": "any", "message": "any", "ö": "ü"}
            host.say(h.run(n, "log", {"level": level, "message": "100%", "fields": fields}))
            host.result(n)
        self.assertEqual(
            self.lines(host, 4), [(n, level, "100%", fields) for n, level in ((1, -4), (2, 0), (3, 4), (4, 8))]
        )

    def test_the_programs_own_loggers_are_attributed_to_the_task_that_logs(self):
        _, host = self.connected("-c", """if True:
            import logging.config
            from taskengine import LogHandler, handler, run
            logging.config.dictConfig({"version": 1})
            logging.basicConfig(handlers=[LogHandler()], level=logging.INFO)
            log = logging.getLogger("shop")
            log.warning("not yet")
            @handler("function")
            def function(task):
                log.info("sold %d", 5, extra={"left": 0})
                task.log.info("by the task")
            @handler("coroutine")
            async def coroutine(task):
                try:
                    {}["x"]
                except KeyError:
                    log.exception("lost")
            @handler("batch", batch=1)
            def batch(tasks):
                log.info("many")
            run()
        """)  # fmt: skip
        self.assertIn(b'{"level": "warning", "msg": "not yet", "logger": "shop"}\n', self.log())
        host.say(h.run(1, "function"))
        host.result(1)
        host.say(h.run(2, "coroutine"))
        host.result(2)
        sold, by_the_task, lost = self.lines(host, 3)
        self.assertEqual(sold, (1, 0, "sold 5", {"left": "0", "logger": "shop"}))
        self.assertEqual(by_the_task, (1, 0, "by the task", {}))
        self.assertEqual(lost[:3], (2, 8, "lost"))
        self.assertTrue(lost[3]["exception"].endswith("KeyError: 'x'"), lost)
        host.say(h.run(3, "batch"))
        host.result(3)
        self.assertIn(b'{"level": "info", "msg": "many", "logger": "shop"}\n', self.log())


class Batches(h.ProcessTest):
    def test_a_full_one_is_called_and_a_part_of_one_after_the_wait(self):
        _, host = self.connected(slots=64)
        host.say(*(h.run(n, "batch") for n in range(1, 14)))
        host.wait_for(lambda: len(host.finishes) == 13)
        self.assertEqual([host.result(n) for n in range(1, 14)], ["10"] * 10 + ["3"] * 3)

    def test_none_waits_for_others_that_cannot_come(self):
        _, host = self.connected("-c", """if True:
            from taskengine import handler, run
            @handler("batch", batch=10, wait=3600)
            def batch(tasks):
                return [len(tasks)] * len(tasks)
            run()
        """, slots=3)  # fmt: skip
        host.say(h.run(1, "batch"), h.run(2, "batch"), h.run(3, "batch"))
        self.assertEqual([host.result(n) for n in (1, 2, 3)], ["3"] * 3)

    def test_none_waits_once_the_host_says_that_no_other_will_come(self):
        _, host = self.connected("-c", self.PROGRAM)
        host.say(h.run(1, "function", None))
        host.say(h.drain())
        self.assertEqual(host.result(1), "")

    def test_one_of_them_may_fail_alone(self):
        _, host = self.connected()
        host.say(h.run(1, "batch"), h.run(2, "batch", b"fail"), h.run(3, "batch"))
        self.assertEqual((host.result(1), host.result(3)), ("3", "3"))
        self.assertEqual(host.error(2), ("ValueError: asked to\n", "ValueError", False))

    PROGRAM = """if True:
        import asyncio
        from taskengine import handler, run, Snooze
        @handler("function", batch=2, wait=3600)
        def function(tasks):
            answer = tasks[0].json()
            if answer == "raise":
                raise ValueError("all of them")
            return answer
        @handler("coroutine", batch=2, wait=3600)
        async def coroutine(tasks):
            tasks[0].progress(1)
            await asyncio.sleep(3600)
        @handler("first of 100", batch=100)
        async def first(tasks):
            return [Snooze(1)] + [None] * (len(tasks) - 1)
        run()
    """

    def test_an_exception_fails_all_and_so_do_answers_that_are_none(self):
        _, host = self.connected("-c", self.PROGRAM, slots=0)
        self.assertEqual(host.credits, 100, "the largest batch fits")
        for n, (answer, message) in enumerate(
            (
                ("raise", "all of them"),
                ([1], "1 answers to 2 tasks"),
                ("ok", "returns a list"),
                ({"a": 1, "b": 2}, "a list"),
            )
        ):
            first, second = 2 * n + 1, 2 * n + 2
            host.say(h.run(first, "function", answer), h.run(second, "function", answer))
            for run_id in (first, second):
                self.assertIn(message, host.error(run_id)[0])
                self.assertFalse(host.error(run_id)[2])
        host.say(h.run(11, "function", None), h.run(12, "function", None))
        self.assertEqual((host.result(11), host.result(12)), ("", ""))

    def test_a_task_that_waits_for_others_is_cancelled_alone(self):
        _, host = self.connected("-c", self.PROGRAM)
        host.say(h.run(1, "function", None), h.cancel(1, CANCELLED, "not needed"))
        self.assertEqual(host.error(1), ("cancelled: not needed", "cancelled", False))
        host.say(h.run(2, "function", None), h.run(3, "function", None))
        self.assertEqual((host.result(2), host.result(3)), ("", ""))

    def test_a_coroutine_ends_when_all_of_its_tasks_are_cancelled(self):
        _, host = self.connected("-c", self.PROGRAM)
        host.say(h.run(1, "coroutine"), h.run(2, "coroutine"))
        host.wait_for(lambda: host.heard[_wire.PROGRESS])
        host.say(h.cancel(1, CANCELLED, "first"))
        host.say(h.cancel(2, DEADLINE, "second"))
        self.assertEqual(host.error(1)[0], "cancelled: first")
        self.assertEqual(host.error(2)[0], "cancelled: second")

    def test_coroutines_answer_for_each_task_too(self):
        _, host = self.connected("-c", self.PROGRAM, slots=2)
        host.say(h.run(1, "first of 100"), h.run(2, "first of 100"))
        self.assertEqual(h.fields(host.finish(1)[4][0])[1], [1_000_000])
        self.assertEqual(host.result(2), "")


if __name__ == "__main__":
    unittest.main()
