"""The messages of handler.proto, as far as a handler needs them, in protobuf's encoding.

Decoders take what a host sends and skip fields they do not know. Encoders write what
a handler sends, field by field in the order of their numbers, leaving out defaults:
byte for byte what protobuf's own encoders write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

PROTOCOL = 1
COOKIE_KEY = "TASKENGINE_HANDLER"
COOKIE_VALUE = "1f0d6bb2-handler"

FRAME_BYTES = 1 << 20
FRAME_MESSAGES = 512
MAX_ERROR_BYTES = 8 << 10
_MAX_FIELDS_BYTES = 64 << 10  # of the fields of one line of the log: more are left out

REASON_DEADLINE = 1

# The numbers of what a frame may carry besides hello, credits, finishes and pong.
LOG, PROGRESS, CHECKPOINT, CHECK, READ = 5, 6, 7, 11, 12


class DecodeError(ValueError):
    """The bytes are not a protobuf message."""


# --- decoding


def _varint(buf: bytes, pos: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, pos
        shift += 7
        if shift > 63:
            raise DecodeError("a varint is longer than ten bytes")


def _fields(buf: bytes) -> Iterator[tuple[int, Any]]:
    """Yields (number, value): an int, or bytes for everything that has a length."""
    pos, end = 0, len(buf)
    try:
        while pos < end:
            tag = buf[pos]
            pos += 1
            if tag >= 0x80:
                tag, pos = _varint(buf, pos - 1)
            kind = tag & 7
            if kind == 0:
                value: Any = buf[pos]
                pos += 1
                if value >= 0x80:
                    value, pos = _varint(buf, pos - 1)
            elif kind == 2:
                size = buf[pos]
                pos += 1
                if size >= 0x80:
                    size, pos = _varint(buf, pos - 1)
                value = buf[pos : pos + size]
                pos += size
            elif kind == 1:
                value = struct.unpack_from("<Q", buf, pos)[0]
                pos += 8
            elif kind == 5:
                value = struct.unpack_from("<I", buf, pos)[0]
                pos += 4
            else:
                raise DecodeError("wire type %d" % kind)
            if pos > end:
                raise DecodeError("a field goes beyond its message")
            yield tag >> 3, value
    except (IndexError, struct.error):
        raise DecodeError("the message is cut off") from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _entry(buf: bytes) -> tuple[str, str]:
    key = value = ""
    for number, v in _fields(buf):
        if number == 1:
            key = v.decode()
        elif number == 2:
            value = v.decode()
    return key, value


def decode_to_handler(buf: bytes) -> dict[str, Any]:
    """Returns a frame as a dict with welcome, runs, cancels, drain, ping, received, heard, stored,
    checked and documents."""
    frame: dict[str, Any] = {"welcome": None, "runs": [], "cancels": [], "drain": False}
    frame.update({"ping": 0, "received": 0, "heard": 0, "stored": [], "checked": [], "documents": []})
    for number, value in _fields(buf):
        if number == 2:
            frame["runs"].append(decode_run(value))
        elif number == 3:
            frame["cancels"].append(_decode_cancel(value))
        elif number == 5:
            frame["ping"] = value
        elif number == 4:
            frame["drain"] = True
        elif number == 6:
            frame["received"] = value
        elif number == 7:
            frame["heard"] = value
        elif number == 8:
            frame["stored"].append(_decode_stored(value))
        elif number == 9:
            frame["checked"].append(_decode_checked(value))
        elif number == 10:
            frame["documents"].append(_decode_document(value))
        elif number == 1:
            frame["welcome"] = _decode_welcome(value)
    return frame


def _decode_welcome(buf: bytes) -> dict[str, Any]:
    w: dict[str, Any] = {"protocol": 0, "host": "", "name": "", "slots": 0, "max_result_bytes": 0, "features": []}
    w["max_payload_bytes"] = 0
    w.update({"resumed": False, "received": 0, "runs": [], "liveness": 0, "reconnect": 0, "lease": 0})
    for number, value in _fields(buf):
        if number == 1:
            w["protocol"] = value
        elif number == 2:
            w["host"] = value.decode()
        elif number == 3:
            w["name"] = value.decode()
        elif number == 4:
            w["slots"] = value
        elif number == 5:
            w["max_result_bytes"] = value
        elif number == 6:
            w["features"].append(value.decode())
        elif number == 7:
            w["max_payload_bytes"] = value
        elif number == 8:
            w["resumed"] = bool(value)
        elif number == 9:
            w["received"] = value
        elif number == 10:
            w["runs"] += _numbers(value)
        elif number == 11:
            w["liveness"] = _signed(value)
        elif number == 12:
            w["reconnect"] = _signed(value)
        elif number == 13:
            w["lease"] = _signed(value)
    return w


def _numbers(value: Any) -> list[int]:
    """The values of a repeated number: one, or several in a field with a length."""
    if isinstance(value, int):
        return [value]
    numbers, pos = [], 0
    try:
        while pos < len(value):
            number, pos = _varint(value, pos)
            numbers.append(number)
    except IndexError:
        raise DecodeError("the message is cut off") from None
    return numbers


def run_of(finish: bytes) -> int:
    """The run that an encoded finish answers."""
    return next((int(value) for number, value in _fields(finish) if number == 1), 0)


def _decode_cancel(buf: bytes) -> dict[str, Any]:
    c: dict[str, Any] = {"run_id": 0, "reason": 0, "message": ""}
    for number, value in _fields(buf):
        if number == 1:
            c["run_id"] = value
        elif number == 2:
            c["reason"] = value
        elif number == 3:
            c["message"] = value.decode()
    return c


class Stored(NamedTuple):
    """The answer to a checkpoint of a run, and to those before it."""

    run_id: int
    number: int
    error: str  # why it is not stored; empty if it is


def _decode_stored(buf: bytes) -> Stored:
    run_id = stored = 0
    error = ""
    for number, value in _fields(buf):
        if number == 1:
            run_id = value
        elif number == 2:
            stored = value
        elif number == 3:
            error = value.decode()
    return Stored(run_id, stored, error)


class Refusal(NamedTuple):
    """A task of a check that would be refused."""

    position: int = 0
    reason: int = 0
    message: str = ""
    task_id: bytes = b""  # of the task that has the key


class Checked(NamedTuple):
    """The answer to a check of a run."""

    run_id: int
    number: int
    error: str  # why the tasks were not checked; empty if they were
    refusals: list[Refusal]


def _decode_checked(buf: bytes) -> Checked:
    run_id = checked = 0
    error = ""
    refusals = []
    for number, value in _fields(buf):
        if number == 1:
            run_id = value
        elif number == 2:
            checked = value
        elif number == 3:
            error = value.decode()
        elif number == 4:
            refusals.append(_decode_refusal(value))
    return Checked(run_id, checked, error, refusals)


class DocumentRead(NamedTuple):
    """The answer to a read of a document."""

    run_id: int = 0
    number: int = 0
    error: str = ""  # why the document was not read; empty if it was
    version: int = 0  # 0 if there is no document
    data: bytes = b""
    expires_at: int = 0
    created_at: int = 0
    updated_at: int = 0


def _decode_document(buf: bytes) -> DocumentRead:
    fields: dict[str, Any] = {}
    for number, value in _fields(buf):
        if number == 1:
            fields["run_id"] = value
        elif number == 2:
            fields["number"] = value
        elif number == 3:
            fields["error"] = value.decode()
        elif number == 4:
            fields["version"] = value
        elif number == 5:
            fields["data"] = value
        elif number == 6:
            fields["expires_at"] = _signed(value)
        elif number == 7:
            fields["created_at"] = _signed(value)
        elif number == 8:
            fields["updated_at"] = _signed(value)
    return DocumentRead(**fields)


def _decode_refusal(buf: bytes) -> Refusal:
    fields: dict[str, Any] = {}
    for number, value in _fields(buf):
        if number == 1:
            fields["position"] = value
        elif number == 2:
            fields["reason"] = value
        elif number == 3:
            fields["message"] = value.decode()
        elif number == 4:
            fields["task_id"] = value
    return Refusal(**fields)


BY_SIGNAL, BY_TIMEOUT, BY_USER, BY_CHILDREN = 1, 2, 3, 4


class Woken(NamedTuple):
    """What ended the wait of a task."""

    by: int = 0  # BY_SIGNAL, BY_TIMEOUT, BY_USER or BY_CHILDREN
    id: bytes = b""  # of the signal
    name: str = ""
    at: int = 0
    data: bytes = b""


def _decode_woken(buf: bytes) -> Woken:
    fields: dict[str, Any] = {}
    for number, value in _fields(buf):
        if number == 1:
            fields["by"] = value
        elif number == 2:
            fields["id"] = value
        elif number == 3:
            fields["name"] = value.decode()
        elif number == 4:
            fields["at"] = _signed(value)
        elif number == 5:
            fields["data"] = value
    return Woken(**fields)


class ChildSet(NamedTuple):
    """How the children of one name have ended."""

    name: str = ""
    added: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    ended: bytes = b""  # a bit for each that has ended
    shards: bytes = b""  # of each, if ordering keys decide that


def _decode_child_set(buf: bytes) -> ChildSet:
    names = {2: "added", 3: "done", 4: "failed", 5: "cancelled", 6: "ended", 7: "shards"}
    fields: dict[str, Any] = {}
    for number, value in _fields(buf):
        if number == 1:
            fields["name"] = value.decode()
        elif number in names:
            fields[names[number]] = value
    return ChildSet(**fields)


class Parent(NamedTuple):
    """The task that learns of the end of a child, and the place of the child."""

    task_id: bytes = b""
    name: str = ""
    number: int = 0


def _decode_parent(buf: bytes) -> Parent:
    fields: dict[str, Any] = {}
    for number, value in _fields(buf):
        if number == 1:
            fields["task_id"] = value
        elif number == 2:
            fields["name"] = value.decode()
        elif number == 3:
            fields["number"] = value
    return Parent(**fields)


class Run:
    """One attempt of one task, as it came."""

    __slots__ = (
        "run_id", "task_id", "version", "type", "attempt", "crashes", "priority",
        "key", "ordering_key", "payload", "headers", "time_left", "checkpoint", "woken", "children",
        "parent",
    )  # fmt: skip

    run_id: int
    task_id: bytes
    version: int
    type: str
    attempt: int
    crashes: int
    priority: int
    key: str
    ordering_key: str
    payload: bytes
    headers: dict[str, str]
    time_left: int
    checkpoint: bytes
    woken: Woken | None
    children: list[ChildSet]
    parent: Parent | None


def decode_run(buf: bytes) -> Run:
    r = Run()
    r.run_id = r.version = r.attempt = r.crashes = r.priority = r.time_left = 0
    r.task_id = r.payload = r.checkpoint = b""
    r.type = r.key = r.ordering_key = ""
    r.headers = {}
    r.woken = r.parent = None
    r.children = []
    for number, value in _fields(buf):
        if number == 1:
            r.run_id = value
        elif number == 2:
            r.task_id = value
        elif number == 3:
            r.version = value
        elif number == 4:
            r.type = value.decode()
        elif number == 5:
            r.attempt = value
        elif number == 6:
            r.crashes = value
        elif number == 7:
            r.priority = value
        elif number == 8:
            r.key = value.decode()
        elif number == 9:
            r.ordering_key = value.decode()
        elif number == 10:
            r.payload = value
        elif number == 11:
            key, text = _entry(value)
            r.headers[key] = text
        elif number == 12:
            r.time_left = _signed(value)
        elif number == 13:
            r.checkpoint = value
        elif number == 14:
            r.woken = _decode_woken(value)
        elif number == 15:
            r.children.append(_decode_child_set(value))
        elif number == 16:
            r.parent = _decode_parent(value)
    return r


# --- encoding


def _encode_varint(value: int) -> bytes:
    if value < 0:
        value += 1 << 64
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(number: int, value: int) -> bytes:
    """An integer field, left out if it is 0."""
    return _encode_varint(number << 3) + _encode_varint(value) if value else b""


def _message(number: int, value: bytes) -> bytes:
    """A field with a length, written even if that is 0."""
    return _encode_varint(number << 3 | 2) + _encode_varint(len(value)) + value


def _bytes(number: int, value: bytes) -> bytes:
    return _message(number, value) if value else b""


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode("utf-8", "replace"))


def _map(number: int, entries: Mapping[bytes, bytes]) -> bytes:
    """A map field, in the order of its keys; an entry has both its fields whatever they are."""
    return b"".join(_message(number, _message(1, key) + _message(2, entries[key])) for key in sorted(entries))


def _utf8(text: str) -> bytes:
    """The bytes of a text for people, at most MAX_ERROR_BYTES of them and cut at a character."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > MAX_ERROR_BYTES:
        encoded = encoded[:MAX_ERROR_BYTES].decode("utf-8", "ignore").encode()
    return encoded


def encode_hello(
    sdk: str, sdk_version: str, version: str, types: Iterable[str], slots: int, features: Iterable[str] = ()
) -> bytes:
    return (
        _int(1, PROTOCOL)
        + _text(2, sdk)
        + _text(3, sdk_version)
        + _text(4, version)
        + b"".join(_message(5, t.encode()) for t in types)
        + _int(6, slots)
        + b"".join(_message(7, f.encode()) for f in features)
    )


def encode_from_handler(
    hello: bytes | None = None,
    credits: int = 0,
    finishes: Iterable[bytes] = (),
    pong: int = 0,
    said: Iterable[tuple[int, bytes]] = (),
    offer: bytes | None = None,
    leaving: bool = False,
    clock: int = 0,
) -> bytes:
    """Encodes a frame of encoded messages; said are pairs of a number, such as LOG, and a message."""
    parts = []
    if hello is not None:
        parts.append(_message(1, hello))
    parts.append(_int(2, credits))
    for f in finishes:
        parts.append(b"\x1a" + _encode_varint(len(f)) + f)
    parts.append(_int(4, pong))
    ordered = sorted(said, key=itemgetter(0))
    parts += [_message(number, message) for number, message in ordered if number < CHECK]
    if offer is not None:
        parts.append(_message(8, offer))
    parts.append(_int(9, int(leaving)))
    parts.append(_int(10, clock))
    parts += [_message(number, message) for number, message in ordered if number >= CHECK]
    return b"".join(parts)


def encode_offer(handler: str, labels: Mapping[str, str], session: bytes, runs: Iterable[int], name: str) -> bytes:
    return (
        _text(1, handler)
        + _map(2, {k.encode(): v.encode() for k, v in labels.items()})
        + _bytes(3, session)
        + _bytes(4, b"".join(map(_encode_varint, runs)))
        + _text(5, name)
    )


def finish_result(run_id: int, result: bytes) -> bytes:
    return _int(1, run_id) + _message(2, result)


def finish_error(
    run_id: int,
    message: str,
    error_class: str = "",
    permanent: bool = False,
    retry_delay: int | None = None,
    in_doubt: bool = False,
) -> bytes:
    error = _bytes(1, _utf8(message)) + _bytes(2, _utf8(error_class)) + _int(3, int(permanent))
    if retry_delay is not None:
        error += b"\x20" + _encode_varint(retry_delay)
    error += _int(6, int(in_doubt))
    return _int(1, run_id) + _message(3, error)


def finish_snooze(run_id: int, delay: int) -> bytes:
    return _int(1, run_id) + _message(4, _int(1, delay))


def finish_again(
    run_id: int,
    at: int,
    result: bytes = b"",
    payload: bytes | None = None,
    checkpoint: bytes | None = None,
    wait: bytes | None = None,
    delay: int = 0,
) -> bytes:
    again = _int(1, at) + _bytes(2, result)
    if payload is not None:
        again += _message(3, payload)
    if checkpoint is not None:
        again += _message(4, checkpoint)
    if wait is not None:
        again += _message(5, wait)
    again += _int(6, delay)
    return _int(1, run_id) + _message(5, again)


def wait(names: Iterable[str], children: Iterable[tuple[str, int, bool]] = ()) -> bytes:
    """The wait of an again for signals, or for children: names, how many, and whether one that fails ends it. Text that
    is no UTF-8 is an error."""
    waits = (_bytes(1, name.encode()) + _int(2, count) + _int(3, int(failed)) for name, count, failed in children)
    return b"".join(_message(1, name.encode()) for name in names) + b"".join(_message(2, w) for w in waits)


def finish_ended(run_id: int) -> bytes:
    return _int(1, run_id) + _message(8, b"")


class Earlier(bytes):
    """A finish that answers an attempt of a session that is over, in place of a run."""


def earlier(finish: bytes, run: Run) -> Earlier:
    """The finish of a run, for a node that does not know the run."""
    attempt = _bytes(1, run.task_id) + _int(2, run.version) + _text(3, run.type)
    _, outcome = _varint(finish, 1)  # behind the number of the run
    return Earlier(finish[outcome:] + _message(9, attempt))


def is_error(finish: bytes) -> bool:
    """Whether a finish says that the attempt has failed, or has not begun."""
    return any(number in (3, 6) for number, _ in _fields(finish))


def is_refused(finish: bytes) -> bool:
    """Whether a finish says that the attempt has not begun."""
    return any(number == 6 for number, _ in _fields(finish))


def finish_refused(run_id: int, message: str) -> bytes:
    return _int(1, run_id) + _message(6, _text(1, message))


def child(
    task_type: str,
    key: str,
    ordering_key: str,
    payload: bytes,
    headers: Mapping[str, str],
    run_at: int,
    priority: int | None,
    name: str = "",
    after: Iterable[bytes] = (),
    after_any: bool = False,
) -> bytes:
    """A field of a Finish, to be added to its end. A name is that of the set of children that it belongs to. Text that is
    no UTF-8 is an error."""
    content = child_content(task_type, key, ordering_key, payload, headers, run_at, priority, name, after, after_any)
    return _message(7, content)


def child_content(
    task_type: str,
    key: str,
    ordering_key: str,
    payload: bytes,
    headers: Mapping[str, str],
    run_at: int,
    priority: int | None,
    name: str = "",
    after: Iterable[bytes] = (),
    after_any: bool = False,
) -> bytes:
    """The content of such a field."""
    content = _bytes(1, task_type.encode()) + _bytes(2, key.encode()) + _bytes(3, ordering_key.encode())
    content += _bytes(4, payload) + _map(5, {k.encode(): v.encode() for k, v in headers.items()}) + _int(6, run_at)
    if priority is not None:
        content += b"\x38" + _encode_varint(priority)
    content += _bytes(8, name.encode()) + b"".join(_message(11, task_id) for task_id in after)
    return content + _int(12, int(after_any))


def check(run_id: int, number: int, name: str, children: Iterable[bytes]) -> bytes:
    """Asks about tasks, of which the content is given."""
    asked = b"".join(_message(4, child) for child in children)
    return _int(1, run_id) + _int(2, number) + _bytes(3, name.encode()) + asked


def read_document(run_id: int, number: int, key: str) -> bytes:
    """Asks for a document."""
    return _int(1, run_id) + _int(2, number) + _bytes(3, key.encode())


def write_document(key: str, data: bytes, delete: bool, replaces: int | None, expires_at: int) -> bytes:
    """A write of a document as a field of a Finish, to be added to its end. Text that is no UTF-8 is an error."""
    content = _bytes(1, key.encode()) + _bytes(2, data) + _int(3, int(delete))
    if replaces is not None:
        content += b"\x20" + _encode_varint(replaces)
    return _message(11, content + _int(5, expires_at))


def signal(
    task_id: bytes, task_type: str, key: str, ordering_key: str, signal_id: bytes, name: str, data: bytes, keep: bool
) -> bytes:
    """A field of a Finish, to be added to its end. Text that is no UTF-8 is an error."""
    content = _bytes(1, task_id) + _bytes(2, task_type.encode()) + _bytes(3, key.encode())
    content += _bytes(4, ordering_key.encode()) + _bytes(5, signal_id) + _bytes(6, name.encode())
    return _message(10, content + _bytes(7, data) + _int(8, int(keep)))


def log_line(run_id: int, level: int, message: str, time: int, fields: Mapping[str, str]) -> bytes:
    zigzag = level << 1 if level >= 0 else (-level << 1) - 1
    texts: dict[bytes, bytes] = {}
    left = _MAX_FIELDS_BYTES
    for name, value in fields.items():
        key, text = _utf8(name), _utf8(value)
        left -= len(key) + len(text)
        if left < 0:
            break
        texts[key] = text
    return _int(1, run_id) + _int(2, zigzag) + _bytes(3, _utf8(message)) + _int(4, time) + _map(5, texts)


def progress(run_id: int, done: int, total: int, message: str) -> bytes:
    return _int(1, run_id) + _int(2, done) + _int(3, total) + _bytes(4, _utf8(message))


def checkpoint(run_id: int, data: bytes, number: int = 0) -> bytes:
    return _int(1, run_id) + _bytes(2, data) + _int(3, number)
