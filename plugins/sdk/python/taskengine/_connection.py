"""To which nodes a worker connects, and as what."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from ._access import addresses_of, target_of, token_of

Pem = Union[bytes, Callable[[], bytes], None]
"""Text in PEM, or a function that returns it, which is called for each connection."""


@dataclass(frozen=True)
class Connection:
    """To which nodes a program connects as a worker, and as what. Only addresses is required.

    addresses are those of the APIs of nodes: host:port, a URL of http or https, or unix: and a path. The
    slots of the program are divided among them. handler is its name in the configuration of the
    nodes, if it is not the only one that fits. labels are those of this worker; the configuration
    may ask for some. token is sent to the nodes, which may want one with the role work. ca, cert
    and key are for connections with TLS: who signs the certificates of the nodes, the certificate
    of this worker, and its key. With one of them, connections to host:port are encrypted, too.
    """

    addresses: Sequence[str]
    handler: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    ca: Pem = None
    cert: Pem = None
    key: Pem = None

    @property
    def needs_tls(self) -> bool:
        """Whether connections to host:port are encrypted, too. URLs of http are refused then."""
        return self.ca is not None or self.cert is not None

    def problem(self) -> str | None:
        """What is wrong with it, for a person to read."""
        try:
            token_of(self.token)
        except ValueError as e:
            return str(e)
        if isinstance(self.addresses, str) or not self.addresses:
            return "give the addresses of nodes as a list: host:port, URLs of http or https, or unix: and a path"
        for address in self.addresses:
            try:
                target_of(address, self.needs_tls)
            except ValueError as e:
                return str(e)
        if (self.cert is None) != (self.key is None):
            return "a certificate needs its key, and a key its certificate: give both"
        return None


def from_environment(environment: Mapping[str, str]) -> Connection:
    """The connection that environment variables describe. Raises ValueError if they cannot be."""

    def file(name: str) -> Pem:
        path = environment.get(name)
        return (lambda: _read(name, path)) if path else None  # again for each connection: it may be replaced

    return Connection(
        addresses=addresses_of(environment),
        handler=environment.get("TASKENGINE_WORKER_HANDLER", ""),
        labels=_labels(environment.get("TASKENGINE_WORKER_LABELS", "")),
        token=environment.get("TASKENGINE_TOKEN"),
        ca=file("TASKENGINE_CA"),
        cert=file("TASKENGINE_CLIENT_CERT"),
        key=file("TASKENGINE_CLIENT_KEY"),
    )


def is_named(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether environment variables name nodes."""
    return bool(environment.get("TASKENGINE_ADDRESS"))


def pem(text: Pem) -> bytes | None:
    return text() if callable(text) else text


def _read(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError as e:
        raise ValueError("%s: %s" % (name, e)) from e


def _labels(text: str) -> dict[str, str]:
    """Labels such as "region=eu,disk=fast"."""
    labels = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals or not name.strip():
            raise ValueError("TASKENGINE_WORKER_LABELS has %r: give NAME=value, separated by commas" % part)
        labels[name.strip()] = value.strip()
    return labels
