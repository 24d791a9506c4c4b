"""What both clients have for documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Callable, TypeVar

from . import _document_calls
from ._calls import Call, Page
from ._document_messages import Document
from ._requests import Instant

T = TypeVar("T")


class Documents:
    """The methods of the client that blocks."""

    def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
        raise NotImplementedError

    def document(self, key: str, *, timeout: float | None = None) -> Document:
        """A document. Raises NotFound if there is none."""
        return self._call(_document_calls.document(key), timeout)

    def documents(self, prefix: str = "") -> Iterator[Document]:
        """The documents that have keys with a prefix, without their data, in the order of their keys. Each page is a call of
        its own."""
        return self._items(lambda token: _document_calls.documents(prefix, token))

    def set_document(
        self,
        key: str,
        data: object,
        *,
        if_version: int | None = None,
        expires_at: Instant | None = None,
        by: str = "",
        timeout: float | None = None,
    ) -> Document:
        """Writes a document, and makes it if there is none. data is encoded as the payload of NewTask. Returns the document
        without its data. With if_version it is written only if the document has this version, or if there is none for 0, and
        raises Conflict otherwise; the call is not repeated then. From expires_at on the document does not exist."""
        return self._call(_document_calls.set_document(key, data, if_version, expires_at, by), timeout)

    def delete_document(
        self, key: str, *, if_version: int | None = None, by: str = "", timeout: float | None = None
    ) -> None:
        """Removes a document. Raises NotFound if there is none, and Conflict if it has another version than if_version. The
        call is not repeated."""
        self._call(_document_calls.delete_document(key, if_version, by), timeout)


class AsyncDocuments:
    """The methods of the client for coroutines."""

    async def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> AsyncIterator[T]:
        raise NotImplementedError

    async def document(self, key: str, *, timeout: float | None = None) -> Document:
        """A document. Raises NotFound if there is none."""
        return await self._call(_document_calls.document(key), timeout)

    def documents(self, prefix: str = "") -> AsyncIterator[Document]:
        """The documents that have keys with a prefix, without their data, in the order of their keys. Each page is a call of
        its own."""
        return self._items(lambda token: _document_calls.documents(prefix, token))

    async def set_document(
        self,
        key: str,
        data: object,
        *,
        if_version: int | None = None,
        expires_at: Instant | None = None,
        by: str = "",
        timeout: float | None = None,
    ) -> Document:
        """Writes a document, and makes it if there is none. data is encoded as the payload of NewTask. Returns the document
        without its data. With if_version it is written only if the document has this version, or if there is none for 0, and
        raises Conflict otherwise; the call is not repeated then. From expires_at on the document does not exist."""
        return await self._call(_document_calls.set_document(key, data, if_version, expires_at, by), timeout)

    async def delete_document(
        self, key: str, *, if_version: int | None = None, by: str = "", timeout: float | None = None
    ) -> None:
        """Removes a document. Raises NotFound if there is none, and Conflict if it has another version than if_version. The
        call is not repeated."""
        await self._call(_document_calls.delete_document(key, if_version, by), timeout)
