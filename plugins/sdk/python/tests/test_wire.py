"""The codec against the vectors that the Go messages made."""

import base64
import json
import os
import unittest

from taskengine import _wire

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "vectors.json")


def vectors(message):
    with open(VECTORS, encoding="utf-8") as f:
        return [v for v in json.load(f) if v["message"] == message]


class Decoding(unittest.TestCase):
    def test_frames_of_the_host_are_what_go_sent(self):
        seen = 0
        for v in vectors("ToHandler"):
            with self.subTest(v["name"]):
                seen += 1
                self.assertEqual(self.decoded(v), self.wanted(v["json"]))
        self.assertGreater(seen, 3)

    def decoded(self, v):
        frame = _wire.decode_to_handler(bytes.fromhex(v["hex"]))
        frame["runs"] = [{name: getattr(r, name) for name in _wire.Run.__slots__} for r in frame["runs"]]
        return frame

    def wanted(self, content):
        """The frame as protobuf's JSON describes it, which leaves out defaults."""
        welcome = content.get("welcome")
        if welcome is not None:
            welcome = {"host": "", "name": "", "slots": 0, "features": [], "resumed": False, **welcome}
            for name in ("max_result_bytes", "max_payload_bytes", "received", "liveness", "reconnect", "lease"):
                welcome[name] = int(welcome.get(name, 0))
            welcome["runs"] = [int(run_id) for run_id in welcome.get("runs", [])]
        return {
            "welcome": welcome,
            "runs": [self.wanted_run(r) for r in content.get("runs", [])],
            "cancels": [
                {
                    "run_id": int(c.get("run_id", 0)),
                    "reason": {"REASON_DEADLINE": 1, "REASON_CANCELLED": 2}.get(c.get("reason"), 0),
                    "message": c.get("message", ""),
                }
                for c in content.get("cancels", [])
            ],
            "drain": "drain" in content,
            "ping": int(content.get("ping", 0)),
            "received": int(content.get("received", 0)),
            "heard": int(content.get("heard", 0)),
            "stored": [
                (int(k.get("run_id", 0)), int(k.get("number", 0)), k.get("error", ""))
                for k in content.get("stored", [])
            ],
            "checked": [
                (
                    int(k.get("run_id", 0)),
                    int(k.get("number", 0)),
                    k.get("error", ""),
                    [self.wanted_refusal(r) for r in k.get("refusals", [])],
                )
                for k in content.get("checked", [])
            ],
            "documents": [
                _wire.DocumentRead(
                    error=d.get("error", ""),
                    data=base64.b64decode(d.get("data", "")),
                    **{
                        name: int(d.get(name, 0))
                        for name in ("run_id", "number", "version", "expires_at", "created_at", "updated_at")
                    },
                )
                for d in content.get("documents", [])
            ],
        }

    def wanted_refusal(self, r):
        reason = {"REASON_KEY_TAKEN": 6}.get(r.get("reason"), 0)
        return (r.get("index", 0), reason, r.get("message", ""), base64.b64decode(r.get("task_id", "")))

    def wanted_run(self, r):
        run = {"attempt": 0, "crashes": 0, "priority": 0, "type": "", "key": "", "ordering_key": "", "headers": {}, **r}
        for name in ("run_id", "version", "time_left"):
            run[name] = int(run.get(name, 0))
        for name in ("task_id", "payload", "checkpoint"):
            run[name] = base64.b64decode(run.get(name, ""))
        woken = run.get("woken")
        if woken is not None:
            by = {"BY_SIGNAL": 1, "BY_TIMEOUT": 2, "BY_USER": 3, "BY_CHILDREN": 4}.get(woken.get("by"), 0)
            signal_id, data = (base64.b64decode(woken.get(name, "")) for name in ("id", "data"))
            woken = (by, signal_id, woken.get("name", ""), int(woken.get("at", 0)), data)
        run["woken"] = woken
        run["children"] = [self.wanted_set(s) for s in r.get("children", [])]
        parent = r.get("parent")
        if parent is not None:
            parent = (base64.b64decode(parent.get("task_id", "")), parent.get("name", ""), parent.get("index", 0))
        run["parent"] = parent
        return run

    def wanted_set(self, s):
        counts = tuple(s.get(name, 0) for name in ("added", "done", "failed", "cancelled"))
        return (s.get("name", ""), *counts, *(base64.b64decode(s.get(name, "")) for name in ("ended", "shards")))

    def test_fields_it_does_not_know_are_skipped(self):
        unknown = b"\xf8\x3f\x01" + b"\xfa\x3f\x02ab" + b"\xf9\x3f12345678" + b"\xfd\x3f1234"
        self.assertEqual(_wire.decode_to_handler(unknown + b"\x28\x07" + unknown)["ping"], 7)

    def test_what_is_no_message_raises_decode_error(self):
        good = bytes.fromhex(next(v["hex"] for v in vectors("ToHandler") if v["name"] == "to: runs"))
        for bad in (b"\x08", b"\x12\x05ab", b"\x0b", b"\xff" * 11, b"\x09123", b"\x0d12", good[:-1]):
            with self.subTest(bad), self.assertRaises(_wire.DecodeError):
                _wire.decode_to_handler(bad)


class Encoding(unittest.TestCase):
    def test_frames_are_byte_for_byte_those_of_go(self):
        w = _wire
        run = w.decode_run(w._bytes(2, b"0123456789abcdef") + w._int(3, 7) + w._text(4, "mail"))
        made = {
            "from: hello": w.encode_from_handler(
                hello=w.encode_hello("python", "1.0.0", "v7", ["a", "b"], 16), credits=16
            ),
            "from: result": w.encode_from_handler(credits=1, finishes=[w.finish_result(1, b"ok")], pong=3),
            "from: empty result": w.encode_from_handler(credits=1, finishes=[w.finish_result(1 << 40, b"")]),
            "from: long result": w.encode_from_handler(finishes=[w.finish_result(1, b"y" * 300)]),
            "from: error": w.encode_from_handler(finishes=[w.finish_error(2, "nö", "funds", permanent=True)]),
            "from: retry": w.encode_from_handler(finishes=[w.finish_error(2, "no", retry_delay=90_000_000)]),
            "from: retry now": w.encode_from_handler(finishes=[w.finish_error(2, "", retry_delay=0)]),
            "from: snooze": w.encode_from_handler(finishes=[w.finish_snooze(3, 1), w.finish_snooze(4, 0)]),
            "from: again": w.encode_from_handler(
                finishes=[w.finish_again(5, 2_000_000_000_000_000, b"so far"), w.finish_again(6, -1)]
            ),
            "from: again with a payload and a checkpoint": w.encode_from_handler(
                finishes=[
                    w.finish_again(5, 1, b"so far", b"next\xff", b"page 2"),
                    w.finish_again(6, 0, payload=b""),
                    w.finish_again(7, 0, checkpoint=b""),
                ]
            ),
            "from: again by a signal": w.encode_from_handler(
                finishes=[
                    w.finish_again(5, 0, b"so far", None, b"page 2", w.wait(["paid", "vöid"]), 90_000_000),
                    w.finish_again(6, 2_000_000_000_000_000, wait=w.wait(["paid"])),
                    w.finish_again(7, 0, wait=w.wait([])),
                    w.finish_again(8, 0, delay=1),
                ]
            ),
            "from: again by children": w.encode_from_handler(
                finishes=[
                    w.finish_again(
                        5, 0, b"so far", wait=w.wait((), [("pägé", 300, True), ("proof", 0, False)]), delay=1
                    )
                ]
            ),
            "from: checkpoints": w.encode_from_handler(
                said=[(w.CHECKPOINT, w.checkpoint(1, b"page 2", 300)), (w.CHECKPOINT, w.checkpoint(2, b""))]
            ),
            "from: reads": w.encode_from_handler(
                pong=7,
                clock=1_900_000_000_000_000,
                said=[(w.READ, w.read_document(1, 300, "stöck/a")), (w.READ, w.read_document(2, 1, ""))],
            ),
            "from: documents": w.encode_from_handler(
                finishes=[
                    w._int(1, 1)
                    + w.write_document("stöck/a", b"\x00\xff", False, (1 << 64) - 1, 2_000_000_000_000_000)
                    + w.write_document("b", b"", True, None, 0)
                    + w.write_document("c", b"x", False, 0, 0)
                    + w.write_document("", b"", False, None, 0)
                ]
            ),
            "from: checks": w.encode_from_handler(
                pong=7,
                clock=1_900_000_000_000_000,
                said=[
                    (
                        w.CHECK,
                        w.check(
                            1,
                            300,
                            "pägé",
                            [
                                w.child_content("a", "", "", b"1", {}, 0, None),
                                w.child_content("b", "", "", b"", {}, 0, None),
                            ],
                        ),
                    ),
                    (w.CHECK, w.check(2, 1, "", [w.child_content("a", "k", "", b"", {}, 0, None)])),
                ],
            ),
            "from: tasks after others": w.encode_from_handler(
                finishes=[
                    w._int(1, 1)
                    + w.child("late", "k", "", b"", {}, 0, None, "", [b"\x07" * 16, b"\xfe" * 16], True)
                    + w.child("mail", "", "", b"", {}, 0, 9, "", [b"\xfe" * 16])
                ]
            ),
            "from: offer": w.encode_from_handler(
                hello=w.encode_hello("", "", "", ["a"], 2),
                offer=w.encode_offer("mail", {"region": "eu", "disk": ""}, b"\x07" * 16, [3, 300], "host:1"),
            ),
            "from: pong of a worker": w.encode_from_handler(pong=7, clock=1_900_000_000_000_000),
            "from: error in doubt": w.encode_from_handler(
                finishes=[w.finish_error(2, "no answer", "timeout", in_doubt=True)]
            ),
            "from: leaving": w.encode_from_handler(credits=1, leaving=True),
            "from: earlier": w.encode_from_handler(credits=1, finishes=[w.earlier(w._int(1, 1 << 40), run)]),
            "from: ended": w.encode_from_handler(finishes=[w.finish_ended(8)]),
            "from: refused": w.encode_from_handler(finishes=[w.finish_refused(7, "full")]),
        }
        wanted = {v["name"]: v["hex"] for v in vectors("FromHandler")}
        self.assertEqual({name: frame.hex() for name, frame in made.items()}, wanted)

    def test_what_the_vectors_lack_is_what_go_sends_too(self):
        w, at = _wire, 1_900_000_000_000_000
        lines = [
            w.log_line(1, -4, "nö", at, {"b": "2", "a": "", "": "x"}),
            w.log_line(0, 8, "", 0, {}),
            w.log_line(1 << 40, 0, "x", 0, {}),
        ]
        notes = [
            (w.CHECKPOINT, w.checkpoint(4, b"\x00\xff")),
            (w.CHECKPOINT, w.checkpoint(5, b"")),
            (w.PROGRESS, w.progress(1, (1 << 64) - 1, 300, "m")),
            (w.PROGRESS, w.progress(2, 0, 0, "")),
        ]
        for made, wanted in (
            (
                w.encode_from_handler(hello=w.encode_hello("python", "", "", ["a"], 1, ["children", "progress"])),
                "0a2308011206707974686f6e2a016130013a086368696c6472656e3a0870726f6772657373",
            ),
            (
                w.encode_from_handler(said=[(w.LOG, line) for line in lines]),
                "2a28080110071a036ec3b6208080cbc8a381b0032a050a001201782a050a016112002a060a01621201322a0210102a0a0880808080"
                "80201a0178",
            ),
            (
                w.encode_from_handler(said=notes),
                "3213080110ffffffffffffffffff0118ac0222016d320208023a060804120200ff3a020805",
            ),
        ):
            self.assertEqual(made.hex(), wanted)

    def test_children_are_those_of_go(self):
        w, at = _wire, 1_900_000_000_000_000
        made = (
            w.finish_result(1, b"ok")
            + w.child("a", "", "", b"", {}, 0, None)
            + w.child("mail", "k", "o", b"p", {"h": "v", "g": ""}, at, 9)
            + w.child("b", "", "", b"", {}, -1, 0)
        )
        go = (  # which writes the outcome last
            "08013a030a01613a290a046d61696c12016b1a016f2201702a050a016712002a060a0168120176308080cbc8a381b0033809"
            "3a100a016230ffffffffffffffffff01380012026f6b"
        )
        self.assertEqual(sorted(w._fields(made)), sorted(w._fields(bytes.fromhex(go))))

    def test_errors_are_cut_at_a_character(self):
        finish = _wire.finish_error(1, "ö" * 10_000)
        self.assertLess(len(finish), _wire.MAX_ERROR_BYTES + 20)
        self.assertIn("ö".encode() * 100, finish)

    def test_text_that_is_no_utf8_is_mended(self):
        self.assertIn(b"no ? money", _wire.finish_error(1, "no \udcff money"))


if __name__ == "__main__":
    unittest.main()
