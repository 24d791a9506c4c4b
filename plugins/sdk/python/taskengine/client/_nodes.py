"""The nodes of a client, of which it uses one at a time."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

import grpc

from .._access import target_of, token_of
from ._errors import Invalid, Unavailable
from ._handshake import explain

SERVICE = "/taskengine.v1.TaskService/"

PROBE = "Version"
"""A method that changes nothing, and that shows whether a node answers."""

DIAL = 10.0
"""Seconds for a connection. Other nodes are tried meanwhile."""

_OPTIONS = (
    ("grpc.max_receive_message_length", 256 << 20),
    ("grpc.max_send_message_length", -1),
    ("grpc.min_reconnect_backoff_ms", int(DIAL * 1000)),  # how long an attempt to connect may take
    ("grpc.use_local_subchannel_pool", 1),  # a new channel shares no connection, and no pause, with an earlier one
    ("grpc.enable_http_proxy", 0),
    ("grpc.primary_user_agent", "taskengine-client"),
)


@dataclass(frozen=True)
class Access:
    """How a client shows who it is, and how it knows a node. What is in PEM may be None."""

    token: str | None = None
    ca: bytes | None = None  # None is what the system trusts
    cert: bytes | None = None
    key: bytes | None = None

    def checked(self) -> Access:
        """The access as it is used. Raises Invalid if it cannot be."""
        try:
            token = token_of(self.token)
        except ValueError as e:
            raise Invalid(str(e)) from None
        if (self.cert is None) != (self.key is None):
            raise Invalid("a certificate needs its key, and a key its certificate: give both")
        for name in ("ca", "cert", "key"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, bytes):
                raise Invalid("%s is of the type %s; give the bytes of a file in PEM" % (name, type(text).__name__))
            if text is not None and b"-----BEGIN " not in text:
                raise Invalid("%s is not in PEM; give the contents of a file with a line -----BEGIN" % name)
        return Access(token, self.ca, self.cert, self.key)

    @property
    def needs_tls(self) -> bool:
        """Whether connections to host:port are encrypted, too."""
        return self.ca is not None or self.cert is not None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", "Bearer " + self.token),) if self.token else ()


class Node:
    """One node."""

    def __init__(self, address: str, access: Access) -> None:
        self.address = address
        self.metadata = access.metadata
        self.heard = 0.0  # by time.monotonic, when it has answered last. Set by any thread
        self.is_silent = False  # a probe had no answer, and it has not answered since. Set by any thread
        self.is_suspect = False  # it has to answer a probe before it is used. Set by any thread
        self.reason = ""  # why there was no connection last. Set by any thread
        try:
            self._target, self._is_secure = target_of(address, access.needs_tls)
        except ValueError as e:
            raise Invalid(str(e)) from None
        self._access = access
        self._certificate = ""  # why the certificate of the node is not good. Set by any thread
        self._is_explained = False  # that was looked for. Guarded by _lock
        self._lock = threading.Lock()
        self._channel: Any = None  # guarded by _lock: made when it is used first
        self._has_answered = False  # guarded by _lock: over this channel
        self._probe: Any = None  # guarded by _lock: the last call for the version
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()  # guarded by _lock: channels that calls may use
        self._is_closed = False  # guarded by _lock

    @property
    def channel(self) -> Any:
        """The connection. It is kept by what makes a call, until the call is over: so close ends the call."""
        with self._lock:
            if self._is_closed:
                raise ValueError("the client is closed")
            if self._channel is None:
                self._channel, self._has_answered = self._open(), False
                self._made.add(self._channel)
            return self._channel

    def _open(self) -> Any:
        if self._is_secure:
            to = self._access
            return grpc.secure_channel(self._target, grpc.ssl_channel_credentials(to.ca, to.key, to.cert), _OPTIONS)
        return grpc.insecure_channel(self._target, _OPTIONS)

    def begin(self, method: str, request: bytes, timeout: float | None) -> Any:
        """Makes a call, and returns the future of its answer."""
        channel = self.channel
        call = channel.unary_unary(SERVICE + method).future(request, timeout=timeout, metadata=self.metadata)
        call.add_done_callback(lambda _, kept=channel: None)  # the channel is needed until then
        return call

    def probe(self, timeout: float, over: Callable[[Any], None]) -> Any:
        """Asks for the version, unless that is being asked for. Returns the future of the answer, with which over is called."""
        with self._lock:
            asked = self._probe
        if asked is not None and not asked.done():
            return asked
        asked = self.begin(PROBE, b"", timeout)
        with self._lock:
            self._probe = asked
        asked.add_done_callback(over)
        return asked

    def hear(self) -> None:
        """Notes that the node has answered."""
        self.heard = time.monotonic()
        self.is_silent = False
        self._has_answered = True

    def fail(self, reason: str) -> None:
        """Notes why there was no connection. If the handshake has failed, it looks in the background for what is wrong with
        the certificate of the node."""
        self.reason = reason
        self.discard()
        if not self._is_secure or not any(word in reason.lower() for word in ("handshake", "verification")):
            return
        with self._lock:
            is_new, self._is_explained = not self._is_explained, True
        if is_new:
            host, _, port = self._target.removeprefix("dns:///").rpartition(":")
            explain(host.strip("[]"), int(port), self._access.ca, self._note)

    def _note(self, certificate: str) -> None:
        self._certificate = certificate

    @property
    def why(self) -> str:
        """Why there was no connection last; "" if there was one."""
        return "%s: %s" % (self.reason, self._certificate) if self.reason and self._certificate else self.reason

    def cut(self, reason: str) -> None:
        """Has the next call made over a new connection, if this one was good. One that is being made goes on."""
        self.reason = reason
        if self._has_answered:
            self.discard()

    def discard(self) -> None:
        """Has the next call made over a new connection, without the pause that a library makes after a
        connection has failed. Calls under way go on."""
        with self._lock:
            self._channel = None

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            made = list(self._made)
        for channel in made:
            channel.close()


class Nodes:
    """The nodes of a client. Any thread may call them."""

    def __init__(self, addresses: str | Sequence[str], access: Access) -> None:
        given = addresses.split(",") if isinstance(addresses, str) else list(addresses)
        if not given:
            raise Invalid("no address of a node is given; give host:port, unix:PATH or a URL")
        checked = access.checked()
        self.all = [Node(a.strip() if isinstance(a, str) else a, checked) for a in given]
        self._lock = threading.Lock()
        self._current = 0  # guarded by _lock: the node that is used
        self._connected: Node | None = None  # guarded by _lock: the node that has answered last

    def in_turn(self) -> list[Node]:
        """The nodes in the order in which they are to be tried."""
        with self._lock:
            return self.all[self._current :] + self.all[: self._current]

    def connected(self) -> Node | None:
        """The node that has answered, if it has not failed since, and is not suspect."""
        with self._lock:
            node = self._connected
        return None if node is None or node.is_suspect else node

    @property
    def has_others(self) -> bool:
        """Whether there is more than one node."""
        return len(self.all) > 1

    def use(self, node: Node) -> None:
        """Has a node used that has a connection."""
        with self._lock:
            self._current, self._connected = self.all.index(node), node

    def leave(self, failed: Node) -> None:
        """Has another node used than the one that has failed."""
        failed.discard()
        with self._lock:
            if self._connected is failed:
                self._connected = None
            if self.all[self._current] is failed:
                self._current = (self._current + 1) % len(self.all)

    def absent(self) -> Unavailable:
        """The error of a client that no node answers."""
        addresses = ", ".join(n.address + (" (%s)" % n.why if n.why else "") for n in self.all)
        return Unavailable("no node answers at %s; is it running?" % addresses, "unavailable")

    def close(self) -> None:
        for node in self.all:
            node.close()
