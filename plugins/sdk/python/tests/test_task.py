import time
import unittest
from datetime import datetime, timedelta, timezone

from taskengine import Again, Cancelled, Permanent, Program, RetryIn, Snooze, Task, _wire
from taskengine._work import Worker


def task(payload=b"", deadline=0):
    run = _wire.decode_run(b"")
    run.task_id, run.payload, run.deadline, run.type = bytes(range(16)), payload, deadline, "t"
    return Task(run)


class Tasks(unittest.TestCase):
    def test_the_id_is_a_uuid(self):
        self.assertEqual(task().id, "00010203-0405-0607-0809-0a0b0c0d0e0f")

    def test_a_payload_that_is_no_json_is_a_permanent_error(self):
        self.assertEqual(task(b'{"a": 1}').json(), {"a": 1})
        for bad in (b"{", b"\xff", b""):
            with self.subTest(bad), self.assertRaises(Permanent) as caught:
                task(bad).json()
            self.assertEqual(caught.exception.error_class, "bad_payload")

    def test_check_raises_once_cancelled(self):
        t = task()
        t.check()
        t.cancel_reason = "not needed"
        t.cancelled.set()
        with self.assertRaisesRegex(Cancelled, "not needed"):
            t.check()

    def test_check_raises_after_the_deadline(self):
        self.assertIsNone(task().time_left())
        later = task(deadline=int((time.time() + 60) * 1e6))
        later.check()
        self.assertGreater(later.time_left(), 50)
        with self.assertRaises(Cancelled):
            task(deadline=1).check()

    def test_cancelled_is_not_caught_by_except_exception(self):
        self.assertFalse(issubclass(Cancelled, Exception))


class Verdicts(unittest.TestCase):
    def test_delays_are_seconds_or_timedeltas_and_never_cut_short(self):
        self.assertEqual(Snooze(0.0000001).delay, 1)
        self.assertEqual(RetryIn(timedelta(minutes=1)).delay, 60_000_000)
        self.assertEqual(Snooze(-5).delay, 0)

    def test_again_needs_an_instant(self):
        at = datetime(2030, 1, 1, tzinfo=timezone.utc)
        self.assertEqual(Again(at).at, Again(at.timestamp()).at)
        with self.assertRaises(ValueError):
            Again(datetime(2030, 1, 1))

    def answer(self, function):
        worker = Worker({}, "", 1)
        worker._max_result = 10
        return worker._attempt(function, task(), 1)

    def test_results_become_bytes(self):
        for result, want in (
            (None, b""), (b"b", b"b"), (bytearray(b"b"), b"b"), ("ö", "ö".encode()),
            ({"a": 1}, b'{"a": 1}'), ([1], b"[1]"), (False, b"false"),
        ):  # fmt: skip
            with self.subTest(result):
                self.assertEqual(self.answer(lambda task, r=result: r), _wire.finish_result(1, want))

    def test_whatever_a_handler_raises_is_an_answer(self):
        class Nasty(Exception):
            def __str__(self):
                raise ValueError("no text either")

        def thrower(e):
            def handle(task):
                raise e

            return handle

        for e in (ValueError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), Nasty(), Cancelled(), Again(1, {1})):
            with self.subTest(type(e)):
                self.assertTrue(self.answer(thrower(e)).startswith(b"\x08\x01\x1a"))

    def test_results_that_no_json_can_say_are_errors(self):
        self.assertIn(b"TypeError", self.answer(lambda task: {1, 2}))

    def test_results_that_are_too_large_are_permanent_errors(self):
        self.assertIn(b"result_too_large", self.answer(lambda task: b"x" * 11))


class Programs(unittest.TestCase):
    def test_handlers_are_registered_once_and_are_plain_functions(self):
        p = Program()
        f = p.handler("a")(lambda task: None)
        self.assertIs(p.handlers["a"], f)
        with self.assertRaises(ValueError):
            p.handler("a")(f)
        with self.assertRaises(TypeError):
            p.handler(f)

        async def coroutine(task):
            pass

        with self.assertRaises(TypeError):
            p.handler("b")(coroutine)


if __name__ == "__main__":
    unittest.main()
