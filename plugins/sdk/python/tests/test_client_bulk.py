"""Bulk jobs, events, histories, tokens and nodes, with both clients, against real nodes."""

import asyncio
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone

from taskengine import client
from taskengine.client import AsyncClient, BulkOrder, Client, Invalid, NewTask, NotAllowed, NotFound, TaskValues

from .node import PATIENCE, Node, NodeTest
from .test_client import Blocking, on_both


class Bulk(NodeTest):
    async def with_async(self, test):
        async with AsyncClient([self.node.address]) as c:
            await test(self, c)

    async def when(self, c, name, holds):
        """A bulk job, when something holds of it."""
        end = time.monotonic() + PATIENCE
        while True:
            job = await c.bulk_job(name)
            if holds(job):
                return job
            self.assertLess(time.monotonic(), end, job)
            await asyncio.sleep(0.02)

    @on_both
    async def test_a_bulk_job_changes_the_tasks_of_a_filter(self, c):
        kind = "bulk-%s" % uuid.uuid4()
        receipts = await c.submit_all([NewTask(kind, headers={"old": "1", "kept": "2"}) for _ in range(7)])
        values = TaskValues(2, {"a": 1}, {"who": "anna"}, ["old"])
        order = BulkOrder("set", "type=%s" % kind, values=values)
        preview = await c.preview_bulk_job(order)
        self.assertEqual((preview.tasks, preview.complete, preview.states), (7, True, {"submitted": 7}))
        self.assertEqual((len(preview.samples), preview.read >= 7, preview.index), (7, True, "state"))
        name = "n-%s" % uuid.uuid4()
        started = await c.start_bulk_job(order, name=name, by="anna")
        self.assertEqual((started.name, started.verb, started.total), (name, "set", 7))
        job = await self.when(c, name, lambda j: j.has_ended)
        self.assertEqual((job.phase, job.changed, job.refused, job.skipped), ("done", 7, 0, 0))
        self.assertIn("anna", job.by)
        task = await c.get(receipts[0].id)
        self.assertEqual((task.priority, task.headers, task.payload), (2, {"kept": "2", "who": "anna"}, b'{"a":1}'))
        self.assertEqual([(h.outcome, h.job) for h in task.history], [("edited", name)])
        self.assertIn(name, [j.name async for j in c.bulk_jobs()])
        with self.assertRaises(NotFound):
            await c.bulk_job("none")
        with self.assertRaises(Invalid):
            await c.preview_bulk_job(BulkOrder("cancel", "("))

    @on_both
    async def test_a_bulk_job_is_paused_continued_and_stopped(self, c):
        kind = "slow-%s" % uuid.uuid4()
        await c.submit_all([NewTask(kind) for _ in range(50)])
        name = "p-%s" % uuid.uuid4()
        await c.start_bulk_job(BulkOrder("cancel", types=[kind], reason="no use"), name=name, rate=0.5)
        paused = await c.pause_bulk_job(name, by="anna", reason="wait")
        self.assertEqual(paused.phase, "paused")
        self.assertEqual((await c.set_bulk_job_rate(name, 0.25, by="anna")).rate, 0.25)
        self.assertEqual((await c.continue_bulk_job(name, by="anna")).phase, "running")
        await c.stop_bulk_job(name, by="anna", reason="enough")
        stopped = await self.when(c, name, lambda j: j.has_ended)
        self.assertEqual(stopped.phase, "stopped")
        self.assertLess(stopped.changed, 50)
        self.assertIn("enough", [h.reason for h in stopped.history])

    @on_both
    async def test_one_task_is_set_and_deleted(self, c):
        task_id = (await c.submit("one-%s" % uuid.uuid4(), delay=3600)).id
        at = datetime(2100, 1, 1, tzinfo=timezone.utc)
        changed = await c.set_task(task_id, TaskValues(priority=1), at=at, by="anna")
        self.assertEqual((changed.priority, changed.next_event_at), (1, at))
        self.assertEqual(changed.history[0].outcome, "edited")
        with self.assertRaises(client.Conflict):
            await c.set_task(task_id, TaskValues(priority=1), version=1)
        with self.assertRaises(NotAllowed):
            await c.delete_task(task_id)
        await c.cancel(task_id)
        self.assertEqual((await c.delete_task(task_id)).id, task_id)
        with self.assertRaises(NotFound):
            await c.get(task_id)
        some = await c.submit_all([NewTask("idle"), NewTask("idle")])
        where = client.where_ids(*(r.id for r in some))
        self.assertEqual(len([t async for t in c.tasks(where=where)]), 2)


class Events(NodeTest):
    async def with_async(self, test):
        async with AsyncClient([self.node.address]) as c:
            await test(self, c)

    @on_both
    async def test_events_come_until_the_loop_ends_and_go_on_at_a_cursor(self, c):
        kind = "seen-%s" % uuid.uuid4()
        await c.submit(kind, key="before", delay=3600)
        seen, cursor = [], ""
        async for event in c.events(where="type=%s" % kind, cursor="1h", catch_up=True):
            if event.gap is not None:
                self.assertLess(event.gap.from_, event.gap.until)
                self.assertTrue(event.gap.text)
                seen.append("gap")
                continue
            seen.append((event.task.key, event.from_store))
            self.assertIsNotNone(event.at)
            cursor = event.cursor
            if event.task.key == "live":
                break
            await c.submit(kind, key="live", delay=3600)
        self.assertEqual(seen, ["gap", ("before", True), ("live", False)])
        live = await c.find(kind, "live")
        await c.cancel(live.id)
        async for event in c.events(types=[kind], cursor=cursor):
            self.assertEqual((event.task.id, event.task.state), (live.id, "cancelled"))
            break
        with self.assertRaises(Invalid):
            async for event in c.events(where="stat=x"):
                self.fail(event)
        with self.assertRaises(Invalid):
            c.events(types=kind)

    def test_a_client_that_is_closed_ends_its_events(self):
        c = Client(self.node.address)
        events = c.events(types=["none"])
        threading.Timer(0.1, c.close).start()
        with self.assertRaises(client.Closed):
            next(events)

    def test_a_coroutine_that_is_cancelled_ends_its_events(self):
        async def follow():
            async with AsyncClient([self.node.address]) as c:
                events = c.events(types=["none"])
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(events.__anext__(), 0.1)

        before = threading.active_count()
        asyncio.run(follow())
        end = time.monotonic() + PATIENCE
        while threading.active_count() > before:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_events_go_on_when_the_node_comes_back(self):
        node = Node(self)
        with Client(node.address) as c:
            self.assertEqual(asyncio.run(self.restarted(node, Blocking(c))), ["1", "2"])

        async def same():
            async with AsyncClient([node.address]) as c:
                return await self.restarted(node, c)

        self.assertEqual(asyncio.run(same()), ["1", "2"])

    async def restarted(self, node, c):
        """The keys of the tasks whose events come, while the node is killed and comes back."""
        kind, seen = "back-%s" % uuid.uuid4(), []
        await c.submit(kind, key="1")
        async for event in c.events(types=[kind], cursor="1h", catch_up=True):
            if event.task is None or event.task.key in seen:
                continue
            seen.append(event.task.key)
            if event.task.key == "2":
                return seen
            node.kill()
            node.start()
            await c.submit(kind, key="2")

    @on_both
    async def test_the_history_of_waiting_is_read(self, c):
        receipt = await c.submit("none-%s" % uuid.uuid4())
        history = await c.wait_history(receipt.id)
        self.assertTrue(history.node and history.noted_since and history.waits)
        self.assertEqual(list(history.silent), [])
        self.assertTrue(all(w.code and isinstance(w.total, timedelta) for w in history.waits))
        with self.assertRaises(NotFound):
            await c.wait_history(uuid.uuid4())


class Cluster(NodeTest):
    async def with_async(self, test):
        async with AsyncClient([self.node.address]) as c:
            await test(self, c)

    @on_both
    async def test_nodes_and_workers_are_listed(self, c):
        nodes, silent = await c.nodes()
        self.assertEqual((len(nodes), len(silent)), (1, 0))
        self.assertTrue(nodes[0].here and nodes[0].status.uptime > timedelta(0) and "echo" in nodes[0].types)
        self.assertEqual((await c.nodes(nodes[0].id)).nodes[0].name, nodes[0].name)
        workers, silent = await c.workers()
        self.assertEqual((len(workers), len(silent)), (0, 0))
        for wrong in (c.drain_worker("none"), c.drain_node("none"), c.nodes("none")):
            with self.assertRaises(NotFound):
                await wrong
        with self.assertRaises(NotAllowed):
            await c.tokens()  # the node wants none

    def test_a_node_is_drained(self):
        node = Node(self)
        with Client(node.address) as c:
            own = c.nodes().nodes[0]
            self.assertEqual(c.drain_node(own.id, by="anna").id, own.id)
        node.process.wait(PATIENCE)

    def test_tokens_are_made_listed_rotated_and_revoked(self):
        node = Node(self, is_guarded=True)
        with Client(node.address, token=node.token) as boss:
            token, secret = boss.add_token("shop", ["submit"], ["echo"], expires_in=timedelta(hours=1), by="anna")
            self.assertEqual((token.state, token.by, list(token.types)), ("valid", "boss (says anna)", ["echo"]))
            self.assertEqual(token.expires_at - token.created_at, timedelta(hours=1))
            with Client(node.address, token=secret) as shop:
                shop.submit("echo")
                with self.assertRaises(NotAllowed):
                    shop.tokens()
            with self.assertRaises(client.AlreadyExists):
                boss.add_token("shop", ["submit"])
            rotated = boss.rotate_token("shop", grace=60, by="anna")
            self.assertNotEqual(rotated.secret, secret)
            self.assertIsNotNone(rotated.token.earlier_until)
            self.assertEqual(boss.revoke_token("shop", by="anna").state, "revoked")
            self.assertEqual([t.name for t in boss.tokens()], ["boss"])
            self.assertEqual([t.name for t in boss.tokens(revoked=True)], ["shop", "boss"])
            with self.assertRaises(NotFound):
                boss.revoke_token("none")
            before = boss.revoke_sessions("ann@example.com", by="anna")
            self.assertLess(abs(before - datetime.now(timezone.utc)), timedelta(hours=1))
            with self.assertRaises(client.Invalid):
                boss.revoke_sessions("a b")

        async def same():
            async with AsyncClient([node.address], token=node.token) as c:
                made = await c.add_token("other", ["submit"])
                self.assertNotEqual((await c.rotate_token("other")).secret, made.secret)
                self.assertEqual((await c.revoke_token("other")).state, "revoked")
                self.assertGreaterEqual(await c.revoke_sessions("oidc:ann@example.com"), before)
                self.assertEqual([t.name for t in await c.tokens()], ["boss"])

        asyncio.run(same())
