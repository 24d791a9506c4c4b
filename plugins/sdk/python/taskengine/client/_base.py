"""What a client that blocks and one for coroutines have in common."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import grpc

from .._connection import from_environment, pem
from . import _errors
from ._calls import Call
from ._errors import Closed, DeadlineExceeded, Error, Internal, Invalid, NotDone, ResultRemoved, Unavailable, may_repeat
from ._flow import Caller, Flow, Outcome, Submission
from ._ids import Ids
from ._messages import Task
from ._nodes import Access, Node, Nodes
from ._requests import Id, NewTask, Receipt, encode_child, encode_task, first_of_two, refusal
from ._sender import Sender
from ._silent import Patience, Silence, patience_of, suspect
from ._waiting import Deadline

Decorate = Callable[[NewTask], NewTask]


class Base:
    """The parts of a client."""

    def __init__(
        self,
        addresses: str | Sequence[str] | None = None,
        *,
        timeout: float = 30.0,
        decorate: Decorate | None = None,
        token: str | None = None,
        ca: bytes | None = None,
        cert: bytes | None = None,
        key: bytes | None = None,
    ) -> None:
        """
        addresses are those of nodes that share their tasks: host:port, unix:PATH, or a URL of http
        or https. A text may have several, separated by commas; None is what TASKENGINE_ADDRESS has,
        and then TASKENGINE_CA, TASKENGINE_CLIENT_CERT and TASKENGINE_CLIENT_KEY name files with
        what is not given of ca, cert and key.
        The client uses one of them, and another one when that does not answer or stops.

        timeout is how many seconds a call may take, with its repetitions, if it is given no other
        one. decorate returns what is to be added in place of each task that is submitted, for
        instance the task with one more header; if it raises an exception the task is Invalid. It is
        called in the thread of the caller. token is sent with every request; None is what
        TASKENGINE_TOKEN has, and "" is none. ca, cert and key are for connections with TLS, in PEM:
        the authorities to trust instead of those of the system, and the certificate of the client
        with its key. With one of them, connections to host:port are encrypted, too.
        """
        _adapt()
        if addresses is None:
            addresses, ca, cert, key = _from_environment(ca, cert, key)
        if token is None:
            token = os.environ.get("TASKENGINE_TOKEN")
        self._nodes = Nodes(addresses, Access(token, ca, cert, key))
        self._process = 0  # that has used the client; 0 is none. Set by the first call
        self._timeout = timeout
        self._decorate = decorate
        self._ids = Ids()
        self._flow = Flow()
        self._sender = Sender(self._flow, self._nodes, timeout)
        self._closed = threading.Event()

    def _check_process(self) -> None:
        """Raises Closed in a process that was forked from one that has used the client: the connections and threads are
        there, and not here."""
        here = os.getpid()
        if self._process == 0:
            self._process = here
        if self._process != here:
            why = "the client was used before this process was forked; make a client in each process, after the fork"
            raise Closed(why)

    def _close(self) -> None:
        if self._process not in (0, os.getpid()):
            return
        self._closed.set()
        self._sender.close()
        self._nodes.close()  # ends the calls that the thread waits for
        self._sender.join()

    def _prepare(self, tasks: Iterable[NewTask], caller: Caller) -> list[Submission | Error]:
        """The submissions of tasks, to be given to _submit. Those that cannot be sent have an error instead."""
        self._check_process()
        prepared: list[Submission | Error] = []
        for task in tasks:
            try:
                prepared.append(Submission(*self._encode(task), caller))
            except Error as e:
                prepared.append(e)
        return prepared

    def _submit(self, submissions: Sequence[Submission], wait: float) -> None:
        """Has submissions sent whose caller waits for so many seconds."""
        for s in submissions:
            s.wait = wait
        self._flow.add(submissions)
        self._sender.start()

    def _patience(self, call: Call[Any], deadline: Deadline) -> Patience:
        return patience_of(deadline.left(), len(call.request), self._nodes.has_others)

    def _messages(self, tasks: Iterable[NewTask]) -> list[tuple[bytes, str, bool]]:
        """The messages of tasks that are added together, with their ids."""
        return [self._encode(task) for task in tasks]

    def _children(self, tasks: Iterable[NewTask]) -> list[bytes]:
        """The messages of children."""
        return [encode_child(self._decorated(task)) for task in tasks]

    def _encode(self, task: NewTask) -> tuple[bytes, str, bool]:
        return encode_task(self._decorated(task), self._ids)

    def _decorated(self, task: NewTask) -> NewTask:
        if self._decorate is None:
            return task
        try:
            return self._decorate(task)
        except Exception as e:
            why = "decorate of a task of type %.40r: %s: %s" % (task.type, type(e).__name__, e)
            raise Invalid(why, "invalid_argument") from e

    def _failed(self, node: Node, call: Call[Any], e: Exception) -> Error:
        """The error of a try of a call, after which another node may be used."""
        if self._closed.is_set():
            return Closed("the client is closed: the request may have been carried out")
        if isinstance(e, Silence):
            node.is_silent = True
            suspect(node)
            self._nodes.leave(node)
            return Unavailable(str(e), "unavailable", node.address)
        if isinstance(e, grpc.RpcError):
            error = _errors.of_rpc(node.address, e)
            if isinstance(error, Unavailable):
                self._nodes.leave(node)
            return error
        return Internal("the answer of %s is not valid: %s" % (call.method, e), "internal", node.address)


def _adapt() -> None:
    """Has the library for gRPC wait as gevent does, if gevent has replaced the threads of the program."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        from grpc.experimental import gevent

        gevent.init_gevent()


def _from_environment(
    ca: bytes | None, cert: bytes | None, key: bytes | None
) -> tuple[Sequence[str], bytes | None, bytes | None, bytes | None]:
    """The addresses of the environment, and what is not given of certificates."""
    try:
        found = from_environment(os.environ)
        if not found.addresses:
            raise ValueError("no address of a node is given, and TASKENGINE_ADDRESS is not set")
        ca = pem(found.ca) if ca is None else ca
        if cert is None and key is None:
            cert, key = pem(found.cert), pem(found.key)
    except ValueError as e:
        raise Invalid(str(e)) from None
    return found.addresses, ca, cert, key


def outcomes(started: Sequence[Submission | Error]) -> list[Outcome]:
    """The outcomes of submissions, all of which have one."""
    found: list[Outcome] = []
    for s in started:
        outcome = s.outcome if isinstance(s, Submission) else s
        assert outcome is not None
        found.append(outcome)
    return found


def receipt_of(outcome: Outcome) -> Receipt:
    if isinstance(outcome, Error):
        raise outcome
    return outcome


def together(messages: Sequence[tuple[bytes, str, bool]], receipts: Sequence[Receipt]) -> list[Receipt]:
    """The receipts of tasks that were added together. Raises AlreadyExists or Late if one of them was
    refused while the others were added."""
    found = [first_of_two(r, task_id, is_own) for r, (_, task_id, is_own) in zip(receipts, messages)]
    for r in found:
        e = refusal(r)
        if e is not None:
            e.receipts = found
            raise e
    return found


def result_of(task: Task, convert: Callable[[Any], Any] | None) -> Any:
    """The result of a task that has ended."""
    if task.state != "done":
        raise NotDone(task.id, task.state, task.error)
    if task.tombstone:
        raise ResultRemoved(task.id)
    if convert is bytes:
        return task.result
    value = json.loads(task.result) if task.result else None
    return value if convert is None else convert(value)


def is_final(e: Error, call: Call[Any], is_sent: bool, deadline: Deadline, pause: float) -> bool:
    """Whether a call that has failed is not made again."""
    return not may_repeat(e) or is_sent and not call.is_repeatable or deadline.within(2 * pause) <= pause


def still_runs(id: Id) -> DeadlineExceeded:
    """The error of a wait whose time is over."""
    return DeadlineExceeded("task %s has not ended, and the timeout is over" % id, "deadline_exceeded")
