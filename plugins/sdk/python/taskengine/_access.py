"""What clients and workers have in common about tokens and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def token_of(given: object) -> str | None:
    """The token that is sent, without the white space around it that a file has; None is none. Raises ValueError for
    what cannot be sent, with words that do not contain it."""
    if given is None or given == "":
        return None
    if not isinstance(given, str):
        raise ValueError("the token is of the type %s; give a str" % type(given).__name__)
    token = given.strip()
    if not token:
        raise ValueError("the token has white space only; give the text that `taskengine token create` prints")
    if not all("!" <= c <= "~" for c in token):
        raise ValueError(
            "the token has a character that no token has, such as a space or a line break between others;"
            " give the text that `taskengine token create` prints"
        )
    return token


def addresses_of(environment: Mapping[str, str]) -> list[str]:
    """The addresses that TASKENGINE_ADDRESS has, which are separated by commas."""
    return [a.strip() for a in environment.get("TASKENGINE_ADDRESS", "").split(",") if a.strip()]


def target_of(address: object, needs_tls: bool) -> tuple[str, bool]:
    """The address as gRPC writes it, and whether it needs TLS, which host:port does if needs_tls says so.
    Raises ValueError for what is no address."""
    if not isinstance(address, str):
        raise ValueError("an address is a string and not %r" % (address,))
    if address.startswith("unix:"):
        if address == "unix:":
            raise ValueError("the address unix: has no path")
        return address, False
    host, is_secure = address, needs_tls
    if "://" in address:
        wrong = ValueError("%.80r is no URL of http or https without a path and a user" % address)
        try:
            url = urlsplit(address)
            port = url.port
        except ValueError:
            raise wrong from None
        if url.scheme not in ("http", "https") or url.path.strip("/") or url.query or "@" in url.netloc:
            raise wrong
        is_secure = url.scheme == "https"
        if needs_tls and not is_secure:
            raise ValueError("%.80r is a URL of http, and there are options of TLS; write https" % address)
        host = url.netloc if port is not None else url.netloc + (":443" if is_secure else ":80")
    if not host or host.startswith(":") or any(c in host for c in " /@"):
        raise ValueError("%.80r is no address; give host:port, unix:PATH or a URL" % address)
    return "dns:///" + host, is_secure
