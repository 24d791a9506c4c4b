"""What clients and workers have in common about tokens and addresses."""

from __future__ import annotations

from collections.abc import Mapping


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
