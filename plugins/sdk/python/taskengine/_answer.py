"""The encoded answers to runs."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator

from . import _wire
from ._outbox import Host
from ._steps import StepError
from ._task import MAX_CHECKPOINT, Task, to_bytes
from ._verdicts import Again, Cancelled, Ended, InDoubt, Permanent, Retry, RetryIn, Snooze, WaitFor, WaitForChildren


def result(task: Task, value: object, host: Host) -> bytes:
    """Answers that the task succeeded with the value."""
    run_id = task._run.run_id
    task._end()
    try:
        encoded = to_bytes(value, "the result")
        return _success(task, _wire.finish_result(run_id, encoded), encoded, host)
    except Permanent as e:  # it cannot be encoded
        return error(task, e, host)


def error(task: Task, e: BaseException, host: Host) -> bytes:
    """Answers with what a handler raised."""
    task._end()
    try:
        return _error(task, e, host)
    except Permanent as unencodable:
        return error(task, unencodable, host)
    except BaseException as unsayable:  # its class or text is none
        text = "the handler raised %s, which cannot be sent: %s" % (type(e).__name__, _line(unsayable))
        return _wire.finish_error(task._run.run_id, text, type(unsayable).__name__, in_doubt=True)


def _error(task: Task, e: BaseException, host: Host) -> bytes:
    run_id = task._run.run_id
    # An error after the deadline is in doubt, whatever it says: its end may have caused it, and the host has not given
    # the attempt up yet.
    late = task._is_late()
    if isinstance(e, (Again, WaitFor)):
        return _again(task, e, host)
    if isinstance(e, Snooze):
        return _wire.finish_snooze(run_id, e.delay)
    if isinstance(e, Ended):
        return _ended(run_id, host)
    if isinstance(e, Permanent):
        return _wire.finish_error(run_id, _text(e), e.error_class, permanent=True, in_doubt=late)
    if isinstance(e, StepError):
        return _wire.finish_error(run_id, _text(e), e.error_class, permanent=e.permanent, in_doubt=late)
    if isinstance(e, (Retry, InDoubt)):
        return _wire.finish_error(run_id, _text(e), e.error_class, in_doubt=late or isinstance(e, InDoubt))
    if isinstance(e, RetryIn):
        return _wire.finish_error(run_id, _text(e), e.error_class, retry_delay=e.delay, in_doubt=late)
    if isinstance(e, Cancelled):
        return _wire.finish_error(run_id, "cancelled: %s" % e, "cancelled", in_doubt=True)
    if isinstance(e, asyncio.CancelledError) and task._is_cancelled():
        text = "cancelled: %s" % (task.cancel_reason or "cancelled")
        return _wire.finish_error(run_id, text, "cancelled", in_doubt=True)
    # How far the handler came is unknown: it may have raised this by mistake, or have got no answer from a service.
    return _wire.finish_error(run_id, _text(e, stack=True), type(e).__name__, in_doubt=True)


def _again(task: Task, e: Again | WaitFor, host: Host) -> bytes:
    run_id = task._run.run_id
    encoded = to_bytes(e.result, "the result")
    payload = None if e.payload is None else to_bytes(e.payload, "the payload to run again with")
    checkpoint = None if e.checkpoint is None else to_bytes(e.checkpoint, "the checkpoint to run again with")
    text = error_class = ""
    wait = None
    if isinstance(e, WaitForChildren):
        wait = _wire.wait((), ((w.name, w.count, w.or_failed) for w in e.waits))
    elif isinstance(e, WaitFor):
        wait = _wire.wait(e.names)
    if isinstance(e, WaitForChildren) and "family" not in host.features:
        text, error_class = "the host does not support a task that waits for its children", "unsupported"
    elif wait is not None and "wait" not in host.features:
        text, error_class = "the host does not support a task that waits for a signal", "unsupported"
    elif (payload is not None or checkpoint is not None) and "rerun" not in host.features:
        text = "the host does not support another payload or a checkpoint of a task that runs again"
        error_class = "unsupported"
    elif payload is not None and 0 < host.max_payload < len(payload):
        text = "the payload to run again with has %d bytes, max_payload of the type allows %d"
        text, error_class = text % (len(payload), host.max_payload), "payload_too_large"
    elif checkpoint is not None and len(checkpoint) > MAX_CHECKPOINT:
        text = "the checkpoint to run again with has %d bytes, of %d allowed"
        text, error_class = text % (len(checkpoint), MAX_CHECKPOINT), "checkpoint_too_large"
    if error_class:
        return _wire.finish_error(run_id, text, error_class, permanent=True)
    return _success(task, _wire.finish_again(run_id, e.at, encoded, payload, checkpoint, wait, e.delay), encoded, host)


def _ended(run_id: int, host: Host) -> bytes:
    if "ended" in host.features:
        return _wire.finish_ended(run_id)
    text = (
        "the handler says that it has ended its attempt in a transaction, which this host does not look up:"
        " if the transaction has committed, this error has no effect"
    )
    return _wire.finish_error(run_id, text, "unsupported")


def _success(task: Task, finish: bytes, encoded: bytes, host: Host) -> bytes:
    if task._flaw is not None:  # also if the handler has made something else of it
        return error(task, task._flaw, host)
    sent = task._children or []
    if sent and "children" not in host.features:
        text = "the host does not support children, which the handler has asked for"
        return _wire.finish_error(task._run.run_id, text, "unsupported", permanent=True)
    sent = sent + (task._signals or [])
    size = len(encoded) + sum(map(len, sent))
    if host.max_result and size > host.max_result:
        what = "the result, the tasks that are added and the signals have" if sent else "the result has"
        text = "%s %d bytes, max_result of the type allows %d" % (what, size, host.max_result)
        return _wire.finish_error(task._run.run_id, text, "result_too_large", permanent=True)
    return b"".join((finish, *sent, *(task._documents or [])))


def _text(e: BaseException, stack: bool = False) -> str:
    """The text of an error: what a person needs first comes first, for it may be cut."""
    if not stack:
        return _words(e) or type(e).__name__
    lines = [_line(e), *_reasons(e), "".join(traceback.format_tb(e.__traceback__)[1:][-8:])]
    return "\n".join(lines)


def _line(e: BaseException) -> str:
    return "%s: %s" % (type(e).__name__, _words(e)) if _words(e) else type(e).__name__


def _words(e: BaseException) -> str:
    try:
        return str(e)
    except BaseException:
        return "(its text raised an exception too)"


def _reasons(e: BaseException) -> Iterator[str]:
    """The exceptions in e and behind it, a few of them."""
    parts = getattr(e, "exceptions", None)  # those of an ExceptionGroup
    if isinstance(parts, tuple):
        yield from ("with " + _line(part) for part in parts[:8])
    for _ in range(8):
        cause = e.__cause__ or (None if e.__suppress_context__ else e.__context__)
        if cause is None:
            return
        yield "because of " + _line(cause)
        e = cause
