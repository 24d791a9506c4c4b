"""The nodes of a client, of which it uses one at a time."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import grpc

from ._errors import Invalid, Unavailable

SERVICE = "/taskengine.v1.TaskService/"

CONNECT = 5.0
"""Seconds for a connection to one node, before another one is tried."""

_OPTIONS = (
    ("grpc.max_receive_message_length", 256 << 20),
    ("grpc.max_send_message_length", -1),
    ("grpc.min_reconnect_backoff_ms", int(CONNECT * 1000)),  # how long an attempt to connect may take
    ("grpc.use_local_subchannel_pool", 1),  # a new channel shares no connection, and no pause, with an earlier one
    ("grpc.keepalive_time_ms", 30_000),  # a node whose machine is gone is noticed
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.primary_user_agent", "taskengine-client"),
)


@dataclass(frozen=True)
class Access:
    """How a client shows who it is, and how it knows a node."""

    token: str | None = None
    ca: bytes | None = None  # PEM; None is what the system trusts

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", "Bearer " + self.token),) if self.token else ()


class Node:
    """One node."""

    def __init__(self, address: str, access: Access) -> None:
        self.address = address
        self.metadata = access.metadata
        self._target, self._is_secure = _target(address)
        self._ca = access.ca
        self._lock = threading.Lock()
        self._channel: Any = None  # guarded by _lock: made when it is used first
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()  # guarded by _lock: channels that calls may use
        self._is_closed = False  # guarded by _lock

    @property
    def channel(self) -> Any:
        """The connection. It is kept by what makes a call, until the call is over: so close ends the call."""
        with self._lock:
            if self._is_closed:
                raise ValueError("the client is closed")
            if self._channel is None:
                self._channel = self._open()
                self._made.add(self._channel)
            return self._channel

    def _open(self) -> Any:
        if self._is_secure:
            return grpc.secure_channel(self._target, grpc.ssl_channel_credentials(self._ca), _OPTIONS)
        return grpc.insecure_channel(self._target, _OPTIONS)

    def call(self, method: str, request: bytes, timeout: float | None) -> bytes:
        """Makes a call, and returns its answer."""
        channel = self.channel
        answer: bytes = channel.unary_unary(SERVICE + method)(request, timeout=timeout, metadata=self.metadata)
        return answer

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
        given = [addresses] if isinstance(addresses, str) else list(addresses)
        if not given:
            raise Invalid("no address of a node is given; give host:port, unix:PATH or a URL")
        self.all = [Node(address, access) for address in given]
        self._lock = threading.Lock()
        self._current = 0  # guarded by _lock: the node that is used
        self._connected: Node | None = None  # guarded by _lock: the node that has answered last

    def in_turn(self) -> list[Node]:
        """The nodes in the order in which they are to be tried."""
        with self._lock:
            return self.all[self._current :] + self.all[: self._current]

    def connected(self) -> Node | None:
        """The node that has answered, if it has not failed since."""
        with self._lock:
            return self._connected

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
        addresses = ", ".join(node.address for node in self.all)
        return Unavailable("no node answers at %s; is it running?" % addresses, "unavailable")

    def close(self) -> None:
        for node in self.all:
            node.close()


def _target(address: str) -> tuple[str, bool]:
    """The address as gRPC writes it, and whether it needs TLS."""
    if not isinstance(address, str):
        raise Invalid("an address is a text and not %r" % (address,))
    if address.startswith("unix:"):
        if address == "unix:":
            raise Invalid("the address unix: has no path")
        return address, False
    host, is_secure = address, False
    if "://" in address:
        wrong = Invalid("%.80r is no URL of http or https without a path and a user" % address)
        try:
            url = urlsplit(address)
            port = url.port
        except ValueError:
            raise wrong from None
        if url.scheme not in ("http", "https") or url.path.strip("/") or url.query or "@" in url.netloc:
            raise wrong
        is_secure = url.scheme == "https"
        host = url.netloc if port is not None else url.netloc + (":443" if is_secure else ":80")
    if not host or host.startswith(":") or any(c in host for c in " /@"):
        raise Invalid("%.80r is no address; give host:port, unix:PATH or a URL" % address)
    return "dns:///" + host, is_secure
