"""What the client sends and reads, against the proto file of the API and the ids that Go makes."""

import dataclasses
import os
import re
import subprocess
import sys
import unittest
import uuid
from datetime import datetime, timedelta, timezone

from taskengine import client
from taskengine._wire import DecodeError, _fields
from taskengine.client import (
    NewTask,
    _bulk_calls,
    _bulk_messages,
    _calls,
    _cluster_calls,
    _cluster_messages,
    _codec,
    _document_calls,
    _document_messages,
    _errors,
    _event_messages,
    _events,
    _log_messages,
    _logs,
    _messages,
    _operation_calls,
    _operation_messages,
    _slice_calls,
    _slice_messages,
)
from taskengine.client._ids import Ids
from taskengine.client._requests import encode_task

from .node import PATIENCE

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "..", "..", "..", "..", "server", "proto", "taskengine", "v1", "taskengine.proto")


def declared():
    """The fields of the messages of the proto file: name, number, type and shape."""
    with open(PROTO, encoding="utf-8") as f:
        text = re.sub(r"//.*|^message \w+ \{\}$", "", f.read(), flags=re.M)
    found = {}
    for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S):
        found[name] = {
            (field, int(number), kind, {"repeated": "many", "optional": "optional"}.get(label, "one"))
            for label, kind, field, number in re.findall(r"(repeated|optional|)\s*([\w.]+) (\w+) = (\d+);", body)
        }
        maps = re.findall(r"map<string, string> (\w+) = (\d+);", body)
        found[name] |= {(field, int(number), "string", "map") for field, number in maps}
    return found


class Messages(unittest.TestCase):
    def test_messages_have_the_fields_of_the_proto_file(self):
        wanted = declared()
        wanted["Task"] -= {("payload_text", 23, "string", "one"), ("result_text", 24, "string", "one")}  # of JSON only
        wanted["ReceivedSignal"] -= {("data_text", 4, "string", "one")}  # likewise
        for cls in sum(
            (
                m.MESSAGES
                for m in (
                    _messages,
                    _slice_messages,
                    _bulk_messages,
                    _cluster_messages,
                    _document_messages,
                    _event_messages,
                    _log_messages,
                    _operation_messages,
                )
            ),
            (),
        ):
            fields = _codec.fields_of(cls).items()
            found = {(name.rstrip("_"), f.number, f.kind.name, f.shape) for name, f in fields}
            with self.subTest(cls.__name__):
                named = {client.TaskType: "Type", client.LimitReasons: "WhyLimitResponse"}
                self.assertEqual(found, wanted[named.get(cls, cls.__name__)])

    def test_what_is_encoded_is_decoded(self):
        at = datetime(2026, 3, 29, 1, 2, 3, 456789, tzinfo=timezone.utc)
        d = client.ScheduleDefinition(
            cron="0 3 * * *", every=timedelta(microseconds=1), start=at, end=datetime(1960, 1, 1, tzinfo=timezone.utc),
            jitter=timedelta(seconds=-1, microseconds=-5), catch_up=client.ScheduleCatchUp("all", 5, timedelta(1)),
            task=client.ScheduleTask("mail", "ü", priority=0, headers={"a": "", "": "b"}, workflow="etl"),
        )  # fmt: skip
        self.assertEqual(_codec.decode(client.ScheduleDefinition, _codec.encode(d)), d)
        schedule = client.Schedule("s", d, waiting=(at, at), running=(client.ScheduleFire(at, "x"),), fires=1 << 63)
        self.assertEqual(_codec.decode(client.Schedule, _codec.encode(schedule)), schedule)

    def test_an_order_and_its_values_have_the_fields_of_the_proto_file(self):
        wanted = declared()
        values = client.TaskValues(0, {"a": 1}, {"h": "v"}, ["x"])
        for order, left_out in (
            (client.BulkOrder("set", "w", ["t"], "r", at=1.5, values=values, job="j"), {"in"}),
            (client.BulkOrder("set", "w", ["t"], "r", delay=timedelta(seconds=1), values=values, job="j"), {"at"}),
        ):
            encoded = dict(_fields(_bulk_calls.preview_bulk_job(order).request))[1]
            names = {number: name for name, number, _, _ in wanted["BulkOrder"]}
            self.assertEqual({names[n] for n, _ in _fields(encoded)}, set(names.values()) - left_out)
            names = {number: name for name, number, _, _ in wanted["TaskValues"]}
            self.assertEqual({names[n] for n, _ in _fields(dict(_fields(encoded))[7])}, set(names.values()) - {"text"})

    def test_a_number_with_a_fraction_is_encoded_and_decoded(self):
        for rate in (0.0, 0.25, -1e300):
            job = client.BulkJob("n", rate=rate)
            self.assertEqual(_codec.decode(client.BulkJob, _codec.encode(job)), job)

    def test_the_calls_about_slices_have_the_fields_of_the_proto_file(self):
        wanted, at = declared(), datetime(2026, 3, 29, 1, 2, 3, tzinfo=timezone.utc)
        for call, named in (
            (_slice_calls.slice_source("s"), {"name"}),
            (_slice_calls.platforms("s", "p", "t"), {"source", "prefix", "limit", "page_token"}),
            (_slice_calls.platform("s", "p"), {"source", "platform"}),
            (
                _slice_calls.set_slices("s", "p", {"lag": "1s"}, "b", "r"),
                {"source", "platform", "values", "by", "reason"},
            ),
            (
                _slice_calls.add_platform("s", "p", {"lag": "1s"}, "b", "r"),
                {"source", "platform", "values", "by", "reason"},
            ),
            (_slice_calls.remove_platform("s", "p", "b", "r"), {"source", "platform", "by", "reason"}),
            (
                _slice_calls.apply_platforms("s", [client.PlatformRow("p")], True, "b", "r"),
                {"source", "platforms", "dry_run", "by", "reason"},
            ),
            (
                _slice_calls.change_slices("PauseSlices", "s", "p", "x", "b", "r"),
                {"source", "platform", "by", "reason", "prefix"},
            ),
            (
                _slice_calls.change_slices("ResumeSlices", "s", "p", "x", "b", "r"),
                {"source", "platform", "by", "reason", "prefix"},
            ),
            (
                _slice_calls.reset_platform("s", "p", at, at, "b", "r"),
                {"source", "platform", "to", "from", "by", "reason"},
            ),
            (
                _slice_calls.retry_slices("s", "p", "x", at, at, "b", "r"),
                {"source", "platform", "from", "until", "by", "reason", "prefix"},
            ),
            (_bulk_calls.preview_bulk_job(client.BulkOrder("fail")), {"order"}),
            (_bulk_calls.start_bulk_job(client.BulkOrder("fail"), "n", 1.5, "b"), {"order", "name", "rate", "by"}),
            (_bulk_calls.bulk_job("n"), {"name"}),
            (_bulk_calls.bulk_jobs("t"), {"page_token"}),
            (_bulk_calls.change_bulk_job("PauseBulkJob", "n", "b", "r"), {"name", "by", "reason"}),
            (_bulk_calls.change_bulk_job("ContinueBulkJob", "n", "b", "r"), {"name", "by", "reason"}),
            (_bulk_calls.change_bulk_job("StopBulkJob", "n", "b", "r"), {"name", "by", "reason"}),
            (_bulk_calls.set_bulk_job_rate("n", 2, "b"), {"name", "rate", "by"}),
            (_bulk_calls.set_task("x", client.TaskValues(), at, None, "b", 3), {"id", "version", "values", "at", "by"}),
            (_bulk_calls.set_task("x", client.TaskValues(), None, 1, "", 0), {"id", "values", "in"}),
            (_bulk_calls.delete_task("x", 3), {"id", "version"}),
            (_cluster_calls.nodes("n"), {"node"}),
            (_cluster_calls.drain_node("n", "b"), {"node", "by"}),
            (_cluster_calls.drain_worker("w"), {"worker"}),
            (_cluster_calls.add_token("n", ["submit"], ["t"], 60, "b"), {"name", "roles", "types", "expires_in", "by"}),
            (_cluster_calls.tokens(True), {"revoked"}),
            (_cluster_calls.revoke_token("n", True, "b"), {"name", "force", "by"}),
            (_cluster_calls.rotate_token("n", 60, "b"), {"name", "grace", "by"}),
            (_cluster_calls.revoke_sessions("p", "b"), {"person", "by"}),
            (_cluster_calls.wait_history("x"), {"id", "history"}),
            (_document_calls.document("k"), {"key"}),
            (_document_calls.documents("p", "t"), {"prefix", "page_token"}),
            (_document_calls.set_document("k", "d", 0, at, "b"), {"key", "data", "if_version", "expires_at", "by"}),
            (_document_calls.delete_document("k", 0, "b"), {"key", "if_version", "by"}),
            (_logs._request("x", 1, True, "c"), {"id", "attempt", "follow", "cursor", "timeout"}),
            (_operation_calls.change_type("PauseType", "t"), {"type"}),
            (_operation_calls.change_type("ResumeType", "t"), {"type"}),
            (_operation_calls.ordering_keys(["error"], True, "t"), {"states", "behind", "page_token"}),
            (_operation_calls.ordering_key_tasks("k", "t"), {"key", "page_token"}),
            (_operation_calls.resume_ordering_key("k"), {"key"}),
            (_operation_calls.skip_ordering_key("k", "r"), {"key", "reason"}),
            (
                _operation_calls.silence_alerts("r", {"type": "t"}, 1, "c", "b"),
                {"rule", "labels", "for", "comment", "by"},
            ),
            (_operation_calls.unsilence_alerts("x"), {"id"}),
            (_operation_calls.test_alerts(["t"]), {"targets"}),
            (_operation_calls.apply_config(True), {"all_nodes"}),
            (_events._request("w", ["t"], "c", True), {"where", "types", "cursor", "catch_up", "timeout"}),
            (_calls.tasks(["error"], ["t"], "k", "w", "p"), {"states", "types", "page_token", "key", "where"}),
            (_calls.error_kinds(["t"], "w", 7), {"types", "where", "limit"}),
            (_calls.limit("l", "v"), {"name", "value"}),
            (_calls.why_limit("l", "v"), {"name", "value"}),
        ):
            with self.subTest(call.method):
                numbers = {name: number for name, number, _, _ in wanted[call.method + "Request"]}
                self.assertEqual({n for n, _ in _fields(call.request)}, {numbers[name] for name in named})
                self.assertEqual(named, {n for n in numbers if n in named})

    def test_nodes_that_are_silent_are_read_beside_what_was_asked(self):
        silent = client.SilentNode("n2", "i", "http://10.0.0.2:1", "no route")
        limit, node, worker = client.Limit("l"), client.Node("n1"), client.Worker("1")
        for call, one in (
            (_calls.limits(), limit),
            (_cluster_calls.nodes(""), node),
            (_cluster_calls.workers(), worker),
        ):
            answer = _codec.sized(1, _codec.encode(one)) + _codec.sized(2, _codec.encode(silent))
            self.assertEqual(tuple(call.read(answer)), ([one], [silent]))

    def test_why_a_limit_holds_tasks_up_is_read_as_a_whole(self):
        at = datetime(2026, 3, 29, 1, 2, 3, tzinfo=timezone.utc)
        why = client.LimitReasons(
            client.Limit("l"), (client.LimitTask("x", "t", 2, at, "n1"),), (client.LimitQueue("t", 7, "n1"),), at,
            (client.LimitNode("n2", 1, 3, at),), "p", (client.SilentNode("n3"),),
        )  # fmt: skip
        self.assertEqual(_calls.why_limit("l", "v").read(_codec.encode(why)), why)
        self.assertEqual(_calls.why_limit("l", "v").read(b"").limit, None)

    def test_a_log_says_at_its_end_which_lines_are_missing(self):
        line = client.LogLine(1, message="m")
        silent = (client.SilentNode("n2", "i", "", "no route"),)
        ran = client.RanElsewhere(1, "n2"), client.RanElsewhere(2, "n3")
        following = _logs._Following("x", 0, False, "c0")
        first = _log_messages.TaskLogsResponse((line, line), "c1")
        self.assertEqual([e.cursor for e in following.items(first)], ["c0", "c1"])
        self.assertFalse(following.is_over)
        last = _log_messages.TaskLogsResponse((), "c2", True, ran, silent)
        missing = client.MissingLines([ran[1]], silent)
        self.assertEqual(list(following.items(last)), [client.LogEntry("c2", missing=missing)])
        self.assertTrue(following.is_over)

    def test_fields_it_does_not_know_are_skipped(self):
        unknown = b"\xf8\x3f\x01" + b"\xfa\x3f\x02ab"
        self.assertEqual(_codec.decode(client.Rate, unknown + b"\x08\x05" + unknown), client.Rate(5))

    def test_what_is_no_message_raises_decode_error(self):
        for bad in (b"\x0a\x05ab", b"\x0a\x01\xff", b"\x08\x01", b"\x5a\x02\x08"):  # cut, no text, no number, no time
            with self.subTest(bad), self.assertRaises(DecodeError):
                _codec.decode(client.Task, bad)

    def test_numbers_and_times_that_cannot_be_sent_are_invalid(self):
        for call in (
            lambda: _calls.set_limit("l", "", -1, None, None, None, ""),
            lambda: _calls.set_limit("l", "", None, None, None, 1 << 64, ""),
            lambda: _calls.change("Cancel", "x", 1 << 64),
            lambda: _calls.get("\udcff"),
            lambda: _calls.tasks("error", (), "", "", ""),
            lambda: _calls.error_kinds((), "", 0),
            lambda: _calls.error_kinds("mail", "", 1),
            lambda: _slice_calls.set_slices("s", "", {"interval": 5}, "", ""),
            lambda: _slice_calls.reset_platform("s", "p", None, None, "", ""),
            lambda: _bulk_calls.start_bulk_job(client.BulkOrder("fail"), "", "fast", ""),
            lambda: _bulk_calls.set_task("x", client.TaskValues(), 1.5, 1, "", 0),
            lambda: _bulk_calls.set_task("x", client.TaskValues(priority=10), None, None, "", 0),
            lambda: _bulk_calls.preview_bulk_job(client.BulkOrder("fail", types="mail")),
            lambda: _cluster_calls.add_token("n", "submit", (), None, ""),
            lambda: _document_calls.set_document("k", "d", -1, None, ""),
            lambda: _document_calls.set_document("k", object(), None, None, ""),
            lambda: _document_calls.delete_document("k", -1, ""),
            lambda: _events._request("", "mail", "", False),
            lambda: _logs._request("x", -1, False, ""),
            lambda: _operation_calls.ordering_keys("error", False, ""),
            lambda: _operation_calls.test_alerts("hook"),
            lambda: _operation_calls.silence_alerts("r", None, "1h", "", ""),
            lambda: _calls.reschedule("x", None, None, 0),
            lambda: _calls.reschedule("x", datetime(2026, 1, 1), None, 0),
            lambda: _calls.apply_schedule("s", client.ScheduleDefinition(cron=5)),
            lambda: _calls.seek_source("s", "", None, False, False, None, None, False),
            lambda: _calls.seek_source("s", "", -1, True, False, None, None, False),
            lambda: _calls.submit([b""] * 1001),
        ):
            with self.assertRaises(client.Invalid):
                call()


class Errors(unittest.TestCase):
    def test_a_call_that_the_node_has_cancelled_has_exceeded_its_deadline(self):
        self.assertIsInstance(_errors.of_code("canceled", "RST_STREAM"), client.DeadlineExceeded)


class TaskIds(unittest.TestCase):
    def test_ids_are_those_of_go(self):
        ids = Ids(lambda: 0x0190A6F07C3E * 1_000_000 + 500_000, lambda n: bytes(range(1, 9)) * (n // 8))
        made = [ids.next("mail", *keys) for keys in (("", ""), ("k", ""), ("k", "käy"))]
        # ID.in of the Go package task, with BoundShard("mail", ...)
        self.assertEqual(made[0], "0190a6f0-7c3e-7800-8102-030405060708")
        for task_id, shard in zip(made[1:], (0x93, 0xCC)):
            b = uuid.UUID(task_id).bytes
            self.assertEqual(b[3] ^ b[7] ^ b[15], shard)

    def test_a_process_that_has_forked_makes_other_ids(self):
        program = """
import os
from taskengine.client._ids import Ids
ids = Ids(lambda: 0)
ids.next("t", "", "")
child = os.fork()
os.write(1, ids.next("t", "", "").encode() + b"\\n")
if child:
    os.waitpid(child, 0)
"""  # in a process of its own, for gRPC does not like a fork beside its threads
        made = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE, check=True).stdout
        self.assertEqual(len(set(made.split())), 2, made)

    def test_ids_increase_whatever_the_clock_does(self):
        clock = iter([5_000_000, 5_000_000, 4_000_000, -1, 5_000_001, 6_000_000])
        ids = Ids(lambda: next(clock))
        made = [ids.next("t", "", "") for _ in range(6)]
        self.assertEqual(made, sorted(set(made)))
        self.assertTrue(all(uuid.UUID(i).version == 7 and uuid.UUID(i).variant == uuid.RFC_4122 for i in made))


@dataclasses.dataclass
class Mail:
    to: str
    cc: "list[Mail]" = dataclasses.field(default_factory=list)


class Model:
    """What a pydantic model has."""

    def model_dump(self, mode):
        return {"mode": mode}


class Payloads(unittest.TestCase):
    def payload(self, value):
        message, _, _ = encode_task(NewTask("t", value), Ids())
        return dict(_fields(message)).get(3)

    def test_a_payload_is_json_or_what_was_given(self):
        for value, wanted in (
            (None, None), (b"\xff", b"\xff"), (bytearray(b"a"), b"a"), (memoryview(b"a"), b"a"), ("ü", "ü".encode()),
            ("", b""), ({"a": [1, None]}, b'{"a":[1,null]}'), (0, b"0"), (False, b"false"),
            (Mail("a", [Mail("b")]), b'{"to":"a","cc":[{"to":"b","cc":[]}]}'), ([Model()], b'[{"mode":"json"}]'),
            ({"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, b'{"at":"2026-01-01T00:00:00+00:00"}'),
            ([uuid.UUID(int=1)], b'["00000000-0000-0000-0000-000000000001"]'),
        ):  # fmt: skip
            with self.subTest(value):
                self.assertEqual(self.payload(value), wanted)

    def test_what_cannot_be_sent_is_invalid(self):
        for task, words in (
            (NewTask("t", object()), "object is no JSON"),
            (NewTask("t", priority=10), "give 0 to 9"),
            (NewTask("t", at=datetime(2026, 1, 1)), "no time zone"),
            (NewTask("t", at=float("inf")), ""),
            (NewTask("t", key="\udcff"), "surrogates"),
            (NewTask("t", headers={"a": 1}), ""),
            (NewTask(5), ""),
        ):
            with self.subTest(task), self.assertRaisesRegex(client.Invalid, words):
                encode_task(task, Ids())


if __name__ == "__main__":
    unittest.main()
