"""Why a handshake of TLS with a node fails, which gRPC does not say."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Callable

TIME = 2.0
"""Seconds for the connection, and for the handshake."""


def explain(host: str, port: int, ca: bytes | None, found: Callable[[str], None]) -> None:
    """Makes a handshake in a thread of its own, and calls found with the reason for which the certificate of the node is
    not good. A handshake that succeeds, or fails for another reason, has none."""

    def look() -> None:
        try:
            context = ssl.create_default_context(cadata=ca.decode("ascii", "ignore") if ca else None)
            with socket.create_connection((host, port), TIME) as connection:
                context.wrap_socket(connection, server_hostname=host).close()
        except ssl.SSLCertVerificationError as e:
            found(e.verify_message)
        except (OSError, ValueError):
            pass  # the reason is not in the certificate

    threading.Thread(target=look, name="taskengine-handshake", daemon=True).start()
