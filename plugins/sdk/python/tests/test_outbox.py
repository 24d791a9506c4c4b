"""The order and the pace of what is sent."""

import threading
import unittest
from unittest import mock

from taskengine import NotStored, Task, _answer, _wire
from taskengine._outbox import Host, Outbox
from taskengine._workpool import Pool
from tests.host import EVERYTHING, fields


class Outboxes(unittest.TestCase):
    def setUp(self):
        self.timers = []  # pairs of seconds and a function
        self.outbox = Outbox(Host(0, frozenset(EVERYTHING)), lambda *timer: self.timers.append(timer))
        run = _wire.decode_run(b"\x08\x07\x12\x10" + bytes(16))
        self.task = Task(run, self.outbox)

    def sent(self):
        """The frames of all that was posted so far, by the numbers of their fields."""
        self.outbox.close()
        return [fields(frame) for frame in self.outbox.frames()]

    def test_there_is_a_credit_for_every_answer(self):
        for run_id in range(1, 701):
            self.outbox.refuse(run_id, "full")
        self.outbox.pong(3)
        self.assertEqual([(f[2], len(f[3]), f[4]) for f in self.sent()], [([512], 512, []), ([188], 188, [3])])

    def test_a_frame_ends_when_it_is_large(self):
        for run_id in (1, 2, 3):
            self.outbox.finish(self.task, _wire.finish_result(run_id, bytes(700_000)))
        self.assertEqual([len(f[3]) for f in self.sent()], [2, 1])

    def test_the_first_progress_is_sent_at_once_and_the_newest_later(self):
        self.task.progress(1)
        self.assertEqual([f[6] for f in self.sent()], [[_wire.progress(7, 1, 0, "")]])
        self.task.progress(2)
        self.task.progress(3)
        self.assertEqual(self.sent(), [])
        [(seconds, come_due)] = self.timers
        self.assertTrue(0 < seconds <= 0.1, seconds)
        come_due()
        self.assertEqual([f[6] for f in self.sent()], [[_wire.progress(7, 3, 0, "")]])
        self.task.progress(4)
        self.assertEqual((self.sent(), len(self.timers)), ([], 2))

    def test_the_last_progress_goes_before_the_answer(self):
        self.task.progress(1)
        self.sent()
        self.task.progress(2)
        self.outbox.finish(self.task, _wire.finish_result(7, b""))
        self.assertEqual([(f[6], len(f[3])) for f in self.sent()], [([_wire.progress(7, 2, 0, "")], 1)])
        self.timers[0][1]()
        self.assertEqual(self.sent(), [])

    def test_what_is_said_after_the_answer_is_not_sent_and_cannot_be_lost(self):
        self.outbox.finish(self.task, _answer.result(self.task, None, Host()))
        self.task.progress(1)
        with self.assertRaisesRegex(NotStored, "too late"):
            self.task.save_checkpoint("late")
        self.assertEqual([sorted(f) for f in self.sent()], [[2, 3]])
        with self.assertRaisesRegex(RuntimeError, "answer"):
            self.task.spawn("late")

    def test_a_line_with_many_fields_is_of_bounded_size(self):
        self.task.log.info("much", extra={"field %d" % n: "x" * 8000 for n in range(1000)})
        [frame] = self.sent()
        self.assertLess(len(frame[_wire.LOG][0]), 100_000)

    def test_a_checkpoint_does_not_wait_for_the_pace_and_leaves_it_alone(self):
        self.task.progress(1)
        self.sent()
        self.task.progress(2)
        self.task._save(b"a")
        self.task._save(b"b")
        self.assertEqual([(f[6], f[7]) for f in self.sent()], [([], [_wire.checkpoint(7, b"b", 2)])])

    def test_lines_that_are_too_many_are_counted(self):
        def log(message):
            self.outbox.log(7, 0, message, 1, {})

        for _ in range(10_005):
            log("much")
        lines = [line for f in self.sent() for line in f[5]]
        self.assertEqual(lines, [_wire.log_line(7, 0, "much", 1, {})] * 10_000)
        log("after")
        log("after that")
        self.assertEqual(
            self.sent()[0][5],
            [
                _wire.log_line(7, 0, "after", 1, {"lines_dropped_before": "5"}),
                _wire.log_line(7, 0, "after that", 1, {}),
            ],
        )


class Pools(unittest.TestCase):
    def test_jobs_that_wait_for_each_other_all_run(self):
        barrier, left = threading.Barrier(51), threading.Barrier(51)
        pool = Pool(lambda job: (job.wait(120), left.wait(120)))
        for _ in range(3):
            pool.add([barrier] * 20)
            pool.add([barrier] * 30)
            barrier.wait(120)
            left.wait(120)
        self.assertLessEqual(pool._threads, 100)

    def test_without_more_threads_those_there_are_do_all_the_jobs(self):
        done, begun, go_on = [], threading.Event(), threading.Event()

        def do(job):
            begun.set()
            go_on.wait(120)
            done.append(job)
            if len(done) == 3:
                begun.clear()
                finished.set()

        finished = threading.Event()
        pool = Pool(do)
        pool.add([1])
        self.assertTrue(begun.wait(120))
        with mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            pool.add([2, 3])
            go_on.set()
            self.assertTrue(finished.wait(120))
        self.assertEqual(done, [1, 2, 3])

    def test_without_any_thread_it_says_so(self):
        with mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            with self.assertRaises(RuntimeError):
                Pool(print).add([1])


if __name__ == "__main__":
    unittest.main()
