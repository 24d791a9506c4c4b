"""The clients against a real node."""

import asyncio
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import unittest.mock
import uuid
from concurrent import futures
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import grpc

from taskengine import client
from taskengine.client import (
    AsyncClient,
    Client,
    Invalid,
    NewTask,
    NotFound,
    Rate,
    Receipt,
    ScheduleDefinition,
    ScheduleTask,
)

from .node import PATIENCE, NodeTest

# A certificate for localhost that was valid in January 2020, its key, and its authority, which is valid.
EXPIRED = pathlib.Path(__file__).resolve().parents[2] / "expired"


def on_both(test):
    """Runs a test, a coroutine that is given a client for coroutines, with either client."""

    def run(self):
        with self.subTest("Client"), Client(self.node.address) as c:
            asyncio.run(test(self, Blocking(c)))
        with self.subTest("AsyncClient"):
            asyncio.run(self.with_async(test))

    run.__doc__ = test.__doc__
    return run


class Blocking:
    """A client that blocks, as if it were one for coroutines."""

    def __init__(self, c):
        self.client = c

    def __getattr__(self, name):
        method = getattr(self.client, name)
        if name in (
            "tasks",
            "schedules",
            "tree",
            "platforms",
            "bulk_jobs",
            "documents",
            "events",
            "logs",
            "ordering_keys",
            "ordering_key_tasks",
        ):
            return lambda *args, **named: over(method(*args, **named))
        return lambda *args, **named: asyncio.to_thread(method, *args, **named)


WORKFLOW = {
    "steps": {
        "say": {"type": "echo", "payload": {"$input": ""}, "compensate": {"type": "echo"}},
        "wait": {"after": ["say"], "wait": {"signal": "go", "timeout": "1h"}},
    },
    "output": {"$result": "say"},
}


async def when(c, key, holds):
    """The workflow with a key, when something holds of it."""
    end = time.monotonic() + PATIENCE
    while True:
        found = await c.workflow_of(key)
        if holds(found):
            return found
        if time.monotonic() > end:
            raise AssertionError(found)
        await asyncio.sleep(0.01)


async def over(items):
    for item in items:
        yield item


class Verbs(NodeTest):
    async def with_async(self, test):
        async with AsyncClient([self.node.address]) as c:
            await test(self, c)

    @on_both
    async def test_a_task_is_submitted_and_its_result_is_read(self, c):
        key = str(uuid.uuid4())
        expires = datetime.now(timezone.utc) + timedelta(hours=1)
        receipt = await c.submit(
            "echo", {"to": "ä"}, key=key, headers={"h": "v"}, priority=3, expires_at=expires, ordering_key=key
        )
        self.assertEqual((receipt.created, receipt.outcome), (True, "created"))
        self.assertEqual(await c.result(receipt.id, timeout=PATIENCE), {"to": "ä"})
        self.assertEqual(await c.result(receipt.id, bytes), b'{"to":"\\u00e4"}')
        self.assertEqual(await c.result(receipt.id, lambda v: v["to"]), "ä")
        again = await c.submit("echo", "x", key=key, ordering_key=key)
        self.assertEqual(again, client.Receipt(receipt.id, False, "existing"))
        task = await c.find("echo", key, key)
        self.assertEqual((task.id, task.state, task.priority, task.headers), (receipt.id, "done", 3, {"h": "v"}))
        self.assertTrue(task.has_ended)
        self.assertEqual(task.expires_at, expires)

    @on_both
    async def test_the_result_of_a_task_that_fails_is_an_error(self, c):
        failed = await c.submit("fail")
        with self.assertRaises(client.NotDone) as caught:
            await c.result(failed.id, timeout=PATIENCE)
        self.assertEqual((caught.exception.id, caught.exception.state), (failed.id, "error"))
        self.assertIn("exit", caught.exception.reason)

    @on_both
    async def test_a_removed_result_is_no_empty_one(self, c):
        key = str(uuid.uuid4())
        receipt = await c.submit("brief", {"to": "a"}, key=key)
        for convert in (None, bytes):
            with self.assertRaises(client.ResultRemoved) as caught:
                await c.result(receipt.id, convert, timeout=PATIENCE)
            self.assertEqual(caught.exception.id, receipt.id)
        again = await c.submit("brief", {"to": "a"}, key=key)
        self.assertEqual(again, client.Receipt(receipt.id, False, "already_done"))
        task = await c.find("brief", key)
        self.assertEqual((task.id, task.state, task.result, task.tombstone), (receipt.id, "done", b"", True))
        self.assertTrue(task.node)
        empty = await c.submit("echo", None)
        task = await c.wait(empty.id, timeout=PATIENCE)
        self.assertEqual((await c.result(empty.id), task.tombstone), (None, False))

    @on_both
    async def test_tasks_are_managed(self, c):
        receipt = await c.submit("idle", delay=timedelta(hours=1))
        self.assertEqual((await c.why(receipt.id))[0].code, "scheduled")
        at = datetime(2100, 1, 1, tzinfo=timezone.utc)
        self.assertEqual((await c.reschedule(receipt.id, at=at)).next_event_at, at)
        self.assertLess((await c.reschedule(receipt.id, delay=60)).next_event_at, at)
        with self.assertRaises(client.Conflict):
            await c.cancel(receipt.id, version=1)
        self.assertEqual((await c.resume(receipt.id)).state, "submitted")
        self.assertEqual((await c.cancel(receipt.id, "no need")).error, "no need")
        with self.assertRaises(client.NotAllowed):
            await c.cancel(receipt.id)
        self.assertEqual((await c.resume(receipt.id)).state, "submitted")
        self.assertEqual((await c.fail(receipt.id, "no", version=0)).state, "failed")
        self.assertEqual((await c.wait(receipt.id)).state, "failed")

    @on_both
    async def test_a_task_is_submitted_with_its_children(self, c):
        key = str(uuid.uuid4())
        task = NewTask("echo", {"all": 1}, key=key)
        receipt = await c.submit_with_children(task, [NewTask("echo", 1), NewTask("echo", 2)], name="page")
        self.assertTrue(receipt.created)
        again = await c.submit_with_children(task, [NewTask("echo", 1)], name="page")
        self.assertEqual((again.id, again.created), (receipt.id, False))
        self.assertEqual(await c.result(receipt.id, timeout=PATIENCE), {"all": 1})
        self.assertTrue((await c.submit_with_children(NewTask("echo"), [])).created)
        for wrong in (NewTask("echo", key="k"), NewTask("echo", id=uuid.uuid4())):
            with self.assertRaises(Invalid):
                await c.submit_with_children(NewTask("echo"), [wrong])
        with self.assertRaises(Invalid):
            await c.submit_with_children(NewTask("echo"), [NewTask("echo")], count=2)

    @on_both
    async def test_more_children_than_a_request_may_have_are_added_in_several(self, c):
        task = NewTask("echo", {"all": 1}, key=str(uuid.uuid4()))
        children = [NewTask("echo", i) for i in range(7)]
        with unittest.mock.patch("taskengine.client._children.MAX_CHILDREN", 3):
            receipt = await c.submit_with_children(task, children, name="page")
            again = await c.submit_with_children(task, children, name="page")
        self.assertEqual((receipt.created, again.created, again.id), (True, False, receipt.id))
        self.assertEqual(await c.result(receipt.id, timeout=PATIENCE), {"all": 1})
        of = (await c.get(receipt.id)).children[0]
        self.assertEqual((of.name, of.added, of.done, of.open), ("page", 7, 7, False))

    @on_both
    async def test_a_list_that_fits_into_one_request_closes_open_children(self, c):
        task = NewTask("echo", key=str(uuid.uuid4()))
        children = [NewTask("echo", i) for i in range(8)]
        with unittest.mock.patch("taskengine.client._children.MAX_CHILDREN", 3):
            with self.assertRaises(Invalid):
                await c.submit_with_children(task, [*children[:7], NewTask("echo", key="k")])
        receipt = await c.submit_with_children(task, children)
        self.assertFalse(receipt.created)
        self.assertEqual((await c.wait(receipt.id, timeout=PATIENCE)).state, "done")
        of = (await c.get(receipt.id)).children[0]
        self.assertEqual((of.added, of.open), (8, False))

    @on_both
    async def test_children_of_a_caller_that_failed_are_continued(self, c):
        task = NewTask("echo", key=str(uuid.uuid4()))
        children = [NewTask("echo", i) for i in range(8)]
        with unittest.mock.patch("taskengine.client._children.MAX_BYTES", 40):
            with self.assertRaises(Invalid):
                await c.submit_with_children(task, [*children[:7], NewTask("echo", key="k")])
            of = (await c.get((await c.find("echo", task.key)).id)).children[0]
            self.assertEqual((of.open, 0 < of.added < 8), (True, True))
            receipt = await c.submit_with_children(task, children, count=2)
        self.assertEqual((await c.wait(receipt.id, timeout=PATIENCE)).state, "done")
        of = (await c.get(receipt.id)).children[0]
        self.assertEqual((of.added, of.open), (8, False))

    @on_both
    async def test_children_are_left_open_added_and_closed(self, c):
        task, one = NewTask("echo", {"all": 1}, key=str(uuid.uuid4())), NewTask("echo", 1)
        opened = await c.submit_open(task, [one, one], name="page")
        again = await c.submit_open(task, [one, one], name="page")
        self.assertEqual((opened.created, again.created, again.id), (True, False, opened.id))
        with unittest.mock.patch("taskengine.client._children.MAX_CHILDREN", 3):
            for start, n, added in ((2, 0, 2), (0, 0, 2), (2, 3, 5), (2, 3, 5), (4, 2, 6), (6, 7, 13)):
                found = await c.add_children(opened.id, start, [one] * n, name="page")
                self.assertEqual(found, client.ChildrenAdded(added, True))
            self.assertTrue((await c.get(opened.id)).children[0].open)
            for _ in range(2):  # also when it is done
                closed = await c.close_children(opened.id, 11, [one] * 4, name="page", count=15)
                self.assertEqual((closed.added, closed.open), (15, False))
                self.assertEqual(await c.result(opened.id, timeout=PATIENCE), {"all": 1})
            many = await c.submit_open(NewTask("echo"), [one] * 7, until=time.time() + 3600)
        self.assertEqual((await c.add_children(many.id, 0)).added, 7)
        self.assertFalse((await c.close_children(many.id, 7, or_failed=True)).open)
        self.assertEqual((await c.wait(many.id, timeout=PATIENCE)).state, "done")

    @on_both
    async def test_why_children_are_refused_is_an_error_of_its_own(self, c):
        closed, ended, other = [(await c.submit_open(NewTask("echo"))).id for _ in range(3)]
        await c.close_children(closed, 0, [NewTask("idle")])
        await c.cancel_tree(ended)
        for id, start, kind, parent in (
            (closed, 1, client.ChildrenClosed, client.NotAllowed),
            (ended, 0, client.TaskEnded, client.NotAllowed),
            (other, 1 << 20, client.TooManyChildren, Invalid),
            (other, 1, client.NotAllowed, client.NotAllowed),
            (uuid.uuid4(), 0, NotFound, NotFound),
        ):
            with self.subTest(kind), self.assertRaises(kind) as caught:
                await c.add_children(id, start, [NewTask("idle")])
            self.assertEqual((type(caught.exception), isinstance(caught.exception, parent)), (kind, True))
        for wrong in (-1, 1 << 32):
            with self.assertRaises(Invalid):
                await c.add_children(other, wrong)
        await c.cancel_tree(other)

    @on_both
    async def test_a_tree_is_read_and_cancelled(self, c):
        children = [NewTask("idle", i) for i in range(1001)]
        root = await c.submit_with_children(
            NewTask("echo"), children, count=7, or_failed=True, until=time.time() + 3600
        )
        tree = [one async for one in c.tree(root.id)]
        self.assertEqual([one.depth for one in tree], [0] + [1] * 1001)
        self.assertEqual([one.task.parent.index for one in tree[1:]], list(range(1001)))
        of = tree[0].task.children[0]
        self.assertEqual((of.name, of.added, of.awaits, of.or_failed), ("child", 1001, 7, True))
        cancelled = await c.cancel_tree(root.id, "no need")
        self.assertEqual((cancelled.task.state, cancelled.task.error), ("cancelled", "no need"))
        self.assertEqual((cancelled.cancelled, cancelled.missing), (1002, 0))
        self.assertEqual((await c.cancel_tree(root.id)).cancelled, 0)

    @on_both
    async def test_a_signal_is_sent_once(self, c):
        key, signal_id = str(uuid.uuid4()), uuid.uuid4()
        receipt = await c.submit("idle", key=key)
        self.assertEqual((await c.signal("paid", id=receipt.id)).outcome, "dropped")
        for outcome in ("kept", "repeated"):
            got = await c.signal("paid", {"cents": 5}, type="idle", key=key, keep=True, request_id=signal_id)
            self.assertEqual((got.outcome, got.task.id), (outcome, receipt.id))
        kept = (await c.get(receipt.id)).kept_signals
        self.assertEqual([(s.name, s.data) for s in kept], [("paid", b'{"cents":5}')])
        with self.assertRaises(Invalid):
            await c.signal("paid")
        with self.assertRaises(NotFound):
            await c.signal("paid", id=uuid.uuid4())

    @on_both
    async def test_a_workflow_is_submitted_read_and_retried(self, c):
        key = str(uuid.uuid4())
        receipt = await c.submit_workflow(definition=WORKFLOW, input=[7], key=key, headers={"h": "v"})
        self.assertTrue(receipt.created)
        again = await c.submit_workflow(definition=WORKFLOW, key=key)
        self.assertEqual((again.id, again.created), (receipt.id, False))
        waits = await when(c, key, lambda w: w.steps[1].state == "running")
        say, last = waits.steps
        self.assertEqual((say.name, say.type, say.state, say.count, say.done), ("say", "echo", "done", 1, 1))
        self.assertEqual((len(say.task_ids), last.signal, last.after), (1, "go", ("say",)))
        self.assertEqual((say.ended is None, last.until is None, last.ended), (False, False, None))
        self.assertEqual((waits.task.id, waits.task.headers), (receipt.id, {"h": "v"}))
        with self.assertRaises(client.NotAllowed):
            await c.retry_workflow(receipt.id)
        self.assertEqual((await c.cancel_tree(receipt.id, "no need")).cancelled, 1)
        with self.assertRaises(client.Conflict):
            await c.retry_workflow(receipt.id, version=1)
        self.assertEqual((await c.retry_workflow(receipt.id, from_step="say")).retries, 1)
        await c.signal("go", id=receipt.id, keep=True)
        self.assertEqual((await when(c, key, lambda w: w.task.has_ended)).output, "[7]")
        self.assertEqual((await c.workflow(receipt.id)).task.state, "done")

    @on_both
    async def test_a_workflow_is_that_of_the_configuration(self, c):
        key, at = str(uuid.uuid4()), datetime(2100, 1, 1, tzinfo=timezone.utc)
        receipt = await c.submit_workflow("say", input="[8]", key=key)
        done = await when(c, key, lambda w: w.task.has_ended)
        self.assertEqual((done.name, done.output, done.task.id), ("say", "[8]", receipt.id))
        own = uuid.uuid4()
        later = await c.submit_workflow("say", priority=2, at=at, id=own)
        task = (await c.workflow(later.id)).task
        self.assertEqual((task.id, task.priority, task.ready_at), (str(own), 2, at))
        for wrong in ({}, {"definition": "{"}, {"name": "say", "input": b"\xff"}, {"name": "say", "priority": 10}):
            with self.subTest(wrong), self.assertRaises(Invalid):
                await c.submit_workflow(**wrong)
        for call in (c.submit_workflow("none"), c.workflow(uuid.uuid4())):
            with self.assertRaises(NotFound):
                await call

    @on_both
    async def test_tasks_are_listed_by_pages_and_counted(self, c):
        kind = "list-%s" % uuid.uuid4()
        receipts = await c.submit_each([NewTask(kind, i, key="k%d" % (i % 7)) for i in range(1107)])
        ids = {r.id for r in receipts}
        self.assertEqual(len(ids), 7)
        more = await c.submit_all([NewTask(kind) for _ in range(250)])
        self.assertTrue(all(r.created for r in more))
        ids |= {r.id for r in more}
        self.assertEqual({t.id async for t in c.tasks(types=[kind], states=["submitted"])}, ids)
        self.assertEqual([t.id async for t in c.tasks(types=[kind], key="k3")], [receipts[3].id])
        self.assertEqual([(s.state, s.count) for s in await c.count(types=[kind])], [("submitted", 257)])
        where = "type=%s state=submitted" % kind
        self.assertEqual([(s.type, s.count) for s in await c.count(where=where)], [(kind, 257)])
        self.assertEqual(list(await c.count(types=[kind], where="state=done")), [])

    @on_both
    async def test_limits_are_changed(self, c):
        value = str(uuid.uuid4())
        limits, silent = await c.limits()
        self.assertIn("partner", [x.name for x in limits if not x.value])
        self.assertEqual(list(silent), [])
        rate = Rate(20, timedelta(seconds=1))
        changed = await c.set_limit("partner", value, max=0, rate=rate, paused=True, by="eve")
        self.assertEqual(
            (changed.setting.max, changed.setting.rate, changed.setting.by), (0, rate, "unknown (says eve)")
        )
        with self.assertRaises(client.Conflict):
            await c.set_limit("partner", value, max=5, if_version=changed.setting.version + 1)
        self.assertTrue((await c.limit("partner", value)).paused)
        self.assertIsNone((await c.unset_limit("partner", value)).setting)
        with self.assertRaises(client.NotFound):
            await c.limit("nothing")

    @on_both
    async def test_the_tasks_that_wait_for_a_limit_are_counted(self, c):
        value = str(uuid.uuid4())
        await c.set_limit("partner", value, paused=True)
        receipt = await c.submit("limited", key=value)
        why = await c.why_limit("partner", value)
        self.assertEqual(
            (why.limit.name, why.limit.value, why.limit.paused, why.limit.used), ("partner", value, True, 0)
        )
        self.assertEqual([(q.type, q.tasks, q.node != "") for q in why.queued], [("limited", 1, True)])
        self.assertEqual((why.tasks, why.nodes, why.nodes_problem, why.silent, why.next_start), ((), (), "", (), None))
        await c.unset_limit("partner", value)
        await c.wait(receipt.id, timeout=PATIENCE)
        self.assertEqual((await c.why_limit("partner", value)).queued, ())
        with self.assertRaises(client.NotFound):
            await c.why_limit("nothing")

    @on_both
    async def test_sources_are_ordered(self, c):
        async def carried_out():
            end = time.monotonic() + PATIENCE
            while (found := await c.source("orders")).orders:
                self.assertLess(time.monotonic(), end, found)
                await asyncio.sleep(0.05)
            return found

        self.assertEqual([s.name for s in await c.sources()], ["orders"])
        found = await c.source("orders")
        self.assertEqual((found.topics, found.lag, found.partitions), (("orders",), None, ()))
        self.assertEqual((await c.pause_source("orders", "holiday")).name, "orders")
        self.assertEqual((await carried_out()).paused.reason, "holiday")
        await c.resume_source("orders")
        self.assertIsNone((await carried_out()).paused)
        self.assertEqual(
            await c.seek_source("orders", time=datetime(2026, 3, 28, tzinfo=timezone.utc), dry_run=True), []
        )
        await c.seek_source("orders", begin=True)
        with self.assertRaises(NotFound):
            await c.source("order")
        with self.assertRaises(NotFound):
            await c.pause_source("order")
        for wrong in (
            {},
            {"begin": True, "end": True},
            {"offset": 1},
            {"end": True, "topic": "other"},
            {"begin": True, "partition": 1},
        ):
            with self.subTest(wrong), self.assertRaises(Invalid):
                await c.seek_source("orders", **wrong)

    @on_both
    async def test_kinds_of_errors_are_read_and_tasks_selected_by_a_filter(self, c):
        key = str(uuid.uuid4())
        failed = [(await c.submit("fail", key="%s-%d" % (key, i))).id for i in range(3)]
        for id in failed:
            await c.wait(id, timeout=PATIENCE)
        found = await c.error_kinds(types=["fail"], where="since=1h key=%s-*" % key)
        (kind,) = found.kinds
        self.assertEqual((found.tasks, found.others, found.complete, found.read >= 3), (3, 0, True, True))
        self.assertEqual((kind.tasks, kind.types, kind.sample in failed), (3, ("fail",), True))
        self.assertIn("exit", kind.error)
        self.assertLessEqual(kind.first, kind.last)
        listed = c.tasks(where='error.kind=%s error~"exit" since=1h key=%s-*' % (kind.kind, key))
        self.assertEqual([t.id async for t in listed], failed[::-1])
        many = "where-%s" % uuid.uuid4()
        await c.submit_all([NewTask(many) for _ in range(250)])
        self.assertEqual(len([t async for t in c.tasks(where="type=%s since=1h" % many)]), 250)
        with self.assertRaises(Invalid) as caught:
            await c.error_kinds(where="error.knd=5")
        self.assertIn("column 1", str(caught.exception))
        with self.assertRaises(Invalid):
            [t async for t in c.tasks(where="(")]

    @on_both
    async def test_time_slices_are_read_and_ordered(self, c):
        async def when(holds, name="north"):
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    found = await c.platform("shops", name)
                    if holds(found):
                        return found
                except NotFound:
                    found = None
                self.assertLess(time.monotonic(), end, found)
                await asyncio.sleep(0.02)

        start = datetime(2020, 1, 1, tzinfo=timezone.utc)
        found = await when(lambda p: p.slices and p.slices[0].failed_at)
        self.assertEqual((found.source, found.name, found.low_water), ("shops", "north", start))
        self.assertEqual((found.slices[0].start, found.slices[0].failed_at is None), (start, False))
        self.assertTrue(uuid.UUID(found.slices[0].task_id) and uuid.UUID(found.task_id))
        self.assertGreater(found.cursor_lag, timedelta(days=365))
        self.assertIn(("retries", "0", "file"), [(s.name, s.value, s.from_) for s in found.settings])
        why = {"by": "anna", "reason": str(uuid.uuid4())}
        for given, what in (
            (c.set_slices("shops", {"lag": "5m"}, "north", **why), "set lag=5m"),
            (c.set_slices("shops", {"lag": ""}, "north", **why), "set lag="),
            (c.pause_slices("shops", "north", **why), "pause"),
            (c.resume_slices("shops", "north", **why), "resume"),
            (c.remove_platform("shops", "north", **why), "remove"),
            (c.add_platform("shops", "north", **why), "add"),
            (c.retry_slices("shops", "north", start=start, end=time.time(), **why), "retry failed slices"),
            (c.reset_platform("shops", "north", start, **why), "reset the cursor to 2020-01-01T00:00:00Z"),
        ):
            self.assertEqual((await given).name, "north")
            said = ("unknown (says anna)", "%s: %s" % (what, why["reason"]))
            await when(lambda p, said=said: p.orders == 0 and said in [(h.by, h.what) for h in p.history])
        self.assertIsNone(await c.set_slices("shops", {"lag": "10m"}, **why))
        self.assertIsNone(await c.pause_slices("shops", **why))
        self.assertEqual((await when(lambda p: p.paused, "south")).paused.reason, why["reason"])
        self.assertIsNone(await c.resume_slices("shops", **why))
        self.assertIsNone(await c.retry_slices("shops", **why))
        await when(lambda p: p.paused is None and p.orders == 0, "south")
        self.assertEqual([p.name async for p in c.platforms("shops") if not p.removed], ["north", "south"])
        self.assertEqual([p.name async for p in c.platforms("shops", "s")], ["south"])
        source = await c.slice_source("shops")
        self.assertEqual((source.type, source.platform_count), ("fetch", 2))
        self.assertIn(("lag", "10m0s", "live"), [(s.name, s.value, s.from_) for s in source.values])
        self.assertEqual([s.name for s in await c.slice_sources()], ["shops"])
        for wrong in (c.slice_source("none"), c.platform("shops", "none"), c.pause_slices("none")):
            with self.assertRaises(NotFound):
                await wrong
        with self.assertRaises(client.Conflict):
            await c.reset_platform("shops", "north", start, cursor=start + timedelta(seconds=7))
        with self.assertRaises(Invalid):
            await c.set_slices("shops", {"interval": "often"}, "north")
        row = client.PlatformRow("west-%s" % uuid.uuid4(), {"interval": "2h"}, if_version=0)
        for dry, outcome in ((True, "created"), (False, "created"), (False, "unchanged")):
            self.assertEqual([a.outcome for a in await c.apply_platforms("shops", [row], dry_run=dry)], [outcome])
        self.assertIsNone(await c.pause_slices("shops", prefix="west-", **why))
        west = await when(lambda p: p.paused, row.name)
        self.assertEqual((west.version, west.own, west.configured), (1, {"interval": "2h0m0s"}, False))
        gone = client.PlatformRow(row.name, removed=True, if_version=7)
        self.assertEqual([(a.code, a.version) for a in await c.apply_platforms("shops", [gone])], [("aborted", 0)])
        gone = client.PlatformRow(row.name, removed=True)
        self.assertEqual([(a.outcome, a.version) for a in await c.apply_platforms("shops", [gone])], [("removed", 2)])
        with self.assertRaises(Invalid):
            await c.apply_platforms("shops", [client.PlatformRow("a/b")])

    @on_both
    async def test_schedules_are_managed(self, c):
        name = "nightly-%s" % uuid.uuid4()
        d = ScheduleDefinition(
            cron="30 2 * * *", timezone="Europe/Berlin", task=ScheduleTask("report", '"{{date}}"', headers={"a": "b"})
        )
        self.assertEqual(await c.apply_schedule(name, d), "created")
        self.assertEqual(await c.apply_schedule(name, d), "unchanged")
        found = await c.schedule(name)
        self.assertEqual((found.definition.cron, found.definition.task), (d.cron, d.task))
        times = await c.preview_schedule(name, start=datetime(2026, 3, 28, tzinfo=timezone.utc), count=2)
        self.assertEqual([t.moved_from for t in times], ["", "2026-03-29T02:30:00"])
        self.assertIn(name, [s.name async for s in c.schedules()])
        self.assertEqual((await c.pause_schedule(name, "holiday")).paused.reason, "holiday")
        self.assertIsNone((await c.resume_schedule(name)).paused)
        self.assertTrue(uuid.UUID(await c.trigger_schedule(name)))
        start, end = datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 11, tzinfo=timezone.utc)
        self.assertEqual(await c.backfill_schedule(name, start, end, dry_run=True), 10)
        await c.delete_schedule(name)
        with self.assertRaises(client.NotFound):
            await c.schedule(name)

    @on_both
    async def test_many_schedules_are_managed(self, c):
        prefix = "tenant-%s/" % uuid.uuid4()
        d = ScheduleDefinition(cron="30 2 29 2 *", task=ScheduleTask("report"))
        names = ["%s%03d" % (prefix, i) for i in range(101)]
        done = await c.apply_schedules(
            [*((name, d, 0) for name in names), ("wrong", ScheduleDefinition(cron="x", task=d.task))]
        )
        self.assertEqual(done[0], client.AppliedSchedule(names[0], "created", 1))
        self.assertEqual([one.outcome for one in done], ["created"] * 101 + [""])
        self.assertEqual(done[101].code, "invalid_argument")
        other = ScheduleDefinition(cron="30 3 29 2 *", task=d.task)
        self.assertEqual([one.code for one in await c.apply_schedules([(names[0], other, 7)])], ["aborted"])
        self.assertEqual([s.name async for s in c.schedules(prefix=prefix)], names)
        self.assertEqual((await c.pause_schedules(prefix, "late", dry_run=True)).changed, 101)
        self.assertEqual((await c.pause_schedules(prefix + "00", "late")).changed, 10)
        self.assertEqual([s.paused.reason async for s in c.schedules(prefix=prefix, paused=True)], ["late"] * 10)
        self.assertEqual(len([s async for s in c.schedules(prefix=prefix, failing=True)]), 0)
        changed = await c.resume_schedules(prefix)
        self.assertEqual((changed.changed, changed.unchanged, changed.failed), (10, 91, []))
        self.assertEqual((await c.delete_schedules(prefix)).changed, 101)
        self.assertEqual([s.name async for s in c.schedules(prefix=prefix)], [])
        with self.assertRaises(Invalid):
            await c.delete_schedules()

    @on_both
    async def test_errors_have_classes_of_their_own(self, c):
        for awaitable, kind in (
            (c.get(uuid.uuid4()), client.NotFound),
            (c.wait(uuid.uuid4()), client.NotFound),
            (c.get("nonsense"), client.Invalid),
            (c.submit(""), client.Invalid),
            (c.submit("idle", b"x" * (40 << 20)), client.TooLarge),
            (c.submit_all([NewTask("idle"), NewTask("idle", id="nonsense")]), client.Invalid),
            (c.wait((await c.submit("idle")).id, timeout=0.1), client.DeadlineExceeded),
        ):
            with self.assertRaises(kind) as caught:
                await awaitable
            self.assertIsInstance(caught.exception, client.Error)
        self.assertIsInstance(caught.exception, TimeoutError)

    @on_both
    async def test_of_many_tasks_those_are_added_that_can_be(self, c):
        got = await c.submit_each(
            [
                NewTask("idle"),
                NewTask("idle", id="nonsense"),
                NewTask("idle", object()),
                NewTask("idle", b"x" * (40 << 20)),
                NewTask("idle"),
            ]
        )
        kinds = [type(one) for one in got]
        self.assertEqual(kinds, [client.Receipt, client.Invalid, client.Invalid, client.TooLarge, client.Receipt], got)
        self.assertEqual(await c.submit_each([]), [])
        self.assertEqual(await c.submit_all([]), [])

    @on_both
    async def test_a_request_is_rejected_whose_key_is_taken(self, c):
        key = str(uuid.uuid4())
        first = await c.submit("strict", key=key, delay=3600)
        with self.assertRaises(client.AlreadyExists):
            await c.submit("strict", key=key, delay=3600)
        with self.assertRaises(client.AlreadyExists) as caught:
            await c.submit_all([NewTask("strict", key=key, delay=3600), NewTask("strict", delay=3600)])
        receipts = caught.exception.receipts
        self.assertEqual((receipts[0].id, receipts[0].outcome, receipts[1].created), (first.id, "rejected", True))
        each = await c.submit_each([NewTask("strict", key=key, delay=3600), NewTask("strict", delay=3600)])
        self.assertIsInstance(each[0], client.AlreadyExists)
        self.assertTrue(each[1].created)

    @on_both
    async def test_a_request_is_refused_that_is_late(self, c):
        late = NewTask("prompt", at=datetime.now(timezone.utc) - timedelta(hours=1))
        with self.assertRaises(client.Late):
            await c.submit("prompt", at=late.at)
        with self.assertRaises(client.Late) as caught:
            await c.submit_all([late, NewTask("prompt", delay=3600)])
        receipts = caught.exception.receipts
        self.assertEqual((receipts[0].outcome, receipts[1].created), ("late", True))
        each = await c.submit_each([late, NewTask("prompt", delay=3600)])
        self.assertIsInstance(each[0], client.Late)
        self.assertTrue(each[1].created)

    @on_both
    async def test_a_full_backlog_is_an_error_of_its_own(self, c):
        got = await c.submit_each([NewTask("full", delay=3600) for _ in range(3)])
        self.assertTrue(all(isinstance(one, client.BacklogFull) for one in got[1:]), got)
        with self.assertRaises(client.BacklogFull):
            await c.submit_all([NewTask("full", delay=3600)])

    @on_both
    async def test_an_id_of_the_caller_is_used_once(self, c):
        task_id = uuid.uuid4()
        first = await c.submit("idle", id=task_id)
        self.assertTrue(first.created)
        self.assertIn("no live node has a handler for type idle", first.warning)
        want = client.Receipt(str(task_id), False, "existing", first.warning)
        self.assertEqual(await c.submit("idle", id=str(task_id)), want)
        self.assertEqual(await c.submit_all([NewTask("idle", id=task_id)]), [want])


class Together(NodeTest):
    def test_threads_that_submit_share_messages_and_each_gets_its_own_receipt(self):
        kind, each, threads = "threads-%s" % uuid.uuid4(), 50, 16
        with Client(self.node.address) as c, futures.ThreadPoolExecutor(threads) as pool:

            def submit(thread):
                return [c.submit(kind, key="%d-%d" % (thread, i)) for i in range(each)]

            receipts = [r for made in pool.map(submit, range(threads)) for r in made]
            self.assertTrue(all(r.created for r in receipts))
            found = {t.id: t.key for t in c.tasks(types=[kind])}
            keys = ["%d-%d" % (thread, i) for thread in range(threads) for i in range(each)]
            self.assertEqual(found, dict(zip((r.id for r in receipts), keys)))

    def test_tasks_of_one_caller_are_added_in_their_order(self):
        kind = "order-%s" % uuid.uuid4()
        with Client(self.node.address) as c:
            receipts = c.submit_each([NewTask(kind, ordering_key="o", headers={"n": str(i)}) for i in range(3000)])
            self.assertTrue(all(isinstance(r, client.Receipt) for r in receipts))
            listed = list(c.tasks(types=[kind]))  # the newest first
        order = [int(t.headers["n"]) for t in sorted(listed, key=lambda t: (t.ready_at, t.id))]
        self.assertEqual(order, list(range(3000)))

    def test_coroutines_submit_together_and_one_that_is_cancelled_ends_no_other(self):
        async def main():
            async with AsyncClient(self.node.address) as c:
                ones = [asyncio.ensure_future(c.submit("idle", i)) for i in range(2000)]
                await asyncio.sleep(0)
                ones[7].cancel()
                got = await asyncio.gather(*ones, return_exceptions=True)
                self.assertIsInstance(got.pop(7), asyncio.CancelledError)
                self.assertTrue(all(r.created for r in got))

        asyncio.run(main())

    def test_what_decorate_returns_is_added(self):
        def decorate(task: NewTask) -> NewTask:
            return replace(task, type="idle", priority=2, headers={"by": "decorate", **(task.headers or {})})

        async def add() -> str:
            async with AsyncClient(self.node.address, decorate=decorate) as c:
                return (await c.submit("none", headers={"a": "task"})).id

        with Client(self.node.address, decorate=decorate) as c:
            task = NewTask("none", headers={"a": "task"})
            first = c.submit_each([task])[0]
            assert isinstance(first, Receipt)
            for task_id in (
                c.submit("none", headers={"a": "task"}).id,
                first.id,
                c.submit_all([task])[0].id,
                asyncio.run(add()),
            ):
                got = c.get(task_id)
                self.assertEqual((got.type, got.priority, got.headers), ("idle", 2, {"by": "decorate", "a": "task"}))

    def test_a_task_whose_decorate_raises_is_invalid_and_no_other(self):
        def decorate(task: NewTask) -> NewTask:
            if task.key == "bad":
                raise LookupError("no tenant")
            return task

        with Client(self.node.address, decorate=decorate) as c:
            good, bad = c.submit_each([NewTask("idle"), NewTask("idle", key="bad")])
            self.assertIsInstance(good, Receipt)
            self.assertIsInstance(bad, Invalid)
            for add in (
                lambda: c.submit("idle", key="bad"),
                lambda: c.submit_all([NewTask("idle"), NewTask("idle", key="bad")]),
            ):
                with self.assertRaisesRegex(Invalid, "LookupError: no tenant") as caught:
                    add()
                self.assertIsInstance(caught.exception.__cause__, LookupError)
            with self.assertRaises(NotFound):
                c.find("idle", "bad")

    def test_a_closed_client_says_so(self):
        c = Client(self.node.address)
        task_id = c.submit("idle").id
        c.close()
        for call in (lambda: c.get(task_id), lambda: c.submit("idle"), lambda: c.cancel(task_id)):
            with self.assertRaises(client.Closed):
                call()
        c.close()

    def test_a_program_that_closes_no_client_ends(self):
        text = "from taskengine import Client; c = Client(%r); c.cancel(c.submit('idle').id)" % self.node.address
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class Access(unittest.TestCase):
    """What a node is shown, by a server that only records it."""

    def serve(self, refusal=grpc.StatusCode.UNAUTHENTICATED, authority=None, **tls):
        self.seen = []

        def answer(_, context):
            self.seen.append(dict(context.invocation_metadata()).get("authorization"))
            return b""

        def stream(_, context):
            answer(b"", context)
            context.abort(refusal, "who are you")

        self.waits, self.leave = threading.Event(), threading.Event()
        self.addCleanup(self.leave.set)

        def wait(_, context):
            self.waits.set()
            self.leave.wait()
            return b""

        self.cancels = []

        def lose(_, context):
            self.cancels.append(1)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")

        methods = {
            "Cancel": grpc.unary_unary_rpc_method_handler(lose),
            "Wait": grpc.unary_unary_rpc_method_handler(wait),
            "Version": grpc.unary_unary_rpc_method_handler(answer),
            "Get": grpc.unary_unary_rpc_method_handler(answer),
            "SubmitStream": grpc.stream_stream_rpc_method_handler(stream),
        }
        server = grpc.server(futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("taskengine.v1.TaskService", methods),))
        if tls:
            port = server.add_secure_port(
                "localhost:0",
                grpc.ssl_server_credentials([(tls["key"], tls["certificate"])], authority, authority is not None),
            )
        else:
            port = server.add_insecure_port("localhost:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return "localhost:%d" % port

    def test_the_token_is_sent_with_every_request(self):
        with Client(self.serve(), token="secret") as c:
            c.get("x")
            with self.assertRaisesRegex(client.NotAllowed, "who are you"):
                c.submit("idle")
        self.assertEqual(set(self.seen), {"Bearer secret"})
        self.assertGreaterEqual(len(self.seen), 3)

    def test_a_call_that_changes_something_is_made_once(self):
        address = self.serve()
        with Client(address) as c, self.assertRaises(client.Unavailable):
            c.cancel("x")

        async def main():
            async with AsyncClient(address) as c:
                with self.assertRaises(client.Unavailable):
                    await c.cancel("x")

        asyncio.run(main())
        self.assertEqual(len(self.cancels), 2)

    def test_close_ends_the_calls_under_way(self):
        c = Client(self.serve(grpc.StatusCode.UNAVAILABLE), timeout=10 * PATIENCE)
        with futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(c.wait, "x")
            self.assertTrue(self.waits.wait(PATIENCE))
            with self.assertRaises(client.Unavailable):  # the next call has another connection
                c.submit("idle", timeout=0.2)
            c.close()
            with self.assertRaises(client.Closed):
                waiting.result(PATIENCE)

    def test_close_ends_the_calls_of_coroutines_that_are_under_way(self):
        async def main(c):
            waiting = asyncio.ensure_future(c.wait("x"))
            await asyncio.to_thread(self.waits.wait, PATIENCE)
            await c.close()
            with self.assertRaises(client.Closed):
                await asyncio.wait_for(waiting, PATIENCE)

        asyncio.run(main(AsyncClient(self.serve(), timeout=10 * PATIENCE)))

    def test_white_space_around_a_token_is_not_sent(self):
        with Client(self.serve(), token=" secret\r\n") as c:
            c.get("x")
        self.assertEqual(set(self.seen), {"Bearer secret"})

    def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(self):
        for bad in (" \n", "te_secr\net", "te_secr et", "te_secr\u00e9t", "te_secr\x00et", b"te_secret", 7):
            for kind in (Client, AsyncClient):
                with self.subTest(bad), self.assertRaisesRegex(client.Invalid, "token") as raised:
                    kind("127.0.0.1:1", token=bad)
                self.assertNotIn("secr", "".join(traceback.format_exception(raised.exception)).replace("white", ""))

    def test_the_environment_has_addresses_and_the_token(self):
        variables = {"TASKENGINE_ADDRESS": "127.0.0.1:1, " + self.serve(), "TASKENGINE_TOKEN": "secret\n"}
        with unittest.mock.patch.dict(os.environ, variables), Client() as c:
            c.get("x")
        self.assertEqual(set(self.seen), {"Bearer secret"})
        with unittest.mock.patch.dict(os.environ), self.assertRaisesRegex(client.Invalid, "TASKENGINE_ADDRESS"):
            os.environ.pop("TASKENGINE_ADDRESS", None)
            Client()

    def test_https_trusts_the_certificates_that_are_given_and_no_other(self):
        key, certificate = self_signed(self)
        address = self.serve(key=key, certificate=certificate)
        for at in ("https://" + address, address):
            with self.subTest(at), Client(at, ca=certificate) as c:
                self.assertEqual(c.get("x"), client.Task())
        with Client("https://" + address) as c:
            self.says(c, "(?i)certificate.verify.failed")

    def test_the_reason_why_a_certificate_is_not_good_is_in_the_error(self):
        key, certificate = self_signed(self, "elsewhere")
        with Client(self.serve(key=key, certificate=certificate), ca=certificate) as c:
            self.says(c, "(?i)peer name|hostname")

    def test_an_expired_certificate_is_called_that(self):
        ca, certificate, key = (
            (EXPIRED / (name + ".pem")).read_bytes() for name in ("authority", "certificate", "key")
        )
        with Client(self.serve(key=key, certificate=certificate), ca=ca) as c:
            self.says(c, "certificate has expired")

    def says(self, c, reason):
        """Waits until the errors of a client have a reason, which it looks for in the background."""
        end = time.monotonic() + PATIENCE
        while True:
            with self.assertRaises(client.Unavailable) as caught:
                c.get("x", timeout=0.5)
            if re.search(reason, str(caught.exception)):
                return
            self.assertLess(time.monotonic(), end, str(caught.exception))

    def test_a_client_shows_its_certificate(self):
        key, certificate = self_signed(self)
        address = self.serve(key=key, certificate=certificate, authority=certificate)
        with Client(address, ca=certificate, cert=certificate, key=key) as c:
            self.assertEqual(c.get("x"), client.Task())
        with Client(address, ca=certificate) as c, self.assertRaises(client.Unavailable):
            c.get("x", timeout=1)

    def test_with_options_of_tls_nothing_is_sent_in_clear(self):
        _, certificate = self_signed(self)
        with socket.create_server(("127.0.0.1", 0)) as listener, futures.ThreadPoolExecutor(1) as pool:

            def first():
                with listener.accept()[0] as taken:
                    return taken.recv(100)

            seen = pool.submit(first)
            with Client("127.0.0.1:%d" % listener.getsockname()[1], token="secret", ca=certificate) as c:
                with self.assertRaises(client.Unavailable):
                    c.get("x", timeout=0.5)
                self.assertEqual(seen.result(PATIENCE)[:1], b"\x16")  # the first byte of a handshake
        for bad in (
            {"ca": certificate, "addresses": "http://a:1"},
            {"ca": b"no PEM", "addresses": "a:1"},
            {"ca": "a text", "addresses": "a:1"},
            {"cert": certificate, "addresses": "a:1"},
        ):
            with self.subTest(bad), self.assertRaises(client.Invalid):
                Client(**bad)


def self_signed(test, host="localhost"):
    if shutil.which("openssl") is None:
        test.skipTest("openssl makes the certificate, and is not installed")
    with tempfile.TemporaryDirectory() as directory:
        arguments = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=%s -addext subjectAltName=DNS:%s" % (
            host,
            host,
        )
        files = ["-keyout", "key.pem", "-out", "certificate.pem"]
        subprocess.run(["openssl", *arguments.split(), *files], cwd=directory, check=True, capture_output=True)
        return tuple(pathlib.Path(directory, name).read_bytes() for name in files[1::2])


class Addresses(unittest.TestCase):
    def test_an_address_that_is_none_is_invalid(self):
        for bad in ([], "", ":80", "unix:", "http://a/b", "ftp://a:1", "http://u@a:1", "a b:1", "http://a:x", 5, [5]):
            with self.subTest(bad), self.assertRaises((client.Invalid, TypeError)):
                Client(bad)

    def test_a_client_that_was_not_used_has_no_thread(self):
        before = threading.active_count()
        with Client("127.0.0.1:1"):
            self.assertEqual(threading.active_count(), before)

    def test_without_a_node_a_call_says_so_when_its_time_is_over(self):
        begin = time.monotonic()
        with Client(["127.0.0.1:1", "unix:/nowhere"], timeout=2) as c:  # in which both addresses have been tried
            for call in (
                lambda: c.get("x"),
                lambda: c.cancel("x"),
                lambda: c.submit("idle"),
                lambda: c.wait("x", timeout=2),
            ):
                with self.assertRaisesRegex(
                    client.Unavailable,
                    r"no node answers at 127.0.0.1:1 \(.*refused.*\), unix:/nowhere \(.*No such file.*\)",
                ):
                    call()
        self.assertGreaterEqual(time.monotonic() - begin, 2)


if __name__ == "__main__":
    unittest.main()
