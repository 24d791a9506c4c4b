"""The thread that sends what a flow decides, over one stream at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from .._wire import DecodeError
from . import _calls
from ._errors import BacklogFull, Error, Internal, Invalid, TooLarge, Unavailable, code_of, of_rpc
from ._flow import Flow, Stream, Submission
from ._nodes import SERVICE, Node, Nodes
from ._silent import MOST_QUIET, Patience, Silence, attempt, patience_of, suspect, watch
from ._waiting import FIRST_PAUSE, MOST_PAUSE, Deadline, jittered, pick

_END = 5.0  # seconds for the outcomes of a node that stops


class Sender:
    """Sends the submissions of a flow to the nodes, from the first submission to close."""

    def __init__(self, flow: Flow, nodes: Nodes, timeout: float) -> None:
        self._flow = flow
        self._nodes = nodes
        self._timeout = timeout
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None  # guarded by _lock
        self._call: Any = None  # guarded by _lock: the stream that is open
        self._closed = threading.Event()
        self._unary: set[Node] = set()  # of the thread: nodes that know no SubmitStream

    def start(self) -> None:
        """Starts the thread, if it does not run."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="taskengine submit", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends all submissions, and has the thread end."""
        self._closed.set()
        self._flow.close()
        with self._lock:
            call = self._call
        if call is not None:
            call.cancel()

    def join(self) -> None:
        """Waits until the thread has ended, which was closed, and whose connections are closed."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while self._flow.await_work():
            before = self._flow.answered
            self._serve()
            if self._flow.answered > before:
                pause = FIRST_PAUSE
            self._closed.wait(jittered(pause))
            pause = min(2 * pause, MOST_PAUSE)

    def _serve(self) -> None:
        """Sends submissions to one node until it cannot."""
        try:
            node = pick(self._nodes, Deadline(None), Patience())
            if node is None:
                self._flow.failed(self._nodes.absent())
            elif node in self._unary:
                self._send_unary(node)
            else:
                self._serve_stream(node)
        except ValueError:
            pass  # the client is closed
        except DecodeError as e:
            self._flow.failed(Internal("the answer of the node is not valid: %s" % e, "internal"))

    def _serve_stream(self, node: Node) -> None:
        e = self._stream(node)
        if isinstance(e, Silence):
            node.is_silent = True
            suspect(node)
            self._nodes.leave(node)
            self._flow.failed(Unavailable(str(e), "unavailable", node.address))
            return
        code = code_of(e) if e is not None else "unavailable"
        if code == "unimplemented":
            self._unary.add(node)
        elif code in ("invalid_argument", "resource_exhausted"):
            self._send_unary(node)  # one of them is to blame, which its own request tells
        elif code in ("permission_denied", "unauthenticated"):
            self._flow.refuse(of_rpc(node.address, e))
        else:
            self._nodes.leave(node)
            self._flow.failed(
                of_rpc(node.address, e) if e is not None else Unavailable("the node is stopping", code, node.address)
            )

    def _stream(self, node: Node) -> Any:
        """Sends submissions over a stream until it ends, and returns why; None if the node stops."""
        stream = Stream()
        channel = node.channel
        call = channel.stream_stream(SERVICE + "SubmitStream")(self._messages(stream), metadata=node.metadata)
        with self._lock:
            self._call = call
        if self._closed.is_set():
            call.cancel()
        timer: threading.Timer | None = None
        over = threading.Event()
        silent: list[bool] = []

        def watch_node() -> None:
            if watch(node, lambda: self._flow.await_sent(stream), over, self._patience):
                silent.append(True)
                call.cancel()

        threading.Thread(target=watch_node, name="taskengine watch", daemon=True).start()
        try:
            for response in call:
                node.hear()
                if self._flow.resolve(node.address, response) and timer is None:
                    self._flow.stop_sending(stream)
                    timer = threading.Timer(_END, call.cancel)
                    timer.daemon = True
                    timer.start()
        except grpc.RpcError as e:
            if silent:
                return Silence()
            return None if timer is not None and code_of(e) == "canceled" else e
        finally:
            over.set()
            self._flow.end_stream(stream)
            if timer is not None:
                timer.cancel()
            call.cancel()
            with self._lock:
                self._call = None
        return None

    def _patience(self) -> Patience:
        """The patience with a node that has said nothing about what was sent."""
        wait, size = self._flow.impatience()
        return patience_of(wait, size, self._nodes.has_others, quiet=MOST_QUIET / 3)

    def _messages(self, stream: Stream) -> Iterator[bytes]:
        while True:
            message = self._flow.next_message(stream)
            if message is None:
                return
            yield message

    def _send_unary(self, node: Node) -> None:
        """Sends what is in the queue by requests of their own."""
        deadline = Deadline(self._timeout)
        while not deadline.is_over():
            taken = self._flow.take()
            if not taken:
                return
            if not self._settle(node, taken):
                return

    def _settle(self, node: Node, taken: list[Submission]) -> bool:
        """Sends submissions by one request, or by several if one of them is refused. Returns False
        if the node does not answer."""
        call = _calls.submit([s.message for s in taken])
        patience = patience_of(self._timeout, len(call.request), self._nodes.has_others)
        try:
            self._flow.settle(taken, call.read(attempt(node, call.method, call.request, self._timeout, patience)))
            return True
        except grpc.RpcError as e:
            error: Error = of_rpc(node.address, e)
        except Silence as e:
            node.is_silent = True
            suspect(node)
            error = Unavailable(str(e), "unavailable", node.address)
        except DecodeError as e:
            error = Internal("the answer of the node is not valid: %s" % e, "internal", node.address)
        half = len(taken) // 2
        if isinstance(error, (Invalid, TooLarge, BacklogFull)) and half:
            return self._settle(node, taken[:half]) and self._settle(node, taken[half:])
        self._flow.settle(taken, error)
        if isinstance(error, Unavailable):
            self._nodes.leave(node)
            return False
        return True
