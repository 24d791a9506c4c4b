"""What is sent when, and which outcome is of what: without a node."""

import itertools
import threading
import unittest

from taskengine import client
from taskengine._wire import _fields, _int, _message, _text
from taskengine.client._flow import MESSAGE_BYTES, MOST_SENT, Flow, Stream, Submission
from taskengine.client._waiting import FIRST_PAUSE, MOST_PAUSE, pauses


class Landed(list):
    def land(self, s):
        self.append((s.id, s.outcome))


def receipt(sequence, task_id, created=True, outcome="created"):
    body = _text(1, task_id) + _int(2, int(created)) + _text(3, outcome)
    return _message(1, _int(1, sequence) + _message(2, body))


def error(sequence, code, full=""):
    return _message(1, _int(1, sequence) + _message(3, _text(1, code) + _text(2, "no") + _text(3, full)))


class PausesTest(unittest.TestCase):
    def test_pauses_grow_and_are_those_of_no_other_client(self):
        one, other = (list(itertools.islice(pauses(), 12)) for _ in range(2))
        for n, pause in enumerate(one):
            most = min(FIRST_PAUSE * 2**n, MOST_PAUSE)
            self.assertTrue(most / 2 <= pause <= most, one)
        self.assertNotEqual(one, other)


class FlowTest(unittest.TestCase):
    def setUp(self):
        self.flow, self.stream, self.landed = Flow(), Stream(), Landed()

    def add(self, *ids, size=1, is_own=True):
        made = [Submission(b"x" * size, task_id, is_own, self.landed) for task_id in ids]
        self.flow.add(made)
        return made

    def sent(self):
        """The sequences of the next message."""
        return [dict(_fields(v))[1] for _, v in _fields(self.flow.next_message(self.stream))]

    def again(self):
        """The ids of what is sent over the next stream."""
        self.flow.end_stream(self.stream)
        self.stream = Stream()
        return [s.id for s in self.flow.take()]

    def test_a_message_has_at_most_1000_tasks_and_a_mebibyte(self):
        self.add(*map(str, range(1500)))
        self.assertEqual([len(self.sent()), len(self.sent())], [1000, 500])
        self.add("a", "b", "c", size=MESSAGE_BYTES // 2)
        self.add("d", size=2 * MESSAGE_BYTES)
        self.assertEqual([len(self.sent()) for _ in range(3)], [2, 1, 1])

    def test_it_waits_while_4000_have_no_outcome(self):
        self.add(*map(str, range(MOST_SENT + 1)))
        for _ in range(MOST_SENT // 1000):
            self.sent()
        found = []
        waiting = threading.Thread(target=lambda: found.extend(self.sent()))
        waiting.start()
        self.assertEqual(self.flow.take(), [])
        self.flow.resolve("n", receipt(17, "16"))
        waiting.join(120)
        self.assertEqual(found, [MOST_SENT + 1])
        self.assertEqual(self.landed, [("16", client.Receipt("16", True, "created"))])

    def test_what_has_no_outcome_is_sent_again_first_and_in_its_order(self):
        self.add("a", "b", "c")
        self.sent()
        self.add("d")
        self.flow.resolve("n", receipt(2, "b"))
        self.assertEqual(self.again(), ["a", "c", "d"])

    def test_what_was_abandoned_is_not_sent(self):
        a, b = self.add("a", "b")
        self.flow.abandon([a])
        self.assertIsInstance(a.outcome, client.DeadlineExceeded)
        self.sent()
        self.flow.abandon([b])
        self.assertEqual(self.again(), [])
        self.assertEqual([task_id for task_id, _ in self.landed], ["a", "b"])

    def test_an_outcome_that_says_nothing_is_final_is_asked_for_again(self):
        self.add("a", "b", "c")
        self.sent()
        leave = self.flow.resolve(
            "n", error(1, "resource_exhausted", "waited") + error(2, "resource_exhausted", "backlog")
        )
        self.assertFalse(leave)
        self.assertTrue(self.flow.resolve("n", error(3, "unavailable")))
        self.assertEqual([(i, type(o)) for i, o in self.landed], [("b", client.BacklogFull)])
        self.assertEqual(sorted(self.again()), ["a", "c"])

    def test_a_task_that_an_earlier_try_has_added_counts_as_created(self):
        self.add("a", "b")
        self.add("c", is_own=False)
        self.sent()
        for sequence, task_id in ((1, "a"), (2, "other"), (3, "c")):
            self.flow.resolve("n", receipt(sequence, task_id, False, "existing"))
        self.assertEqual([o.created for _, o in self.landed], [True, False, False])

    def test_a_node_that_stops_is_left(self):
        self.assertTrue(self.flow.resolve("n", _int(2, 1)))

    def test_outcomes_that_nothing_waits_for_are_ignored(self):
        self.assertFalse(self.flow.resolve("n", receipt(99, "x")))
        self.assertEqual(self.landed, [])

    def test_a_closed_flow_ends_what_waits_and_what_comes(self):
        self.add("a")
        self.sent()
        self.add("b")
        self.flow.close()
        self.add("c")
        self.assertEqual([(i, type(o)) for i, o in self.landed], [(i, client.Closed) for i in "abc"])
        self.assertIsNone(self.flow.next_message(self.stream))
        self.assertFalse(self.flow.await_work())


if __name__ == "__main__":
    unittest.main()
