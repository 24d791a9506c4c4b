import functools
import sys
import time
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from unittest import mock

from taskengine import (
    Again,
    Cancelled,
    Child,
    ChildrenWait,
    Ended,
    InDoubt,
    Parent,
    Permanent,
    Program,
    Retry,
    RetryIn,
    Snooze,
    Task,
    WaitForChildren,
    _answer,
    _wire,
)
from taskengine._outbox import Host, Outbox


def task(payload=b"", time_left=0):
    run = _wire.decode_run(b"")
    run.task_id, run.payload, run.time_left, run.type = bytes(range(16)), payload, time_left, "t"
    return Task(run)


def in_doubt(finish):
    """Whether a finish has an error in doubt."""
    error = next(value for number, value in _wire._fields(finish) if number == 3)
    return any(number == 6 for number, _ in _wire._fields(error))


class Unencodable(dict):
    """A value that ends the process that encodes it."""

    def items(self):
        sys.exit("not this")


def thrower(e):
    def handle(task):
        raise e

    return handle


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
        later = task(time_left=60_000_000)
        later.check()
        self.assertGreater(later.time_left(), 50)
        with self.assertRaises(Cancelled):
            task(time_left=-1).check()

    def test_the_deadline_is_a_time_of_the_clock_of_this_machine_and_does_not_follow_it(self):
        now = time.time()
        with mock.patch("time.time", lambda: now + 3600):
            t = task(time_left=60_000_000)
            self.assertEqual(t.deadline, now + 3660)
        with mock.patch("time.time", lambda: now + 7200):
            t.check()
            self.assertGreater(t.time_left(), 30)

    def test_an_error_after_the_deadline_is_in_doubt_whatever_it_says(self):
        heard = task()
        heard._cancel("deadline", "too long")
        for e in (ValueError("x"), Permanent("no"), RetryIn(5, "later"), Cancelled("x", "deadline")):
            for t in (task(time_left=-1), heard):
                self.assertEqual(in_doubt(_answer.error(t, e, Host())), True, e)
        for e in (Permanent("no"), RetryIn(5, "later")):
            self.assertEqual(in_doubt(_answer.error(task(time_left=60_000_000), e, Host())), False, e)

    def test_a_handler_learns_why_it_shall_stop(self):
        t = task()
        self.assertIsNone(t.cancellation)
        t._cancel("deadline", "too long")
        self.assertEqual((str(t.cancellation), t.cancellation.reason), ("too long", "deadline"))
        self.assertTrue(t.cancelled.is_set())
        self.assertEqual(task(time_left=-1).cancellation.reason, "deadline")

    def test_a_check_makes_json_what_the_handler_wants(self):
        self.assertEqual(task(b'{"days": 2}').json(lambda o: timedelta(**o)), timedelta(2))
        for bad in (b'{"dais": 2}', b"[]", b'{"days": "two"}'):
            with self.subTest(bad), self.assertRaises(Permanent) as caught:
                task(bad).json(lambda o: timedelta(**o))
            self.assertEqual(caught.exception.error_class, "bad_payload")

    def test_text_that_is_no_utf8_is_a_permanent_error(self):
        self.assertEqual(task("ö".encode()).text(), "ö")
        with self.assertRaises(Permanent):
            task(b"\xff").text()

    def test_what_cannot_be_sent_is_an_error_at_the_call(self):
        t = task()
        for ask, error in (
            (lambda: t.spawn(""), ValueError),
            (lambda: t.spawn("a", priority=10), ValueError),
            (lambda: t.spawn("a", {1}), Permanent),
            (lambda: t.spawn("a", key="\udcff"), ValueError),
            (lambda: t.spawn("a", run_at=datetime(2030, 1, 1)), ValueError),
            (lambda: t.progress(-1), ValueError),
            (lambda: t.progress(1, 1 << 64), ValueError),
            (lambda: t.save_checkpoint(bytes((1 << 20) + 1)), ValueError),
        ):
            with self.assertRaises(error):
                ask()
        self.assertIsNone(t._children)

    def test_the_trace_context_is_among_the_headers(self):
        self.assertIsNone(task().traceparent)
        t = task()
        t.headers["traceparent"] = "00-1"
        self.assertEqual(t.traceparent, "00-1")

    def test_cancelled_is_not_caught_by_except_exception(self):
        self.assertFalse(issubclass(Cancelled, Exception))


class Verdicts(unittest.TestCase):
    def test_delays_are_seconds_or_timedeltas_and_never_cut_short(self):
        self.assertEqual(Snooze(0.0000001).delay, 1)
        self.assertEqual(RetryIn(timedelta(minutes=1)).delay, 60_000_000)
        self.assertEqual(Snooze(-5).delay, 0)
        self.assertEqual(Snooze(1e300).delay, (1 << 63) - 1)

    def test_again_needs_an_instant(self):
        at = datetime(2030, 1, 1, tzinfo=timezone.utc)
        self.assertEqual(Again(at).at, Again(at.timestamp()).at)
        with self.assertRaises(ValueError):
            Again(datetime(2030, 1, 1))

    def answer(self, function, features=()):
        host, given = Host(200, frozenset(features), 100), task()
        given._run.run_id = 1
        try:
            return _answer.result(given, function(given), host)
        except BaseException as e:
            return _answer.error(given, e, host)

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

        class Bare(Permanent):
            def __init__(self):
                pass

        class Odd(Exception):
            exceptions = 7

        for e in (
            ValueError("x"),
            SystemExit(1),
            KeyboardInterrupt(),
            GeneratorExit(),
            Nasty(),
            Bare(),
            Odd(),
            Permanent("x", error_class=None),
            Cancelled(),
            Again(1, {1}),
        ):
            with self.subTest(type(e)):
                self.assertTrue(self.answer(thrower(e)).startswith(b"\x08\x01\x1a"))

    def test_what_cannot_be_encoded_is_a_permanent_error_for_the_work_is_done(self):
        cyclic, deep = [], []
        cyclic.append(cyclic)
        for _ in range(100_000):
            deep = [deep]
        values = ({1, 2}, float("nan"), {"a": float("inf")}, cyclic, deep, "\udcff", {(1, 2): 3}, Unencodable(a=1))
        for value in values:
            for say in (
                lambda task, v=value: v,
                thrower(Again(1, value)),
                thrower(Again(1, payload=value)),
                thrower(Again(1, checkpoint=value)),
                lambda task, v=value: task.spawn("a", v),
                lambda task, v=value: task.save_checkpoint(v),
            ):
                with self.subTest(type(value)):
                    answer = self.answer(say, ("rerun", "children", "checkpoint"))
                    self.assertTrue(answer.endswith(_wire._bytes(2, b"bad_result") + b"\x18\x01"), answer[:300])

    def test_an_exception_that_is_none_of_the_package_is_in_doubt(self):
        for e, want in (
            (ValueError("x"), True),
            (TimeoutError("no answer from the bank"), True),
            (SystemExit(1), True),
            (Cancelled(), True),
            (InDoubt("no answer from the bank", error_class="timeout"), True),
            (Retry("refused", error_class="busy"), False),
            (RetryIn(5, "refused"), False),
            (Permanent("refused"), False),
        ):
            self.assertEqual(in_doubt(_answer.error(task(), e, Host())), want, repr(e))
        answer = self.answer(thrower(InDoubt("no answer", error_class="timeout")))
        self.assertEqual(answer, _wire.finish_error(1, "no answer", "timeout", in_doubt=True))

    def test_whether_it_is_cancelled_is_a_truth_and_an_event(self):
        t = task()
        self.assertFalse(t.cancelled)
        self.assertFalse(t.cancelled.is_set())
        t._cancel("cancelled", "not needed")
        self.assertTrue(t.cancelled)
        self.assertTrue(t.cancelled.wait(0))

    def test_results_that_are_too_large_are_permanent_errors(self):
        self.assertIn(b"result_too_large", self.answer(lambda task: b"x" * 201))

    def test_a_task_runs_again_with_a_payload_and_a_checkpoint(self):
        again = _wire.finish_again
        for e, want in (
            (Again(1, "so far"), again(1, 1_000_000, b"so far")),
            (Again(1, payload={"a": 1}), again(1, 1_000_000, b"", b'{"a": 1}')),
            (Again(1, payload=""), again(1, 1_000_000, b"", b"")),
            (Again(1, payload=b"x" * 100), again(1, 1_000_000, b"", b"x" * 100)),
            (Again(1, "r", payload="p", checkpoint=b"c"), again(1, 1_000_000, b"r", b"p", b"c")),
            (Again(1, checkpoint=b"c" * (1 << 20)), again(1, 1_000_000, b"", None, b"c" * (1 << 20))),
        ):
            with self.subTest(want[:40]):
                self.assertEqual(self.answer(thrower(e), ("rerun",)), want)

    def test_a_task_that_cannot_run_again_as_asked_fails_for_good(self):
        for e, features, error_class in (
            (Again(1, payload=b""), (), b"unsupported"),
            (Again(1, checkpoint=b""), ("checkpoint",), b"unsupported"),
            (Again(1, payload=b"x" * 101), ("rerun",), b"payload_too_large"),
            (Again(1, checkpoint=b"x" * ((1 << 20) + 1)), ("rerun",), b"checkpoint_too_large"),
        ):
            with self.subTest(error_class):
                answer = self.answer(thrower(e), features)
                self.assertTrue(answer.endswith(_wire._bytes(2, error_class) + b"\x18\x01"), answer[:200])

    def test_a_handler_that_has_ended_its_attempt_says_so(self):
        self.assertEqual(self.answer(thrower(Ended()), ("ended",)), _wire.finish_ended(1))
        answer = self.answer(thrower(Ended()), ("rerun",))
        self.assertTrue(answer.endswith(_wire._bytes(2, b"unsupported")), answer)

    def test_an_error_tells_its_causes(self):
        def handle(task):
            try:
                {}["order"]
            except KeyError as e:
                raise ValueError("no such order") from e

        answer = self.answer(handle)
        self.assertIn(b"ValueError: no such order\nbecause of KeyError: 'order'\n", answer)
        self.assertIn(b"in handle", answer)

    def test_an_error_that_is_a_group_tells_its_parts(self):
        class Group(Exception):
            exceptions = (ValueError("a"), KeyError("b"))

        def handle(task):
            raise Group("two")

        self.assertIn(b"Group: two\nwith ValueError: a\nwith KeyError: 'b'\n", self.answer(handle))

    def test_children_go_with_a_success_and_with_nothing_else(self):
        def ask(task):
            task.spawn("mail", "hi", key="k", run_at=datetime(2030, 1, 1, tzinfo=timezone.utc), priority=0)

        def both(outcome):
            def handle(task):
                ask(task)
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            return handle

        given = task()
        ask(given)
        asked = b"".join(given._children)
        features = ("children",)
        self.assertEqual(self.answer(both("ok"), features), _wire.finish_result(1, b"ok") + asked)
        self.assertEqual(self.answer(both(Again(1)), features), _wire.finish_again(1, 1_000_000) + asked)
        self.assertNotIn(asked, self.answer(both(Snooze(1)), features))
        self.assertNotIn(asked, self.answer(both(ValueError()), features))

    def test_children_and_signals_go_with_a_success_and_with_nothing_else(self):
        order = "01020304-0506-0708-090a-0b0c0d0e0f10"

        def both(outcome):
            def handle(task):
                task.add_children("page", Child("render", "1", "o", {"a": "b"}, 1, 0), Child("render"))
                task.send_signal("paid", {"sum": 1}, to=order, task_type="order", signal_id=order, keep=True)
                task.send_signal("seen", task_type="order", key="k", ordering_key="o")
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            return handle

        children = [
            _wire.child("render", "", "o", b"1", {"a": "b"}, 1_000_000, 0, "page"),
            _wire.child("render", "", "", b"", {}, 0, None, "page"),
        ]
        order_id = bytes(range(1, 17))
        signals = [
            _wire.signal(order_id, "order", "", "", order_id, "paid", b'{"sum": 1}', True),
            _wire.signal(b"", "order", "k", "o", b"", "seen", b"", False),
        ]
        sent, features = b"".join(children + signals), ("children", "family", "signals", "wait")
        self.assertEqual(self.answer(both("ok"), features), _wire.finish_result(1, b"ok") + sent)
        wait = _wire.wait((), [("page", 0, False), ("proof", 2, True)])
        verdict = WaitForChildren("page", ChildrenWait("proof", 2, True), result="so far", timeout=1)
        answer = _wire.finish_again(1, 0, b"so far", wait=wait, delay=1_000_000)
        self.assertEqual(self.answer(both(verdict), features), answer + sent)
        self.assertNotIn(signals[0], self.answer(both(Snooze(1)), features))
        self.assertNotIn(children[0], self.answer(both(ValueError()), features))

    def test_a_task_is_spawned_to_run_after_others(self):
        first, second = "01020304-0506-0708-090a-0b0c0d0e0f10", "ffffffff-0506-0708-090a-0b0c0d0e0f10"

        def handle(task):
            task.spawn("a", after=[second, first])
            task.spawn("b", "x", after=(first,), after_any=True)

        ids = [uuid.UUID(text).bytes for text in (first, second)]
        sent = _wire.child("a", "", "", b"", {}, 0, None, "", [ids[1], ids[0]])
        sent += _wire.child("b", "", "", b"x", {}, 0, None, "", [ids[0]], True)
        self.assertEqual(self.answer(handle, ("children", "after")), _wire.finish_result(1, b"") + sent)

    def test_tasks_that_cannot_run_after_others_are_errors(self):
        t, first = task(), "01020304-0506-0708-090a-0b0c0d0e0f10"
        for why, options in {
            "after has 101 tasks": {"after": [str(uuid.UUID(int=n)) for n in range(101)]},
            "it has a time, and after": {"after": [first], "run_at": 1},
            "after names no task": {"after_any": True},
            "an id that is zero": {"after": [str(uuid.UUID(int=0))]},
            "twice": {"after": [first, first.upper()]},
            "badly formed": {"after": ["no id"]},
        }.items():
            for ask in (t.spawn, t.check_spawn):
                with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                    ask("a", **options)
        with self.assertRaises(TypeError):
            t.spawn("a", after=first)
        self.assertIsNone(t._children)

    def test_children_and_signals_that_a_host_does_not_support_fail_the_task(self):
        def answered(use, *features):
            host = Host(0, frozenset(features))
            given = Task(task()._run, Outbox(host, lambda *timer: None))
            given._run.run_id = 1
            try:
                use(given)
            except Permanent as e:
                self.assertEqual(e.error_class, "unsupported")
            return _answer.result(given, "ok", host)  # a handler that ignores it

        for use, feature in (
            (lambda t: t.add_children("page", Child("a")), "family"),
            (lambda t: t.send_signal("paid", task_type="a", key="k"), "signals"),
            (lambda t: t.spawn("a", after=["01020304-0506-0708-090a-0b0c0d0e0f10"]), "after"),
        ):
            self.assertIn(b"does not support", answered(use, "children", "wait"))
            self.assertNotIn(b"does not support", answered(use, "children", feature))
        answer = self.answer(thrower(WaitForChildren("page")), ("wait", "rerun"))
        self.assertTrue(answer.endswith(b"\x12\x0bunsupported\x18\x01"), answer)

    def test_children_and_signals_that_cannot_be_are_errors(self):
        t = task()
        for use in (
            lambda: t.add_children("", Child("a")),
            lambda: t.add_children("page", Child("")),
            lambda: t.add_children("page", Child("a", priority=10)),
            lambda: t.send_signal("", task_type="a", key="k"),
            lambda: t.send_signal("paid", task_type="a"),
            lambda: t.send_signal("paid", to="no id"),
        ):
            with self.assertRaises(ValueError):
                use()
        with self.assertRaises(TypeError):
            WaitForChildren()

    def test_a_task_knows_its_children_and_its_parent(self):
        t = task()
        self.assertEqual((t.children, t.parent), ({}, None))
        t._run.task_id = bytes(range(16))
        t._run.children = [
            _wire.ChildSet("pägé", 70001, 1, 2, 3, b"\x01\x02"),
            _wire.ChildSet("bound", 2, shards=b"\x07\xc8"),
        ]
        t._run.parent = _wire.Parent(bytes(range(1, 17)), "örder", 7)
        page = t.children["pägé"]
        self.assertEqual((page.added, page.done, page.failed, page.cancelled, page.ended), (70001, 1, 2, 3, 6))
        self.assertEqual([n for n in range(20) if page.has_ended(n)], [0, 9])
        self.assertEqual(page.id(1), "00010203-0405-8531-bd59-22ba100001e1")
        self.assertEqual(page.id(70000), "00010203-0405-8531-bd59-22ba11117090")
        self.assertEqual(t.children["bound"].id(1), "00010203-0405-8657-a5ab-996d7000019c")
        self.assertEqual(t.parent, Parent("01020304-0506-0708-090a-0b0c0d0e0f10", "örder", 7))

    def test_a_host_that_takes_no_children_gets_an_error(self):
        for features in ((), ("progress",)):
            with self.subTest(features):
                answer = self.answer(lambda t: t.spawn("a"), features)
                self.assertIn(b"does not support children,", answer)
                self.assertTrue(answer.endswith(b"\x12\x0bunsupported\x18\x01"), answer)


class Programs(unittest.TestCase):
    def test_handlers_are_registered_once(self):
        p = Program()
        f = p.handler("a")(lambda task: None)
        self.assertIs(p.handlers["a"], f)
        with self.assertRaises(ValueError):
            p.handler("a")(f)

    def test_what_cannot_be_a_handler_is_an_error_at_once(self):
        p = Program()
        for register, error in (
            (lambda: p.handler(print), TypeError),
            (lambda: p.handler(""), TypeError),
            (lambda: p.handler("a")("b"), TypeError),
            (lambda: p.handler("a", batch=0), ValueError),
            (lambda: p.handler("a", batch="10"), ValueError),
        ):
            with self.assertRaises(error):
                register()
        self.assertEqual(p.handlers, {})

    def test_coroutine_functions_are_known_in_all_their_forms(self):
        async def function(task):
            pass

        class Callable:
            async def __call__(self, task):
                pass

        p = Program()
        for i, f in enumerate((function, Callable(), functools.partial(function), Callable.__call__)):
            p.handler(str(i))(f)
        p.handler("plain")(print)
        self.assertEqual([served.asynchronous for served in p._served.values()], [True] * 4 + [False])


if __name__ == "__main__":
    unittest.main()
