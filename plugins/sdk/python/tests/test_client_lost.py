"""Answers that are lost, nodes that are killed, and addresses at which no node answers any longer."""

import asyncio
import random
import threading
import unittest
import unittest.mock
import uuid
from concurrent import futures

from taskengine import client
from taskengine.client import AsyncClient, Client, Invalid, NewTask

from .node import PATIENCE, PROGRAM, Lossy, Node, NodeTest, free_address


class Answers(NodeTest):
    def test_a_submit_whose_answer_is_lost_adds_one_task(self):
        kind, seed = "lost-%s" % uuid.uuid4(), random.randrange(1 << 32)
        rng = random.Random(seed)
        wire = Lossy(self, self.node.address, [rng.randrange(500, 4000) for _ in range(20)])
        with Client(wire.address, timeout=PATIENCE) as c, futures.ThreadPoolExecutor(8) as pool:
            receipts = list(pool.map(lambda i: c.submit(kind, i), range(400)))
        self.assertTrue(all(r.created for r in receipts), "seed %d" % seed)
        self.assertGreater(wire.lost, 0)
        with Client(self.node.address) as c:
            self.assertEqual(
                sorted(t.id for t in c.tasks(types=[kind])), sorted(r.id for r in receipts), "seed %d" % seed
            )

    def test_tasks_that_are_added_together_are_added_once_if_the_answer_is_lost(self):
        kind = "together-%s" % uuid.uuid4()
        wire = Lossy(self, self.node.address, [300, 300])  # less than 100 receipts have
        with Client(wire.address, timeout=PATIENCE) as c:
            receipts = c.submit_all([NewTask(kind) for _ in range(100)])
        self.assertTrue(all(r.created for r in receipts))
        self.assertEqual(wire.lost, 2)
        with Client(self.node.address) as c:
            self.assertEqual({t.id for t in c.tasks(types=[kind])}, {r.id for r in receipts})

    def test_a_task_is_added_with_its_children_once_if_the_answer_is_lost(self):
        wire = Lossy(self, self.node.address, range(160, 280, 20))  # the answer is larger
        with Client(wire.address, timeout=PATIENCE) as over, Client(self.node.address) as c:
            for _ in range(3):
                kind = "children-%s" % uuid.uuid4()
                receipt = over.submit_with_children(NewTask(kind), [NewTask(kind), NewTask(kind)])
                self.assertEqual((receipt.created, receipt.outcome), (True, "created"))
                counts = sorted((n.state, n.count) for n in c.count(types=[kind]))
                self.assertEqual(counts, [("submitted", 2), ("waiting", 1)])
        self.assertGreater(wire.lost, 0)

    def test_children_are_added_in_several_requests_once_if_answers_are_lost(self):
        wire, kind = Lossy(self, self.node.address, range(160, 280, 20)), "portions-%s" % uuid.uuid4()
        with Client(wire.address, timeout=PATIENCE) as over, Client(self.node.address) as c:
            with unittest.mock.patch("taskengine.client._children.MAX_CHILDREN", 1):
                receipt = over.submit_with_children(NewTask(kind), [NewTask(kind) for _ in range(9)])
            self.assertTrue(receipt.created)
            counts = sorted((n.state, n.count) for n in c.count(types=[kind]))
            self.assertEqual(counts, [("submitted", 9), ("waiting", 1)])
            self.assertFalse(c.get(receipt.id).children[0].open)
            key, bad = str(uuid.uuid4()), NewTask(kind, key="k")
            with unittest.mock.patch("taskengine.client._children.MAX_CHILDREN", 1), self.assertRaises(Invalid):
                over.submit_with_children(NewTask(kind, key=key), [NewTask(kind), NewTask(kind), bad])
            receipt = over.submit_with_children(NewTask(kind, key=key), [NewTask(kind) for _ in range(3)])
            of = c.get(receipt.id).children[0]
            self.assertEqual((of.added, of.open), (3, False))
        self.assertGreater(wire.lost, 0)

    def test_a_workflow_is_added_once_if_the_answer_is_lost(self):
        wire, ids = Lossy(self, self.node.address, range(160, 280, 20)), []
        with Client(wire.address, timeout=PATIENCE) as over, Client(self.node.address) as c:
            for _ in range(3):
                receipt = over.submit_workflow(definition={"steps": {"say": {"type": "echo"}}}, delay=3600)
                self.assertEqual((receipt.created, receipt.outcome), (True, "created"))
                ids.append(receipt.id)
            added = {t.id for t in c.tasks(types=["taskengine.workflow"], states=["waiting"])}
            self.assertLessEqual(set(ids), added)
            self.assertEqual(len(set(ids)), 3)
        self.assertGreater(wire.lost, 0)

    def test_a_call_that_is_not_repeated_is_made_where_a_node_answers(self):
        wires = [Lossy(self, self.node.address, []) for _ in range(2)]
        with Client([w.address for w in wires], timeout=PATIENCE) as c:
            task_id = c.submit("idle").id
            wires[0].stop()
            self.assertEqual(c.cancel(task_id).state, "cancelled")

    def test_another_address_is_used_when_one_no_longer_answers(self):
        wires = [Lossy(self, self.node.address, []) for _ in range(3)]
        addresses = [free_address(), *(w.address for w in wires)]
        with Client(addresses, timeout=PATIENCE) as submits, Client(addresses, timeout=PATIENCE) as reads:
            for wire in wires:
                receipt = submits.submit("idle")
                self.assertTrue(receipt.created)
                self.assertEqual(reads.get(receipt.id).state, "submitted")
                if wire is wires[2]:
                    break
                wire.stop()


@unittest.skipUnless(PROGRAM, "TASKENGINE_PROGRAM does not name the program of a node")
class Nodes(unittest.TestCase):
    def accepted_once(self, node, accepted):
        """Checks that the tasks that were accepted are there once, and no other is."""
        with Client(node.address) as c:
            self.assertEqual(sorted(t.id for t in c.tasks(types=["idle"])), sorted(accepted))

    def test_a_node_that_is_killed_under_load_loses_and_doubles_nothing(self):
        node, accepted = Node(self, free_address()), []
        over = threading.Event()
        with Client(node.address, timeout=PATIENCE) as c, futures.ThreadPoolExecutor(8) as pool:

            def submit(_):
                try:
                    while not over.is_set():
                        receipt = c.submit("idle")
                        self.assertTrue(receipt.created)
                        accepted.append(receipt.id)
                finally:
                    over.set()

            threads = [pool.submit(submit, i) for i in range(8)]
            for _ in range(4):
                before = len(accepted)
                while len(accepted) < before + 100 and not over.wait(0.002):
                    pass
                node.kill()
                node.start()
            over.set()
            for t in threads:
                t.result()
        self.accepted_once(node, accepted)

    def test_coroutines_lose_and_double_nothing_when_their_node_is_killed(self):
        node, accepted = Node(self, free_address()), []

        async def main():
            async with AsyncClient(node.address, timeout=PATIENCE) as c:
                over = asyncio.Event()

                async def submit():
                    while not over.is_set():
                        receipt = await c.submit("idle")
                        self.assertTrue(receipt.created)
                        accepted.append(receipt.id)

                coroutines = [asyncio.ensure_future(submit()) for _ in range(64)]
                for _ in range(3):
                    before = len(accepted)
                    while len(accepted) < before + 200 and not any(one.done() for one in coroutines):
                        await asyncio.sleep(0.002)
                    node.kill()
                    await asyncio.to_thread(node.start)
                over.set()
                await asyncio.gather(*coroutines)

        asyncio.run(main())
        self.accepted_once(node, accepted)

    def test_a_node_that_stops_in_order_hands_its_submits_over(self):
        addresses = [free_address(), free_address()]
        node, accepted, over = Node(self, addresses[0]), [], threading.Event()
        with Client(addresses, timeout=PATIENCE) as c, futures.ThreadPoolExecutor(8) as pool:

            def submit(_):
                while not over.is_set():
                    accepted.append(c.submit("idle").id)

            threads = [pool.submit(submit, i) for i in range(8)]
            for address in (addresses[1], addresses[0], addresses[1]):
                before = len(accepted)
                while len(accepted) < before + 50 and not any(t.done() for t in threads):
                    over.wait(0.002)
                node.stop()
                node.address = address
                node.start()
            over.set()
            for t in threads:
                t.result()
        self.accepted_once(node, accepted)

    def test_a_wait_lasts_over_the_death_of_its_node(self):
        node = Node(self, free_address())
        with Client(node.address) as c, futures.ThreadPoolExecutor(1) as pool:
            receipt = c.submit("idle")
            waiting = pool.submit(c.wait, receipt.id, timeout=PATIENCE)
            node.kill()
            node.start()
            c.cancel(receipt.id)
            self.assertEqual(waiting.result(PATIENCE).state, "cancelled")

    def test_what_a_node_refuses_is_not_sent_again(self):
        node = Node(self)
        with Client(node.address) as c:
            first = c.submit_each([NewTask("full", delay=3600), NewTask("full", delay=3600)])
            self.assertIsInstance(first[1], client.BacklogFull)
            c.cancel(first[0].id)
            self.assertTrue(c.submit("full", delay=3600).created)
            self.assertEqual([s.count for s in c.count(types=["full"], states=["waiting"])], [1])


if __name__ == "__main__":
    unittest.main()
