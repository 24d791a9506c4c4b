"""Waits, checkpoints that are stored, and handlers in steps."""

import asyncio
import base64
import inspect
import json
import os
import re
import unittest
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone

from taskengine import (
    Again,
    Child,
    Document,
    InDoubt,
    NotChecked,
    NotRead,
    NotStored,
    Permanent,
    Program,
    Refusal,
    Retry,
    RetryIn,
    Snooze,
    StepError,
    Task,
    WaitFor,
    Woken,
    _answer,
    _wire,
)  # fmt: skip
from taskengine._outbox import Host, Outbox
from taskengine._task import MAX_CHECKPOINT, MAX_DOCUMENT
from taskengine._woken import NAMES
from tests import host as h

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "steps.json")
BY = {name: number for number, name in NAMES.items()}


class Store(Outbox):
    """An outbox whose host stores checkpoints at once, or does not."""

    def __init__(self, features=h.EVERYTHING, fault=""):
        self.host = Host(0, frozenset(features))
        super().__init__(self.host, lambda *timer: None)
        self.checkpoints, self.fault = [], fault

    def save(self, task, data):
        if "checkpoint" not in self.host.features:
            return None
        future = Future()
        if self.fault:
            future.set_exception(NotStored(self.fault))
        else:
            self.checkpoints.append(data)
            future.set_result(None)
        return future


class End:
    """What became of an attempt."""

    def __init__(self, finish):
        f = h.fields(finish)
        self.result = f[2][0] if f[2] else None
        error = h.fields(f[3][0]) if f[3] else None
        self.message = error and error[1] and error[1][0].decode()
        self.error_class = error and (error[2][0].decode() if error[2] else "")
        self.permanent = bool(error and error[3])
        again = h.fields(f[5][0]) if f[5] else None
        self.checkpoint = again and (again[4] or [None])[0]
        self.at, self.delay = (again[1] or [0])[0] if again else 0, (again[6] or [0])[0] if again else 0
        wait = again and (again[5] or [None])[0]
        self.children_waits = wait and h.fields(wait)[2]
        children = [h.fields(child) for child in f[7]]
        self.children = [{"set": c[8][0].decode(), "type": c[1][0].decode()} for c in children]
        self.waits = None if wait is None else [name.decode() for name in h.fields(wait)[1]]


def attempt(function, checkpoint=b"", woken=None, store=None, version=1, oldest=None, cancel="", **run):
    """Calls a handler in steps once."""
    program = Program()
    program.handler("order", version=version, oldest=oldest)(function)
    r = _wire.decode_run(b"\x08\x01")
    r.task_id, r.type, r.checkpoint, r.woken = bytes(range(16)), "order", checkpoint, woken
    for name, value in run.items():
        setattr(r, name, value)
    store = store or Store()
    task = Task(r, store)
    if cancel:
        task._cancel("cancelled", cancel)
    served = program._served["order"]
    try:
        value = asyncio.run(served.function(task)) if served.asynchronous else served.function(task)
        return End(_answer.result(task, value, store.host))
    except BaseException as e:
        return End(_answer.error(task, e, store.host))


def both(function):
    """A handler, as a function and as a coroutine. It is given do, wait and sleep, each a coroutine function."""

    def on_a_thread(task):
        async def step(*args, **kwargs):
            return task.step(*args, **kwargs)

        async def wait(*names, **kwargs):
            return task.wait_for(*names, **kwargs)

        async def sleep(*args):
            return task.sleep(*args)

        flow = function(task, step, wait, sleep)
        try:
            while True:
                flow.send(None)
        except StopIteration as end:
            return end.value

    async def coroutine(task):
        return await function(task, task.step, task.wait_for, task.sleep)

    return on_a_thread, coroutine


def value(text):
    """A record, whose times do not end with zeros."""
    return json.loads(re.sub(r"(T[\d:]+\.\d*?)0+Z", r"\1Z", text))


class Waits(unittest.TestCase):
    def answer(self, e, features=("rerun", "wait"), **run):
        r = _wire.decode_run(b"\x08\x01")
        return _answer.error(Task(r), e, Host(0, frozenset(features), 100))

    def test_a_task_waits_for_signals(self):
        again, wait = _wire.finish_again, _wire.wait
        at = datetime(2033, 5, 18, 3, 33, 20, tzinfo=timezone.utc)
        for e, want in (
            (WaitFor("paid"), again(1, 0, wait=wait(["paid"]))),
            (WaitFor("paid", "vöid", result="r"), again(1, 0, b"r", wait=wait(["paid", "vöid"]))),
            (WaitFor("paid", timeout=1.5), again(1, 0, wait=wait(["paid"]), delay=1_500_000)),
            (WaitFor("paid", timeout=timedelta(days=2)), again(1, 0, wait=wait(["paid"]), delay=172_800_000_000)),
            (WaitFor("paid", timeout=0), again(1, 0, wait=wait(["paid"]), delay=1)),
            (WaitFor("paid", until=at), again(1, 2_000_000_000_000_000, wait=wait(["paid"]))),
            (WaitFor("paid", until=0), again(1, -1, wait=wait(["paid"]))),
            (WaitFor("paid", payload="p", checkpoint="c"), again(1, 0, b"", b"p", b"c", wait(["paid"]))),
        ):
            with self.subTest(want):
                self.assertEqual(self.answer(e), want)

    def test_a_task_that_cannot_wait_as_asked_fails_for_good(self):
        for e, features, error_class in (
            (WaitFor("paid"), ("rerun",), "unsupported"),
            (WaitFor("paid", checkpoint="c"), ("wait",), "unsupported"),
            (WaitFor("paid", payload=b"x" * 101), ("rerun", "wait"), "payload_too_large"),
        ):
            end = End(self.answer(e, features))
            self.assertEqual((end.error_class, end.permanent), (error_class, True))
        for names in ((), ("",), (1,)):
            with self.subTest(names), self.assertRaises(TypeError):
                WaitFor(*names) if names != ("",) else WaitFor(None)
        with self.assertRaises(ValueError):
            WaitFor("paid", timeout=1, until=1)

    def test_a_task_knows_what_has_woken_it(self):
        r = _wire.decode_run(b"")
        self.assertIsNone(Task(r).woken)
        r.woken = _wire.Woken(_wire.BY_TIMEOUT)
        self.assertEqual(Task(r).woken, Woken("timeout"))
        r.woken = _wire.Woken(_wire.BY_SIGNAL, bytes(range(16)), "paid", 1_767_323_044_123_456, b'{"a": 1}')
        woken = Task(r).woken
        at = datetime(2026, 1, 2, 3, 4, 4, 123456, tzinfo=timezone.utc)
        self.assertEqual(woken, Woken("signal", "00010203-0405-0607-0809-0a0b0c0d0e0f", "paid", at, b'{"a": 1}'))
        self.assertEqual((woken.json(), woken.text()), ({"a": 1}, '{"a": 1}'))


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.outbox = Outbox(Host(0, frozenset(h.EVERYTHING)), lambda *timer: None)
        self.task = Task(_wire.decode_run(b"\x08\x07"), self.outbox)

    def stored(self, number, error=""):
        self.outbox.stored(self.task, _wire.Stored(7, number, error))

    def test_an_answer_is_for_all_checkpoints_up_to_its_number(self):
        futures = [self.task._save(b"%d" % n) for n in range(3)]
        self.stored(2)
        self.assertEqual([f.done() for f in futures], [True, True, False])
        self.assertEqual(self.task._kept, _wire.checkpoint(7, b"2", 3))
        self.stored(3, "the disk is full")
        with self.assertRaisesRegex(NotStored, "the disk is full"):
            futures[2].result(0)
        self.assertIsNone(self.task._kept)  # it would not be stored the next time either

    def test_a_coroutine_may_await_a_checkpoint_or_not(self):
        async def save():
            first, second = self.task.save_checkpoint("a"), self.task.save_checkpoint("b")
            self.stored(1)
            await first
            self.stored(2, "no")
            with self.assertRaisesRegex(NotStored, "no"):
                await second
            self.task.save_checkpoint("c")
            lost = asyncio.ensure_future(self.task.save_checkpoint("d"))
            lost.cancel()
            self.stored(4)
            await asyncio.sleep(0)

        asyncio.run(save())

    def test_it_is_not_awaited_for_ever(self):
        for end, why in (
            (lambda: self.outbox.finish(self.task, b""), "has returned"),
            (lambda: self.outbox.give_up(self.task, "the host is gone"), "the host is gone"),
        ):
            self.setUp()
            future = self.task._save(b"a")
            end()
            with self.assertRaisesRegex(NotStored, why):
                future.result(0)
        with self.assertRaisesRegex(NotStored, "too late"):
            self.task.save_checkpoint("b")

    def test_a_host_that_keeps_none_has_nothing_to_wait_for(self):
        task = Task(_wire.decode_run(b""), Outbox(Host(), lambda *timer: None))
        task.save_checkpoint("a")

        async def save():
            await task.save_checkpoint("a")

        asyncio.run(save())


class Checks(unittest.TestCase):
    def setUp(self):
        self.outbox = Outbox(Host(100, frozenset({"check", "checkpoint"})), lambda *timer: None)
        self.task = Task(_wire.decode_run(b"\x08\x07"), self.outbox)

    def test_a_coroutine_awaits_the_answer(self):
        taken = _wire.Refusal(1, 6, "by another", bytes(range(16)))

        async def ask():
            first = asyncio.ensure_future(self.task.check_children("page", Child("a"), Child("b")))
            second = asyncio.ensure_future(self.task.check_children("page", Child("c")))
            await asyncio.sleep(0)
            self.assertEqual(
                self.outbox.questions(self.task),
                [
                    (_wire.CHECK, _wire.check(7, 1, "page", [b"\x0a\x01a", b"\x0a\x01b"])),
                    (_wire.CHECK, _wire.check(7, 2, "page", [b"\x0a\x01c"])),
                ],
            )
            self.outbox.checked(self.task, _wire.Checked(7, 2, "", []))
            self.outbox.checked(self.task, _wire.Checked(7, 1, "", [taken]))
            return await first, await second

        refused, none = asyncio.run(ask())
        self.assertEqual(refused, [Refusal(1, "key_taken", "by another", "00010203-0405-0607-0809-0a0b0c0d0e0f")])
        self.assertEqual((refused[0].fails, none), (False, []))

    def test_what_no_answer_can_have_is_not_asked_about(self):
        refused = self.task.check_children("page", Child("a", bytes(200)), Child("b"))
        self.assertEqual(
            [(r.index, r.reason, r.fails) for r in refused], [(0, "too_large", True), (1, "too_large", True)]
        )
        self.assertEqual(self.outbox.questions(self.task), [])

    def test_an_answer_is_not_awaited_for_ever(self):
        for end in (
            lambda: self.outbox.finish(self.task, b""),
            lambda: self.outbox.give_up(self.task, "the host is gone"),
            lambda: self.outbox.checked(self.task, _wire.Checked(7, 1, "the store does not answer", [])),
        ):
            self.setUp()
            future = self.outbox.ask(self.task, "page", [b""])
            end()
            with self.assertRaises(NotChecked):
                future.result(0)
            self.assertEqual(self.outbox.questions(self.task), [])
        self.outbox.finish(self.task, b"")
        with self.assertRaisesRegex(NotChecked, "too late"):
            self.task.check_spawn("a")
        with self.assertRaisesRegex(NotStored, "too late"):
            self.outbox.save(self.task, b"").result(0)

    def test_without_a_host_nothing_is_refused(self):
        self.assertEqual(Task(_wire.decode_run(b"")).check_children("page", Child("a")), [])


class Documents(unittest.TestCase):
    def setUp(self):
        self.outbox = Outbox(Host(100, frozenset({"documents"})), lambda *timer: None)
        self.task = Task(_wire.decode_run(b"\x08\x07\x12\x10" + bytes(16)), self.outbox)

    def test_a_coroutine_awaits_the_document(self):
        at = 1_900_000_000_000_001
        answer = _wire.DocumentRead(7, 1, "", 5, b'{"left": 2}', at, at + 1, at + 2)

        async def read():
            first = asyncio.ensure_future(self.task.read_document("stock/a"))
            second = asyncio.ensure_future(self.task.read_document("stöck/b"))
            await asyncio.sleep(0)
            asked = [_wire.read_document(7, 1, "stock/a"), _wire.read_document(7, 2, "stöck/b")]
            self.assertEqual(self.outbox.questions(self.task), [(_wire.READ, message) for message in asked])
            self.outbox.document(self.task, _wire.DocumentRead(7, 2))
            self.outbox.document(self.task, answer)
            self.outbox.document(self.task, answer)  # an answer to nothing
            return await first, await second

        there, none = asyncio.run(read())
        self.assertEqual(
            (there.key, there.version, there.text(), there.json()), ("stock/a", 5, '{"left": 2}', {"left": 2})
        )
        times = [round(time.timestamp() * 1e6) for time in (there.expires_at, there.created_at, there.updated_at)]
        self.assertEqual(times, [at, at + 1, at + 2])
        self.assertEqual((none, none.json()), (Document("stöck/b"), None))

    def test_a_read_is_not_awaited_for_ever(self):
        for end in (
            lambda: self.outbox.finish(self.task, b""),
            lambda: self.outbox.give_up(self.task, "the host is gone"),
            lambda: self.outbox.document(self.task, _wire.DocumentRead(7, 1, "the store does not answer")),
        ):
            self.setUp()
            future = self.outbox.read(self.task, "a")
            end()
            with self.assertRaisesRegex(NotRead, "the document 'a' was not read"):
                future.result(0)
            self.assertEqual(self.outbox.questions(self.task), [])
        self.outbox.finish(self.task, b"")
        with self.assertRaisesRegex(NotRead, "too late"):
            self.task.read_document("a")

    def test_documents_are_written_with_an_answer(self):
        at = datetime(2030, 1, 1, tzinfo=timezone.utc)
        host, write, expires = self.outbox._host, _wire.write_document, round(at.timestamp() * 1e6)
        self.task.write_document(Document("a", b"x", 7, expires_at=at), {"n": 1})
        self.task.write_document(Document("b"), "new", expires_at=at.timestamp())
        self.task.write_document("c", bytes(MAX_DOCUMENT), if_version=0)
        self.task.write_document("d", None)
        self.task.delete_document("e")
        self.task.delete_document(Document("f", version=(1 << 64) - 1))
        wanted = b"".join((
            write("a", b'{"n": 1}', False, 7, expires), write("b", b"new", False, 0, expires),
            write("c", bytes(MAX_DOCUMENT), False, 0, 0), write("d", b"", False, None, 0), write("e", b"", True, None, 0),
            write("f", b"", True, (1 << 64) - 1, 0),
        ))  # fmt: skip
        for finish in (_answer.result(self.task, "ok", host), _answer.error(self.task, Again(1, "ok"), host)):
            self.assertTrue(finish.endswith(wanted))
        for e in (ValueError("no"), Snooze(1), Permanent("no")):
            self.assertNotIn(b"stock", _answer.error(self.task, e, host))
            self.assertLess(len(_answer.error(self.task, e, host)), MAX_DOCUMENT)
        with self.assertRaisesRegex(RuntimeError, "it has its answer already"):
            self.task.write_document("a", 1)

    def test_what_cannot_be_written_is_an_error(self):
        for args, options in (
            (("", "x"), {}),
            ((None, "x"), {}),
            (("a", bytes(MAX_DOCUMENT + 1)), {}),
            (("a", "x"), {"if_version": -1}),
            ((Document("a", version=1), "x"), {"if_version": 1}),
            (("a", "x"), {"expires_at": datetime(2030, 1, 1)}),
            (("\udcff", "x"), {}),
        ):
            with self.subTest(args[0], **options), self.assertRaises(ValueError):
                self.task.write_document(*args, **options)
        for number in range(16):
            self.task.write_document(str(number), "x")
        with self.assertRaisesRegex(ValueError, "at most 16"):
            self.task.delete_document("16")

    def test_a_host_without_documents_is_not_asked(self):
        task = Task(_wire.decode_run(b"\x08\x07"), Outbox(Host(), lambda *timer: None))
        with self.assertRaises(Permanent) as refused:
            task.read_document("a")
        self.assertEqual(refused.exception.error_class, "unsupported")
        self.assertIn(b"ok", _answer.result(task, "ok", Host()))  # the handler has gone on without
        task = Task(_wire.decode_run(b"\x08\x07"), Outbox(Host(), lambda *timer: None))
        with self.assertRaises(Permanent):
            task.write_document("a", "x")
        self.assertIn(b"unsupported", _answer.result(task, "ok", Host()))  # it would be lost

    def test_without_a_host_there_are_none(self):
        self.assertEqual(Task(_wire.decode_run(b"")).read_document("a"), Document("a"))


class Steps(unittest.TestCase):
    def test_records_are_those_of_other_languages(self):
        with open(VECTORS, encoding="utf-8") as f:
            vectors = json.load(f)
        self.assertGreater(len(vectors), 10)
        for v in vectors:
            for form in both(self.flow_of(v)):
                with self.subTest(v["name"], form=form.__name__):
                    store = Store()
                    checkpoint = json.dumps(v["record"]) if "record" in v else v.get("text", "")
                    family = [_wire.ChildSet(**s) for s in v.get("family", [])]
                    end = attempt(form, checkpoint.encode(), self.woken_of(v.get("woken")), store, children=family)
                    self.assertEqual(end.error_class, v.get("class"), end.message)
                    if "after" in v:
                        self.assertEqual(value(store.checkpoints[-1].decode()), value(json.dumps(v["after"])))
                    elif v["class"] == "steps_changed":
                        self.assertTrue(end.permanent)

    def woken_of(self, w):
        if w is None or w["by"] != "signal":
            return w and _wire.Woken(BY[w["by"]])
        data, signal = base64.b64decode(w["data"]), bytes.fromhex(w["id"].replace("-", ""))
        return _wire.Woken(_wire.BY_SIGNAL, signal, w["name"], w["at_us"], data)

    def flow_of(self, v):
        async def flow(task, step, wait, sleep):
            for s in v.get("flow", []):
                if s.get("sleep"):
                    await sleep(3600)
                elif "run" in s:
                    got = task.run_children(s["run"], *[Child("a")] * s["count"])
                    got = await got if inspect.isawaitable(got) else got
                    counts = {name: getattr(got, name) for name in ("count", "done", "failed", "cancelled")}
                    self.assertEqual(counts, {"done": 0, "failed": 0, "cancelled": 0, **s["ended"]})
                    self.assertEqual([got.id(i) for i in range(got.count)], s["ids"])
                elif "wait" in s:
                    woken, want = await wait(*s["wait"], timeout=3600), s["woken"]
                    self.assertEqual(woken.by, want["by"])
                    if woken.by == "signal":
                        at = round((woken.at - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(microseconds=1))
                        data = base64.b64encode(woken.data).decode()
                        self.assertEqual(
                            (woken.id, woken.name, at, data), (want["id"], want["name"], want["at_us"], want["data"])
                        )
                elif "fails" in s:
                    try:
                        await step(s["step"], self.fail_with, s["fails"])
                    except Permanent:
                        pass
                elif "error" in s:
                    with self.assertRaises(StepError) as caught:
                        await step(s["step"], self.fail, "it ran")
                    e = caught.exception
                    got = {"message": str(e), "class": e.error_class, "permanent": e.permanent}
                    self.assertEqual(got, {"class": "", "permanent": False, **s["error"]})
                else:
                    self.assertEqual(await step(s["step"], self.fail, "it ran"), s["result"])
            then = v.get("then")
            if then is None:
                return

            def work():
                self.assertEqual(task.step_key, v.get("key", task.step_key))
                return then["result"]

            self.assertEqual(task.step_key, v.get("key", task.step_key))
            self.assertEqual(await step(then["step"], work), then["result"])

        return flow

    def test_a_flow_adds_children_and_waits_for_them(self):
        for form in both(self.runs_children):
            end = attempt(form)
            self.assertEqual(end.children, [{"set": "page", "type": "render"}, {"set": "page", "type": "render"}])
            self.assertEqual(end.children_waits, [_wire._bytes(1, b"page")])
            kept = {"kind": "children", "name": "page", "children": {"count": 2}}
            self.assertEqual(json.loads(end.checkpoint)["done"], [kept])
            resumed = [_wire.ChildSet("page", 2, 1)]  # by a user
            end = attempt(form, end.checkpoint, _wire.Woken(_wire.BY_USER), children=resumed)
            self.assertEqual((end.children, end.children_waits), ([], [_wire._bytes(1, b"page")]))
            lost = attempt(form, end.checkpoint, _wire.Woken(_wire.BY_CHILDREN))
            self.assertTrue(lost.permanent and "lost its children" in lost.message, lost.message)

    def test_a_host_without_children_gets_an_error(self):
        for form in both(self.runs_children):
            end = attempt(form, store=Store(("checkpoint", "wait", "rerun", "children")))
            self.assertEqual((end.error_class, end.permanent, end.children), ("unsupported", True, []))

    async def runs_children(self, task, step, wait, sleep):
        ended = task.run_children("page", Child("render"), Child("render"))
        return (await ended if inspect.isawaitable(ended) else ended).done

    def fail_with(self, f):
        raise Permanent(f["message"], error_class=f["class"])

    def test_a_flow_goes_on_behind_its_wait(self):
        ran = []

        async def order(task, step, wait, sleep):
            amount = await step("charge", lambda n: ran.append("charge") or n, 7)
            await sleep(timedelta(minutes=1))
            woken = await wait("paid", "void", timeout=timedelta(hours=1))
            return [amount, woken.by, await step("ship", lambda: ran.append("ship") or woken.data.decode())]

        for form in both(order):
            ran.clear()
            first = attempt(form)
            self.assertEqual((ran, first.delay, first.at, first.waits), (["charge"], 60_000_000, 0, None))
            second = attempt(form, first.checkpoint)
            self.assertEqual((second.delay, second.at, second.waits), (3_600_000_000, 0, ["paid", "void"]))
            third = attempt(form, second.checkpoint)  # something else has made it ready
            until = json.loads(second.checkpoint)["done"][2]["until"]
            at = datetime.fromisoformat(until.replace("Z", "+00:00"))
            self.assertEqual((third.delay, third.at / 1e6, third.waits), (0, at.timestamp(), ["paid", "void"]))
            woken = _wire.Woken(_wire.BY_SIGNAL, bytes(16), "paid", 1, b"cash")
            fourth = attempt(form, third.checkpoint, woken)
            self.assertEqual((ran, json.loads(fourth.result)), (["charge", "ship"], [7, "signal", "cash"]))

    def test_a_result_is_what_json_makes_of_it(self):
        async def order(task, step, wait, sleep):
            first = await step("a", lambda: (1, 2))
            first.append(3)  # it is the handler's
            return [first, await step("b", lambda: {1: "x"}), await step("a", lambda: None)]

        for form in both(order):
            store = Store()
            end = attempt(form, store=store)
            self.assertEqual(json.loads(end.result), [[1, 2, 3], {"1": "x"}, None])
            self.assertEqual(json.loads(store.checkpoints[-1])["done"][0]["result"], [1, 2])

    def test_a_failure_is_kept_when_the_handler_goes_on_and_before_the_next_step_begins(self):
        ran, stored = [], []

        async def order(task, step, wait, sleep):
            def reserve():
                ran.append("reserve")
                raise LookupError("none is left")

            def refund():
                stored.append(len(store.checkpoints))
                ran.append("refund")
                raise Retry("no answer")

            try:
                await step("reserve", reserve)
            except Exception as e:
                self.assertEqual((str(e), isinstance(e, StepError)), ("none is left", len(ran) > 1))
                await step("refund", refund)

        for form in both(order):
            ran.clear(), stored.clear()
            store = Store()
            first = attempt(form, store=store)
            self.assertEqual((first.message, first.permanent, stored), ("no answer", False, [1]))
            attempt(form, store.checkpoints[-1], store=store)
            self.assertEqual(ran, ["reserve", "refund", "refund"])

    def test_a_failure_that_is_passed_on_is_not_kept(self):
        async def order(task, step, wait, sleep):
            await step("charge", lambda: 1)
            await step("reserve", self.fail_with, {"message": "no", "class": "x"})

        for form in both(order):
            store = Store()
            end = attempt(form, store=store)
            self.assertEqual((end.message, end.permanent, len(store.checkpoints)), ("no", True, 1))

    def test_no_step_begins_when_the_task_is_cancelled(self):
        ran = []

        async def order(task, step, wait, sleep):
            def reserve():
                task._cancel("cancelled", "the node stops")
                raise OSError("the connection was closed")

            try:
                await step("reserve", reserve)
            except Exception:
                await step("refund", ran.append, 1)
            return "refunded"

        for form in both(order):
            end = attempt(form)
            self.assertIn("the connection was closed", end.message)
            end = attempt(form, cancel="not wanted")
            self.assertEqual((end.message, end.error_class), ("cancelled: not wanted", "cancelled"))
            end = attempt(form, time_left=-1)
            self.assertEqual(end.error_class, "cancelled")
        self.assertEqual(ran, [])

    def test_a_step_that_is_not_stored_ends_the_attempt(self):
        ran = []

        async def order(task, step, wait, sleep):
            try:
                await step("charge", lambda: 1)
            except Exception:
                pass
            await step("ship", ran.append, 1)
            return "fine"

        for form in both(order):
            end = attempt(form, store=Store(fault="the disk is full"))
            self.assertEqual((end.error_class, end.permanent), ("NotStored", False))
            end = attempt(form, store=Store(features=()))
            self.assertEqual((end.error_class, end.permanent), ("unsupported", True))
        self.assertEqual(ran, [])

    def test_what_cannot_be_kept_ends_the_task(self):
        for work, error_class in (
            (lambda: float("nan"), "bad_result"),
            (lambda: {1, 2}, "bad_result"),
            (lambda: "\udcff", "bad_result"),
            (lambda: "x" * MAX_CHECKPOINT, "steps_too_large"),
        ):

            async def order(task, step, wait, sleep, work=work):
                await step("a", work)

            for form in both(order):
                end = attempt(form)
                self.assertEqual((end.error_class, end.permanent), (error_class, True), end.message)

    def test_a_task_keeps_the_version_with_which_it_began(self):
        async def order(task, step, wait, sleep):
            return str(task.step_version)

        began = json.dumps({"steps": 1, "version": 2, "done": []}).encode()
        for form in both(order):
            self.assertEqual(attempt(form, began, version=3, oldest=1).result, b"2")
            self.assertEqual(attempt(form, version=3).result, b"3")
            self.assertEqual(attempt(form, began, version=3).error_class, "steps_changed")
            newer = attempt(form, began)
            self.assertEqual((newer.error_class, newer.permanent), ("steps_newer", False))
        for versions in ((0, None), (1, 2), (2, 0), (1, -1)):
            with self.subTest(versions), self.assertRaises(ValueError):
                Program().handler("a", version=versions[0], oldest=versions[1])(print)
        for options in ({"version": 1, "batch": 5}, {"oldest": 1}):
            with self.subTest(options), self.assertRaises(ValueError):
                Program().handler("a", **options)

    def test_each_occurrence_of_a_recurring_task_has_its_own_steps(self):
        keys = []

        async def bill(task, step, wait, sleep):
            await step("bill", lambda: keys.append(task.step_key))
            raise Again(1, payload="next")

        async def asks_too_much(task, step, wait, sleep):
            raise WaitFor("paid", checkpoint="mine")

        for form in both(bill):
            first = attempt(form)
            attempt(form, first.checkpoint)
            self.assertEqual(json.loads(first.checkpoint), {"steps": 1, "version": 0, "done": [], "occurrence": 1})
        self.assertEqual(len(set(keys)), 2)
        for form in both(asks_too_much):
            self.assertTrue(attempt(form).permanent)

    def test_what_ends_an_attempt_cannot_be_swallowed(self):
        async def order(task, step, wait, sleep):
            try:
                await wait("paid")
            except BaseException:
                pass
            try:
                await step("ship", lambda: 1)
            except BaseException:
                return "fine"

        for form in both(order):
            self.assertEqual(attempt(form).waits, ["paid"])

    def test_a_verdict_of_a_step_ends_the_attempt(self):
        for verdict in (Snooze(5), Again(1), WaitFor("paid")):

            async def order(task, step, wait, sleep, verdict=verdict):
                try:
                    await step("charge", self.throw, verdict)
                except Exception:
                    await step("refund", self.fail, "it ran")

            for form in both(order):
                self.assertIsNone(attempt(form).error_class)
        for verdict in (
            InDoubt("a", error_class="c"),
            RetryIn(5, "a", error_class="c"),
            Permanent("a", error_class="c"),
        ):

            async def order(task, step, wait, sleep, verdict=verdict):
                await step("charge", self.throw, verdict)

            for form in both(order):
                self.assertEqual(attempt(form).error_class, "c")

    def throw(self, e):
        raise e

    def test_a_coroutine_may_be_a_step_of_a_coroutine_and_of_no_function(self):
        async def work(n):
            await asyncio.sleep(0)
            return n

        async def coroutine(task):
            return await task.step("a", work, n=7)

        self.assertEqual(attempt(coroutine).result, b"7")
        end = attempt(lambda task: task.step("a", work, 7))
        self.assertEqual(end.error_class, "TypeError")

    def test_steps_run_one_after_the_other(self):
        async def order(task):
            async def work():
                await asyncio.sleep(0)

            await asyncio.gather(task.step("a", work), task.step("b", work))

        end = attempt(order)
        self.assertTrue(end.permanent and "one after the other" in end.message, end.message)

    def test_a_handler_without_a_version_has_no_steps(self):
        task = Task(_wire.decode_run(b""))
        for use in (
            lambda: task.step("a", print),
            lambda: task.wait_for("a"),
            lambda: task.sleep(1),
            lambda: task.step_key,
        ):
            with self.assertRaisesRegex(RuntimeError, "version=1"):
                use()


class Processes(h.ProcessTest):
    PROGRAM = """if True:
        import os
        from taskengine import handler, run

        @handler("function", version=1)
        def function(task):
            task.step("a", lambda: 1)
            task.step("b", os.close, os.open(task.text(), os.O_CREAT | os.O_WRONLY))
            return task.wait_for("paid").text()

        @handler("coroutine", version=1)
        async def coroutine(task):
            await task.step("a", lambda: 1)
            await task.step("b", os.close, os.open(task.text(), os.O_CREAT | os.O_WRONLY))
            return (await task.wait_for("paid")).text()
        run()
    """

    def test_no_step_begins_before_the_one_before_is_stored(self):
        for task_type in ("function", "coroutine"):
            with self.subTest(task_type):
                file = os.path.join(self.directory.name, task_type)
                _, host = self.connected("-c", self.PROGRAM)
                host.stores = False
                host.say(h.run(1, task_type, file.encode()))
                host.wait_for(lambda host=host: host.heard[_wire.CHECKPOINT])
                self.assertFalse(os.path.exists(file))
                host.stored(1, 1)
                host.wait_for(lambda host=host: len(host.heard[_wire.CHECKPOINT]) == 2)
                self.assertTrue(os.path.exists(file))
                self.assertNotIn(1, host.finishes)
                host.stored(1, 2)
                again = h.fields(host.finish(1)[5][0])
                self.assertEqual(again[5], [_wire.wait(["paid"])])
                woken = (
                    _wire._int(1, 1) + _wire._bytes(2, bytes(16)) + _wire._text(3, "paid") + _wire._bytes(5, b"cash")
                )
                host.say(h.run(2, task_type, file.encode(), checkpoint=again[4][0], woken=woken))
                self.assertEqual(host.result(2), "cash")


if __name__ == "__main__":
    unittest.main()
