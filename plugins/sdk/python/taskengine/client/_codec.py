"""Protobuf's encoding of messages that are dataclasses, and whose fields say how they are encoded."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple, TypeVar

from .._wire import DecodeError, _encode_varint, _entry, _fields, _signed

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class Kind(NamedTuple):
    """How a value is encoded. take and give convert what _fields yields, and bytes or a number."""

    name: str  # as the proto file writes it
    take: Callable[[Any], Any]
    give: Callable[[Any], Any]
    default: Any


class Field(NamedTuple):
    """One field of a message. shape is "one", "optional" (None is absent), "many" or "map"."""

    number: int
    kind: Kind
    shape: str


def _take_time(buf: bytes) -> datetime:
    seconds, nanos = _pair(buf)
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _take_duration(buf: bytes) -> timedelta:
    seconds, nanos = _pair(buf)
    return timedelta(seconds=seconds, microseconds=int(nanos / 1000))


def _pair(buf: bytes) -> tuple[int, int]:
    parts = dict(_fields(buf))
    return _signed(parts.get(1, 0)), _signed(parts.get(2, 0))


def give_time(at: datetime) -> bytes:
    """A Timestamp. Raises ValueError for a time without a time zone."""
    if at.tzinfo is None:
        raise ValueError(
            "the time %s has no time zone: give an aware datetime, such as datetime.now(timezone.utc)" % at
        )
    micros = (at - _EPOCH) // _MICROSECOND
    return integer(1, micros // 1_000_000) + integer(2, micros % 1_000_000 * 1000)


def give_duration(d: timedelta) -> bytes:
    micros = d // _MICROSECOND
    sign = -1 if micros < 0 else 1
    return integer(1, sign * (abs(micros) // 1_000_000)) + integer(2, sign * (abs(micros) % 1_000_000 * 1000))


def _same(value: Any) -> Any:
    return value


def _take_double(bits: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return found


TEXT = Kind("string", bytes.decode, str.encode, "")
BYTES = Kind("bytes", bytes, bytes, b"")
UINT32 = Kind("uint32", _same, _same, 0)
UINT64 = Kind("uint64", _same, _same, 0)
INT64 = Kind("int64", _signed, _same, 0)
DOUBLE = Kind("double", _take_double, float, 0.0)
BOOL = Kind("bool", bool, int, False)
TIME = Kind("google.protobuf.Timestamp", _take_time, give_time, None)
DURATION = Kind("google.protobuf.Duration", _take_duration, give_duration, None)


def one(number: int, kind: Kind) -> Any:
    """A field with one value. A time, a duration or a message that is absent is None."""
    return _field(Field(number, kind, "one"), default=kind.default)


def optional(number: int, kind: Kind) -> Any:
    """A field whose value may be absent, which is None."""
    return _field(Field(number, kind, "optional"), default=None)


def many(number: int, kind: Kind) -> Any:
    """A list of values."""
    return _field(Field(number, kind, "many"), default=())


def texts(number: int) -> Any:
    """A map of texts."""
    return _field(Field(number, TEXT, "map"), default_factory=dict)


def message(cls: type[Any]) -> Kind:
    """The kind of a field that is itself a message."""
    return Kind(cls.__name__, lambda buf: decode(cls, buf), encode, None)


def _field(f: Field, **default: Any) -> Any:
    return dataclasses.field(metadata={"field": f}, **default)


def fields_of(cls: Any) -> Mapping[str, Field]:
    """The fields of a message, or of its class, by their names."""
    return {f.name: f.metadata["field"] for f in dataclasses.fields(cls)}


@functools.cache  # of classes, which are few
def _by_number(cls: Hashable) -> Mapping[int, tuple[str, Field]]:
    return {f.number: (name, f) for name, f in fields_of(cls).items()}


def decode(cls: type[T], buf: bytes) -> T:
    """Decodes a message. Fields that it does not know are skipped."""
    by_number = _by_number(cls)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for number, value in _fields(buf):
        if number not in by_number:
            continue
        name, f = by_number[number]
        try:
            if f.shape == "map":
                key, text = _entry(value)
                values.setdefault(name, {})[key] = text
            elif f.shape == "many":
                values[name] = (*values.get(name, ()), f.kind.take(value))
            else:
                values[name] = f.kind.take(value)
        except (TypeError, UnicodeDecodeError, OverflowError) as e:
            raise DecodeError("the field %s of %s: %s" % (name, cls.__name__, e)) from None
    return cls(**values)


def encode(value: Any) -> bytes:
    """Encodes a message. Raises ValueError if a value cannot be sent."""
    out = []
    for name, f in fields_of(value).items():
        content = getattr(value, name)
        if f.shape == "map":
            out.append(mapping(f.number, content))
        elif f.shape == "many":
            out += [_raw(f, each) for each in content]
        elif content is not None and (f.shape == "optional" or content != f.kind.default):
            out.append(_raw(f, content))
    return b"".join(out)


def _raw(f: Field, content: Any) -> bytes:
    given = f.kind.give(content)
    if isinstance(given, bytes):
        return sized(f.number, given)
    if isinstance(given, float):
        return double(f.number, given)
    return _encode_varint(f.number << 3) + _encode_varint(_checked(given))


# --- fields of requests


def _checked(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("the number %d has more than 64 bits" % value)
    return value


def integer(number: int, value: int) -> bytes:
    """A number, left out if it is 0."""
    return _encode_varint(number << 3) + _encode_varint(_checked(value)) if value else b""


def double(number: int, value: float) -> bytes:
    """A number with a fraction, left out if it is 0."""
    return _encode_varint(number << 3 | 1) + struct.pack("<d", float(value)) if value else b""


def sized(number: int, value: bytes) -> bytes:
    """Bytes or a message, written even if they are empty."""
    return _encode_varint(number << 3 | 2) + _encode_varint(len(value)) + value


def text(number: int, value: str) -> bytes:
    """A text, left out if it is empty. Raises UnicodeEncodeError if it is no Unicode text."""
    return sized(number, value.encode()) if value else b""


def mapping(number: int, entries: Mapping[str, str]) -> bytes:
    return b"".join(sized(number, sized(1, k.encode()) + sized(2, v.encode())) for k, v in entries.items())
