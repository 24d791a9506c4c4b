"""The connection of a worker to one node."""

from __future__ import annotations

import os
import random
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc

from . import _lease, _wire
from ._access import target_of, token_of
from ._connection import Connection, pem
from ._runs import FEATURES
from ._session import Session
from ._version import VERSION

_GREETING = 10.0  # seconds for a connection until its welcome
_SHORTEST_PAUSE = 0.05  # seconds between two connections
_LONGEST_PAUSE = 5.0
_URGENT_PAUSE = 1.0  # the longest while there are answers: a node that has started awaits them for a short time
_CHECKS = 4  # of a connection, in the time in which a node must have sent something

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class Dialer:
    """Keeps the connection of a session to one node. One thread calls run; any may call leave and stop."""

    def __init__(self, session: Session, to: Connection, address: str, hello: bytes) -> None:
        self._session = session
        self._to = to
        self._address = address
        self._hello = hello
        self._id = secrets.token_bytes(16)  # of the session
        self._reconnect = 0.0  # seconds for which the node keeps the runs without a connection
        self._cut_off: float | None = None  # when the node gives the runs to others; None while there is a connection
        self._said = ""  # the newest error that was logged
        self._offered = 0.0  # when the newest offer was made
        self._leaving = threading.Event()
        self._lock = threading.Lock()  # guards what follows
        self._stopped = False
        self._call: Any = None  # the stream, with or without a welcome
        self._welcomed = False

    def leave(self) -> None:
        """Takes no more tasks. run returns when those that run are answered."""
        self._leaving.set()
        with self._lock:
            if self._welcomed:
                self._session.leave()

    def stop(self) -> None:
        """Ends the connection for good."""
        with self._lock:
            self._stopped = True
            call = self._call
        self._leaving.set()
        if call is not None:
            call.cancel()

    def run(self) -> None:
        """Runs tasks for the node until it has drained the worker, or until leave was called and
        everything is answered."""
        pause = _SHORTEST_PAUSE
        while not self._stopped:
            welcomed, error = self._connect()
            if error is None:
                return
            if welcomed:
                pause, self._said = _SHORTEST_PAUSE, ""
                self._cut_off = time.monotonic() + self._reconnect
            if error != self._said and not self._stopped:
                self._said = error
                _log("no connection to the node at %s: %s" % (self._address, error))
            if self._session.has_answers():
                pause = min(pause, _URGENT_PAUSE)
            self._rest(pause / 2 + random.random() * pause / 2)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if self._cut_off is not None and time.monotonic() >= self._cut_off:
                self._session.lose()
                self._id, self._cut_off = secrets.token_bytes(16), None
            if self._leaving.is_set() and not self._session.holds():
                return

    def _rest(self, wait: float) -> None:
        if self._cut_off is not None:
            wait = min(wait, max(0.0, self._cut_off - time.monotonic()))
        if self._leaving.is_set():
            time.sleep(wait)
        else:
            self._leaving.wait(wait)

    def _connect(self) -> tuple[bool, str | None]:
        """Opens a connection, and runs tasks until it ends. Returns whether the node has welcomed it, and why it ended,
        if that was not in order."""
        try:
            channel = self._channel()
        except ValueError as e:
            return False, str(e)
        stream = _Stream(self, channel)
        try:
            return stream.serve()
        finally:
            with self._lock:
                self._call, self._welcomed = None, False
            self._session.pause()
            stream.close()
            channel.close()

    def _channel(self) -> Any:
        to = self._to
        target, is_secure = target_of(self._address, to.needs_tls)
        if not is_secure:
            return grpc.insecure_channel(target, _OPTIONS)
        return grpc.secure_channel(
            target, grpc.ssl_channel_credentials(pem(to.ca), pem(to.key), pem(to.cert)), _OPTIONS
        )

    def open(self, channel: Any, requests: Iterator[bytes]) -> Any:
        """Opens the stream of a connection."""
        token = token_of(self._to.token)
        metadata = (("authorization", "Bearer " + token),) if token else ()
        call = channel.stream_stream("/taskengine.handler.v1.Workers/Work")(requests, metadata=metadata)
        with self._lock:
            self._call, stopped = call, self._stopped
        if stopped:
            call.cancel()
        return call

    def first(self) -> bytes:
        """The first frame of a stream."""
        self._offered = _lease.since_boot()
        name = "%s:%d" % (socket.gethostname(), os.getpid())
        offer = _wire.encode_offer(self._to.handler, self._to.labels, self._id, self._session.holds(), name)
        return _wire.encode_from_handler(hello=self._hello, offer=offer, clock=int(time.time() * 1e6))

    def patience(self) -> float:
        """Seconds in which the node must welcome the worker."""
        if self._cut_off is None:
            return _GREETING
        return max(0.001, min(_GREETING, self._cut_off - time.monotonic()))

    def begin(self, welcome: dict[str, Any]) -> Iterator[bytes]:
        """Goes on with a stream that the node has welcomed, and returns the frames to be sent."""
        self._reconnect, self._cut_off = welcome["reconnect"] / 1e6, None
        resumed = ", with the runs of before" if welcome["resumed"] else ""
        words = "connected to the node %s at %s as handler %s with %d slots%s"
        _log(words % (welcome["host"], self._address, welcome["name"], welcome["slots"], resumed))
        items = self._session.resume(welcome, self._offered)
        with self._lock:
            self._welcomed = True
            if self._leaving.is_set():
                self._session.leave()
        return self._session.outbox.frames(items)

    def take(self, frame: dict[str, Any]) -> None:
        self._session.take(frame)


class _Stream:
    """One stream, from its offer to its end."""

    def __init__(self, dialer: Dialer, channel: Any) -> None:
        self._dialer = dialer
        self._channel = channel
        self._ready = threading.Event()  # frames is set, or the stream has ended
        self._frames: Iterator[bytes] = iter(())
        self._over = threading.Event()
        self._heard = False  # a frame came since this was last set to False
        self._why: str | None = None  # of an end by this side
        self._call: Any = None

    def serve(self) -> tuple[bool, str | None]:
        self._call = self._dialer.open(self._channel, self._requests())
        patience = self._dialer.patience()
        late = threading.Timer(patience, self._end, ["the node did not answer within %.0f s" % max(1, patience)])
        late.daemon = True
        late.start()
        welcomed = False
        try:
            for data in self._call:
                frame = _wire.decode_to_handler(data)
                self._heard = True
                if welcomed:
                    self._dialer.take(frame)
                    continue
                late.cancel()
                problem = _problem(frame["welcome"])
                if problem is not None:
                    self._end(problem)
                    continue
                welcomed = True
                self._begin(frame["welcome"])
        except grpc.RpcError:
            details = self._call.details()
            return welcomed, self._why or details or "the stream ended with status %s" % self._call.code()
        except ValueError as e:  # the node sends what we cannot read
            return welcomed, self._why or "this worker cannot read a message of the node: %s" % e
        finally:
            late.cancel()
            self.close()
        if welcomed and self._why is None:
            return True, None
        return welcomed, self._why or "the node ended the stream before its welcome"

    def close(self) -> None:
        self._over.set()
        self._ready.set()
        if self._call is not None:
            self._call.cancel()

    def _begin(self, welcome: dict[str, Any]) -> None:
        self._frames = self._dialer.begin(welcome)
        self._ready.set()
        if welcome["liveness"] > 0:
            listen = threading.Thread(target=self._listen, args=(welcome["liveness"] / 1e6,), daemon=True)
            listen.start()

    def _requests(self) -> Iterator[bytes]:
        """The frames to be sent, which the library takes on a thread of its own."""
        yield self._dialer.first()
        self._ready.wait()
        if not self._over.is_set():
            yield from self._frames

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._call.cancel()

    def _listen(self, life: float) -> None:
        """Ends the stream when the node has been silent for so many seconds."""
        missed = 0
        while missed <= _CHECKS:
            if self._over.wait(life / _CHECKS):
                return
            missed = 0 if self._heard else missed + 1
            self._heard = False
        self._end("the node was silent for %g s" % life)


def hello(version: str, types: list[str], slots: int) -> bytes:
    return _wire.encode_hello("python", VERSION, version, types, slots, FEATURES)


def _problem(welcome: dict[str, Any] | None) -> str | None:
    if welcome is None or welcome["protocol"] != _wire.PROTOCOL:
        theirs = "version %d of the protocol" % welcome["protocol"] if welcome else "no welcome"
        return "the node speaks %s, this worker version %d" % (theirs, _wire.PROTOCOL)
    return None if welcome["slots"] else "the node gives the worker no slot"


def _log(message: str) -> None:
    sys.stderr.write("taskengine: %s\n" % message)
    sys.stderr.flush()
