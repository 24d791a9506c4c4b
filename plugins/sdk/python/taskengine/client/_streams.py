"""Streams of answers that go on at another node, of both clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

import grpc

from ._base import Base
from ._calls import Call
from ._errors import Closed, Error, Unavailable, code_of, may_repeat, of_rpc
from ._nodes import SERVICE, Node
from ._silent import Patience, Silence, patience_of
from ._waiting import TRY_ERRORS, Deadline, pauses, pick

A = TypeVar("A")
E = TypeVar("E")

LASTS = 30.0  # seconds that a stream is asked to last
GRACE = 15.0  # seconds that a stream may be silent after that


class Following(Generic[A, E]):
    """What a caller follows, and how far it is. It belongs to the caller."""

    cursor = ""
    is_over = False  # nothing follows

    def call(self) -> Call[A]:
        """The call that goes on."""
        raise NotImplementedError

    def items(self, answer: A) -> Iterator[E]:
        """The items of an answer. The cursor is behind each when it is given out."""
        raise NotImplementedError


class _Answers(Generic[A]):
    """The answers of one stream, for one thread. close may be called by any."""

    def __init__(self, node: Node, call: Call[A]) -> None:
        self._node, self._read = node, call.read
        self._channel = node.channel  # it is open while it is kept
        method = self._channel.unary_stream(SERVICE + call.method)
        self._stream: Any = method(call.request, metadata=node.metadata)
        self._asked = time.monotonic()  # when the thread has asked for the next answer; 0: it has it
        self._is_silent = False  # set by the watch, which ends the stream then
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="taskengine watch", daemon=True).start()

    def next(self) -> A | None:
        """The next answer; None at the end. Raises Silence if the node is silent for longer than the stream is to last."""
        self._asked = time.monotonic()
        try:
            answer: bytes = next(self._stream)
        except StopIteration:
            return None
        except grpc.RpcError:
            if self._is_silent:
                raise Silence() from None
            raise
        finally:
            self._asked = 0.0
        self._node.hear()
        return self._read(answer)

    def close(self) -> None:
        self._over.set()
        self._stream.cancel()

    def _watch(self) -> None:
        left = LASTS + GRACE
        while not self._over.wait(left):
            asked = self._asked
            left = LASTS + GRACE if asked == 0 else asked + LASTS + GRACE - time.monotonic()
            if left <= 0:
                self._is_silent = True
                self._stream.cancel()
                return


class _Followers(Base):
    """What both kinds of streams have."""

    def _stream_patience(self) -> tuple[Deadline, Patience]:
        deadline = Deadline(self._timeout)
        return deadline, patience_of(deadline.left(), 0, self._nodes.has_others)

    def _stream_failed(self, node: Node, call: Call[Any], e: Exception) -> Error:
        """The error of a stream, after which another node may be used."""
        if not isinstance(e, grpc.RpcError) or self._closed.is_set() or code_of(e) != "canceled":
            return self._failed(node, call, e)
        self._nodes.leave(node)  # it has ended the stream
        return Unavailable(str(of_rpc(node.address, e)), "unavailable", node.address)


class Streams(_Followers):
    """The streams of the client that blocks."""

    def _follow(self, following: Following[A, E]) -> Iterator[E]:
        rest = pauses()
        while True:
            if self._closed.is_set():
                raise Closed("the client is closed")
            call, before = following.call(), following.cursor
            deadline, patience = self._stream_patience()
            node = pick(self._nodes, deadline, patience, is_sure=False)
            error: Error = self._nodes.absent()
            if node is not None:
                try:
                    yield from self._passed(node, call, following)
                    if following.is_over:
                        return
                    continue
                except TRY_ERRORS as e:
                    if following.is_over:
                        return
                    error = self._stream_failed(node, call, e)
            if not may_repeat(error):
                raise error
            if following.cursor != before:
                rest = pauses()
            self._closed.wait(next(rest))

    def _passed(self, node: Node, call: Call[A], following: Following[A, E]) -> Iterator[E]:
        """The items of one stream."""
        answers = _Answers(node, call)
        try:
            while True:
                answer = answers.next()
                if answer is None:
                    return
                yield from following.items(answer)
        finally:
            answers.close()


class _Pump(Generic[A]):
    """Brings the answers of a stream to a coroutine, one after the other."""

    def __init__(self, answers: _Answers[A]) -> None:
        self._answers = answers
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[A | Exception | None] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        self._is_closed = False  # set by the coroutine
        threading.Thread(target=self._run, name="taskengine stream", daemon=True).start()

    async def next(self) -> A | None:
        self._wanted.release()
        answer = await self._queue.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self._is_closed = True
        self._answers.close()
        self._wanted.release()

    def _run(self) -> None:
        while True:
            self._wanted.acquire()
            if self._is_closed:
                return
            answer: A | Exception | None
            try:
                answer = self._answers.next()
            except Exception as e:
                answer = e
            try:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, answer)
            except RuntimeError:
                return  # the loop is closed


class AsyncStreams(_Followers):
    """The streams of the client for coroutines."""

    async def _pick(self, deadline: Deadline, patience: Patience, is_sure: bool) -> Node | None:
        raise NotImplementedError

    async def _follow(self, following: Following[A, E]) -> AsyncIterator[E]:
        rest = pauses()
        while True:
            if self._closed.is_set():
                raise Closed("the client is closed")
            call, before = following.call(), following.cursor
            deadline, patience = self._stream_patience()
            node = await self._pick(deadline, patience, is_sure=False)
            error: Error = self._nodes.absent()
            if node is not None:
                try:
                    pump = _Pump(_Answers(node, call))
                    try:
                        while True:
                            answer = await pump.next()
                            if answer is None:
                                break
                            for item in following.items(answer):
                                yield item
                    finally:
                        pump.close()
                    if following.is_over:
                        return
                    continue
                except TRY_ERRORS as e:
                    if following.is_over:
                        return
                    error = self._stream_failed(node, call, e)
            if not may_repeat(error):
                raise error
            if following.cursor != before:
                rest = pauses()
            await asyncio.sleep(next(rest))
