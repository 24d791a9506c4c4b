"""The calls about documents."""

from __future__ import annotations

from ._calls import Call, Page, _checked, _nothing, _optional, _read, _read_page
from ._codec import sized, text
from ._document_messages import Document
from ._requests import Instant, instant, payload_of


@_checked
def document(key: str) -> Call[Document]:
    return Call("GetDocument", text(1, key), _read(Document), True)


@_checked
def documents(prefix: str, token: str) -> Call[Page[Document]]:
    return Call("ListDocuments", text(1, prefix) + text(3, token), _read_page(Document), True)


@_checked
def set_document(key: str, data: object, if_version: int | None, expires_at: Instant | None, by: str) -> Call[Document]:
    request = text(1, key) + _optional(3, if_version) + text(5, by)
    if data is not None:
        request += sized(2, payload_of(data))
    if expires_at is not None:
        request += sized(4, instant(expires_at))
    return Call("SetDocument", request, _read(Document), if_version is None)


@_checked
def delete_document(key: str, if_version: int | None, by: str) -> Call[None]:
    return Call("DeleteDocument", text(1, key) + _optional(2, if_version) + text(3, by), _nothing, False)
