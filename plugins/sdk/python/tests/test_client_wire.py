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
from taskengine.client import NewTask, _calls, _codec, _errors, _messages, _slice_calls, _slice_messages
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
        for cls in _messages.MESSAGES + _slice_messages.MESSAGES:
            fields = _codec.fields_of(cls).items()
            found = {(name.rstrip("_"), f.number, f.kind.name, f.shape) for name, f in fields}
            with self.subTest(cls.__name__):
                self.assertEqual(found, wanted[cls.__name__])

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

    def test_the_calls_about_slices_have_the_fields_of_the_proto_file(self):
        wanted, at = declared(), datetime(2026, 3, 29, 1, 2, 3, tzinfo=timezone.utc)
        for call, named in (
            (_slice_calls.slice_source("s"), {"name"}),
            (_slice_calls.platforms("s", "p", "t"), {"source", "prefix", "limit", "page_token"}),
            (_slice_calls.platform("s", "p"), {"source", "platform"}),
            (_slice_calls.set_slices("s", "p", {"lag": "1s"}, "b", "r"), {"source", "platform", "values", "by", "reason"}),
            (_slice_calls.change_platform("AddPlatform", "s", "p", "b", "r"), {"source", "platform", "by", "reason"}),
            (_slice_calls.change_platform("RemovePlatform", "s", "p", "b", "r"), {"source", "platform", "by", "reason"}),
            (_slice_calls.change_slices("PauseSlices", "s", "p", "b", "r"), {"source", "platform", "by", "reason"}),
            (_slice_calls.change_slices("ResumeSlices", "s", "p", "b", "r"), {"source", "platform", "by", "reason"}),
            (_slice_calls.reset_platform("s", "p", at, at, "b", "r"), {"source", "platform", "to", "from", "by", "reason"}),
            (_slice_calls.retry_slices("s", "p", at, at, "b", "r"), {"source", "platform", "from", "until", "by", "reason"}),
            (_calls.tasks(["error"], ["t"], "k", "w", "p"), {"states", "types", "page_token", "key", "where"}),
            (_calls.error_kinds(["t"], "w", 7), {"types", "where", "limit"}),
        ):
            with self.subTest(call.method):
                numbers = {name: number for name, number, _, _ in wanted[call.method + "Request"]}
                self.assertEqual({n for n, _ in _fields(call.request)}, {numbers[name] for name in named})
                self.assertEqual(named, {n for n in numbers if n in named})

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
