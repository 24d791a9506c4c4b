"""Logs of tasks, types, ordering keys, alerts and configurations, with both clients, against a real node."""

import asyncio
import threading
import uuid
from datetime import datetime, timedelta, timezone

from taskengine import client
from taskengine.client import AsyncClient, Client, Invalid, NotAllowed, NotFound

from .node import PATIENCE, Node, NodeTest
from .test_client import Blocking, on_both


class Logs(NodeTest):
    async def with_async(self, test):
        async with AsyncClient([self.node.address]) as c:
            await test(self, c)

    @on_both
    async def test_the_lines_of_a_task_are_read(self, c):
        receipt = await c.submit("talk")
        await c.wait(receipt.id, timeout=PATIENCE)
        entries = [e async for e in c.logs(receipt.id)]
        self.assertEqual([e.line.message for e in entries], ["one", "two"])
        line = entries[0].line
        self.assertEqual(
            (line.attempt, line.level, line.attrs, line.dropped, line.cut), (1, "INFO", '{"stream":"stderr"}', 0, False)
        )
        self.assertLess(abs(datetime.now(timezone.utc) - line.time), timedelta(hours=1))
        self.assertEqual(line.node, (await c.nodes()).nodes[0].name)
        self.assertEqual([e async for e in c.logs(receipt.id, cursor=entries[-1].cursor)], [])
        self.assertEqual([e async for e in c.logs(receipt.id, attempt=2)], [])
        with self.assertRaises(NotFound):
            async for e in c.logs(uuid.uuid4()):
                self.fail(e)
        with self.assertRaises(Invalid):
            c.logs(receipt.id, attempt=-1)

    @on_both
    async def test_the_lines_of_a_task_are_followed_until_it_has_ended(self, c):
        await c.pause_type("talk")
        receipt = await c.submit("talk")
        for follows in range(2):
            if not follows:
                self.assertEqual([e async for e in c.logs(receipt.id)], [])
                await c.resume_type("talk")
            texts = [e.line.message async for e in c.logs(receipt.id, follow=True)]
            self.assertEqual(texts, ["one", "two"])
        self.assertEqual((await c.get(receipt.id)).state, "done")

    def test_a_client_that_is_closed_ends_its_logs(self):
        c = Client(self.node.address)
        logs = c.logs(c.submit("idle").id, follow=True)
        threading.Timer(0.1, c.close).start()
        with self.assertRaises(client.Closed):
            next(logs)

    def test_logs_go_on_when_the_node_comes_back(self):
        node = Node(self)
        with Client(node.address) as c:
            self.assertEqual(asyncio.run(self.restarted(node, Blocking(c))), ["one", "two", "one", "two"])

        async def same():
            async with AsyncClient([node.address]) as c:
                return await self.restarted(node, c)

        self.assertEqual(asyncio.run(same()), ["one", "two", "one", "two"])

    async def restarted(self, node, c):
        """The lines of a task that runs before and after a restart of its node."""
        receipt = await c.submit("twice")
        texts = []
        async for e in c.logs(receipt.id, follow=True):
            texts.append(e.line.message)
            if len(texts) == 2:
                node.stop()
                node.start()
        return texts


class Operations(NodeTest):
    async def with_async(self, test):
        async with AsyncClient([self.node.address]) as c:
            await test(self, c)

    @on_both
    async def test_types_are_paused_and_resumed(self, c):
        async def of(name):
            types, more = await c.types()
            self.assertFalse(more)
            return next(t for t in types if t.name == name)

        echo = await of("echo")
        self.assertEqual((echo.configured, echo.handled, echo.paused, echo.running), (True, True, False, 0))
        for _ in range(2):
            await c.pause_type("echo")
        self.assertTrue((await of("echo")).paused)
        receipt = await c.submit("echo", "x")
        await c.resume_type("echo")
        self.assertFalse((await of("echo")).paused)
        self.assertEqual((await c.wait(receipt.id, timeout=PATIENCE)).state, "done")
        with self.assertRaises(Invalid):
            await c.pause_type("")

    @on_both
    async def test_ordering_keys_are_listed_resumed_and_skipped(self, c):
        key = "acme-%s" % uuid.uuid4()
        ids = [(await c.submit(kind, ordering_key=key)).id for kind in ("fail", "idle", "idle")]
        await c.wait(ids[0], timeout=PATIENCE)
        found = [k async for k in c.ordering_keys(states=["error"], behind=True) if k.key == key]
        self.assertEqual([(k.head.id, k.behind, k.behind_truncated) for k in found], [(ids[0], 2, False)])
        self.assertIsNotNone(found[0].oldest_ready_at)
        self.assertNotIn(key, [k.key async for k in c.ordering_keys(states=["processing"])])
        self.assertEqual([t.id async for t in c.ordering_key_tasks(key)], ids)
        self.assertEqual((await c.resume_ordering_key(key)).id, ids[0])
        await c.wait(ids[0], timeout=PATIENCE)
        skipped = await c.skip_ordering_key(key, "no use")
        self.assertEqual((skipped.id, skipped.state, skipped.error), (ids[0], "failed", "no use"))
        with self.assertRaises(NotAllowed):
            await c.skip_ordering_key(key)
        with self.assertRaises(NotFound):
            async for t in c.ordering_key_tasks("none-%s" % key):
                self.fail(t)

    @on_both
    async def test_all_pages_of_ordering_keys_and_their_tasks_are_listed(self, c):
        prefix = "page-%s-" % uuid.uuid4()
        keys = [prefix + "%03d" % i for i in range(130)]
        await c.submit_all([client.NewTask("idle", ordering_key=key) for key in keys])
        self.assertEqual([k.key async for k in c.ordering_keys() if k.key.startswith(prefix)], keys)
        ids = [r.id for r in await c.submit_all([client.NewTask("idle", ordering_key=prefix) for _ in range(130)])]
        self.assertEqual([t.id async for t in c.ordering_key_tasks(prefix)], ids)

    @on_both
    async def test_alerts_are_listed_silenced_and_tested(self, c):
        silence = await c.silence_alerts(
            "late", labels={"type": "n*"}, lasting=timedelta(hours=1), comment="known", by="anna"
        )
        self.assertEqual((silence.rule, silence.labels, silence.comment), ("late", {"type": "n*"}, "known"))
        self.assertEqual(silence.until - silence.at, timedelta(hours=1))
        alerts = await c.alerts()
        self.assertIn(silence, alerts.silences)
        self.assertEqual((list(alerts.alerts), list(alerts.unsent)), ([], []))
        await c.unsilence_alerts(silence.id)
        self.assertNotIn(silence, (await c.alerts()).silences)
        with self.assertRaises(NotFound):
            await c.unsilence_alerts(silence.id)
        with self.assertRaises(Invalid):
            await c.silence_alerts(lasting=60)
        tests = await c.test_alerts(["hook"])
        self.assertEqual([t.target for t in tests], ["hook"])
        self.assertIn("refused", tests[0].problem)
        with self.assertRaises(NotFound):
            await c.test_alerts(["none"])

    @on_both
    async def test_a_node_reads_its_configuration_again(self, c):
        nodes, silent = await c.apply_config(all_nodes=True)
        self.assertEqual((len(nodes), list(silent)), (1, []))
        self.assertEqual((list(nodes[0].changes), nodes[0].problem, nodes[0].unchanged), ([], "", False))
