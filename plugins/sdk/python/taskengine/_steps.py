"""Handlers in steps: the result of each step is kept with the task, and later attempts do not run it again.

The record of the steps is the checkpoint of the task, in the form that the package steps for Go has, too.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import inspect
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from ._family import Child, ChildSet, EndedChildren
from ._task import MAX_CHECKPOINT, Task
from ._verdicts import (
    Again,
    Cancelled,
    Ended,
    InDoubt,
    Permanent,
    Retry,
    RetryIn,
    Seconds,
    Snooze,
    WaitFor,
    WaitForChildren,
    micros,
)
from ._woken import NAMES, Woken

if TYPE_CHECKING:
    from typing import NoReturn

_FORM = 1  # the number of the form of a record
_WAKERS = {name: number for number, name in NAMES.items()}
_ENDS = (Again, WaitFor, Snooze, Ended, Cancelled, asyncio.CancelledError)  # what says nothing of the work of a step


class StepError(Exception):
    """The error of a step that has failed in an earlier attempt, in which the handler went on to another step. The node
    treats it as the error of the step."""

    def __init__(self, message: str, error_class: str = "", permanent: bool = False) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.permanent = permanent


class _Leave(BaseException):
    """Leaves the handler, because its attempt ends with what the flow has stopped with."""


def in_steps(function: Callable[..., Any], asynchronous: bool, version: int, oldest: int | None) -> Callable[..., Any]:
    """The handler whose function is in steps."""
    if oldest is None:
        oldest = version
    if not 1 <= oldest <= version:
        text = "version %r of the code knows the steps since version %r: versions begin with 1"
        raise ValueError(text % (version, oldest))

    @functools.wraps(function)
    def call(task: Task) -> Any:
        flow = task._flow = Flow(task, version, oldest, False)
        try:
            value = function(task)
        except BaseException as e:
            flow.leave(e)
        return flow.returned(value)

    @functools.wraps(function)
    async def call_async(task: Task) -> Any:
        flow = task._flow = Flow(task, version, oldest, True)
        try:
            value = await function(task)
        except BaseException as e:
            flow.leave(e)
        return flow.returned(value)

    return call_async if asynchronous else call


class Flow:
    """The steps of one attempt. They run one after the other."""

    def __init__(self, task: Task, version: int, oldest: int, asynchronous: bool) -> None:
        self._task = task
        self._code = version
        self.asynchronous = asynchronous
        record = _read(task.checkpoint)
        self.version: int = record.get("version") or version
        """Of the code with which the task began."""
        self.occurrence: int = record.get("occurrence") or 0
        self._steps: list[dict[str, Any]] = record.get("done") or []
        self._next = 0
        self._failed: dict[str, Any] | None = None  # the step that was last; kept when another one begins
        self._stopped: BaseException | None = None  # the attempt is to end with it: no step runs any more
        self._running = False
        if self.version < oldest:
            text = "the task began with version %d of the code, and this code knows the steps since version %d"
            raise _changed(text % (self.version, oldest))
        if self.version > version:
            text = "steps: the task began with version %d of the code, and this program has version %d"
            raise Retry(text % (self.version, version), error_class="steps_newer")

    @property
    def key(self) -> str:
        number = self._next if self._running else self._next + 1
        return "%s-%d-%d" % (self._task.id, self.occurrence, number)

    # --- steps

    def step(self, name: str, work: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs a step on a thread, unless it is done, and returns its result."""
        kept = self._begin("do", name)
        if kept is None:
            self._running = True
            try:
                for future in self._keep_failure():
                    self._stored(future.result)
                try:
                    value = work(*args, **kwargs)
                    if inspect.isawaitable(value):
                        if inspect.iscoroutine(value):
                            value.close()
                        raise TypeError("step %r is a coroutine, and its handler is none: declare it with async" % name)
                except BaseException as e:
                    self._fail(name, e)
                    raise
                kept = self._done(name, value)
                self._stored(self._save(name).result)
            finally:
                self._running = False
        return self._result(kept)

    async def step_async(self, name: str, work: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Does what step does, on the event loop. work may be a coroutine function."""
        kept = self._begin("do", name)
        if kept is None:
            self._running = True
            try:
                for future in self._keep_failure():
                    await self._stored_async(future)
                try:
                    value = work(*args, **kwargs)
                    if inspect.isawaitable(value):
                        value = await value
                except BaseException as e:
                    self._fail(name, e)
                    raise
                kept = self._done(name, value)
                await self._stored_async(self._save(name))
            finally:
                self._running = False
        return self._result(kept)

    def wait_for(self, names: Sequence[str], timeout: Seconds | None) -> Woken:
        name = " or ".join(names)
        kept, woken = self._begin("wait", name), self._task.woken
        wait: WaitFor | None = None
        if kept is None:
            kept = {"kind": "wait", "name": name}
            if timeout is not None:
                kept["until"] = _text_of(_now() + timedelta(microseconds=micros(timeout)))
            self._add(kept)
            wait = WaitFor(*names, timeout=timeout)
        elif not kept.get("over") and woken is not None:
            kept["over"], kept["woken"] = True, _record_of(woken)  # the next step stores it: until then the task has it
        elif not kept.get("over"):  # something else than the end of the wait has made the task ready
            wait = WaitFor(*names, until=_time_of(kept["until"]) if kept.get("until") else None)
        if wait is not None:
            self._leave_with(wait)
        return _woken_of(kept.get("woken") or {})

    def sleep(self, delay: Seconds) -> None:
        kept = self._begin("sleep", "sleep")
        if kept is None:
            self._add({"kind": "sleep", "name": "sleep"})
            again = Again(0)
            again.delay = max(1, micros(delay))
            self._leave_with(again)
        kept["over"] = True  # by the clock of the nodes, or because a user wants it

    def run_children(self, name: str, children: Sequence[Child]) -> EndedChildren:
        kept = self._children_of(name, children)
        if kept is None:
            kept = self._no_children(name)
            self._stored(self._save(name).result)
        return self._ended(name, kept)

    async def run_children_async(self, name: str, children: Sequence[Child]) -> EndedChildren:
        kept = self._children_of(name, children)
        if kept is None:
            kept = self._no_children(name)
            await self._stored_async(self._save(name))
        return self._ended(name, kept)

    def _children_of(self, name: str, children: Sequence[Child]) -> dict[str, Any] | None:
        """What was kept of the step if its children have ended, and None if it has none and is new. Otherwise it leaves the
        handler."""
        kept, family = self._begin("children", name), self._task.children.get(name)
        if kept is None:
            if not children:
                return None
            try:
                self._task.add_children(name, *children)
            except Permanent as e:
                self._stop(e)
            before = {"count": len(children)}
            if family is not None:
                before.update(_counts(family.added, family.done, family.failed, family.cancelled))
            self._add({"kind": "children", "name": name, "children": before})
            self._leave_with(WaitForChildren(name))
        if kept.get("over"):
            return kept
        before = kept.get("children") or {}
        first, count = before.get("from", 0), before.get("count", 0)
        if family is None or family.added < first + count:
            self._stop(Permanent("steps: the task has lost its children"))
        if family.ended < family.added:  # a user has resumed it
            self._leave_with(WaitForChildren(name))
        done, failed = family.done - before.get("done", 0), family.failed - before.get("failed", 0)
        cancelled = family.cancelled - before.get("cancelled", 0)
        kept["over"] = True  # the next step stores it: until then the task has it
        kept["children"] = {"count": count, **_counts(first, done, failed, cancelled)}
        return kept

    def _no_children(self, name: str) -> dict[str, Any]:
        """Adds a step without children: there is nothing to leave for."""
        step = {"kind": "children", "name": name, "over": True, "children": {"count": 0}}
        self._add(step)
        return step

    def _ended(self, name: str, kept: dict[str, Any]) -> EndedChildren:
        ends = kept.get("children") or {}
        family = self._task.children.get(name) or ChildSet(name, 0, 0, 0, 0, self._task._run.task_id)
        count, first = ends.get("count", 0), ends.get("from", 0)
        return EndedChildren(count, ends.get("done", 0), ends.get("failed", 0), ends.get("cancelled", 0), first, family)

    async def later(self, what: Callable[..., Any], *args: Any) -> Any:
        """Does wait_for or sleep when it is awaited."""
        return what(*args)

    def _begin(self, kind: str, name: str) -> dict[str, Any] | None:
        """What was kept of the next step, or None if it is not done."""
        if self._stopped is not None:
            raise _Leave
        if self._running:
            self._stop(Permanent("steps: step %r begins while another runs: steps run one after the other" % name))
        cancellation = self._task.cancellation
        if cancellation is not None:
            self._stop(cancellation)
        at = self._next
        self._next += 1
        if at >= len(self._steps):
            return None
        kept = self._steps[at]
        if (kept.get("name"), kept.get("kind")) != (name, kind):
            text = (
                'step %d of the task was "%s" (%s) when it ran, and is "%s" (%s) in the code of version %d: steps must'
                " come in the same order; raise the version with a change of them"
            )
            self._stop(_changed(text % (at + 1, kept.get("name"), kept.get("kind"), name, kind, self._code)))
        return kept

    def _add(self, step: dict[str, Any]) -> None:
        """Adds a step behind the one that has failed, if there is one."""
        if self._failed is not None:
            self._steps.append(self._failed)
            self._failed = None
        self._steps.append(step)

    def _keep_failure(self) -> list[Future[None]]:
        """Stores the step that has failed, if the handler goes on from it: what follows, such as giving money back, is
        right only as long as it has failed."""
        if self._failed is None:
            return []
        failed, self._failed = self._failed, None
        self._steps.append(failed)
        return [self._save(failed["name"])]

    def _done(self, name: str, value: object) -> dict[str, Any]:
        try:
            result = json.loads(json.dumps(value, allow_nan=False))
        except Exception as e:
            text = "steps: the result of step %r cannot be kept: %s: %s" % (name, type(e).__name__, e)
            self._stop(Permanent(text, error_class="bad_result"))
        step = {"kind": "do", "name": name, "result": result}
        self._add(step)
        return step

    def _result(self, kept: dict[str, Any]) -> Any:
        error = kept.get("error")
        if error is not None:
            raise StepError(error.get("message", ""), error.get("class", ""), error.get("permanent", False))
        return json.loads(json.dumps(kept.get("result")))  # it is the handler's, and the record keeps its own

    def _fail(self, name: str, e: BaseException) -> None:
        """Notes that the step that has begun has failed."""
        if isinstance(e, _ENDS) or self._task.cancellation is not None:
            self._stopped = e
            return
        message, error_class = str(e) or type(e).__name__, type(e).__name__
        if isinstance(e, (Permanent, Retry, RetryIn, InDoubt, StepError)):
            error_class = e.error_class
        error: dict[str, Any] = {"message": message}
        if error_class:
            error["class"] = error_class
        if isinstance(e, Permanent) or isinstance(e, StepError) and e.permanent:
            error["permanent"] = True
        self._failed = {"kind": "do", "name": name, "error": error}

    # --- the record

    def _bytes(self) -> bytes:
        return _bytes({"steps": _FORM, "version": self.version, "done": self._steps}, self.occurrence, len(self._steps))

    def _save(self, name: str) -> Future[None]:
        try:
            future = self._task._save(self._bytes())
        except Permanent as e:
            self._stop(Permanent("steps: keep step %r: %s" % (name, e), error_class=e.error_class))
        if future is None:
            self._stop(Permanent("steps: the host stores no checkpoints", error_class="unsupported"))
        return future

    def _stored(self, wait: Callable[[], None]) -> None:
        try:
            wait()
        except BaseException as e:
            self._stopped = e
            raise

    async def _stored_async(self, future: Future[None]) -> None:
        try:
            await asyncio.wrap_future(future)
        except BaseException as e:
            self._stopped = e
            raise

    # --- the end of the attempt

    def _stop(self, e: BaseException) -> NoReturn:
        self._stopped = e
        raise _Leave

    def _leave_with(self, verdict: Again | WaitFor) -> NoReturn:
        try:
            verdict.checkpoint = self._bytes()
        except Permanent as e:
            self._stop(e)
        self._stop(verdict)

    def leave(self, e: BaseException) -> NoReturn:
        """Ends the attempt after the handler has raised e."""
        if self._stopped is not None and self._stopped is not e:
            raise self._stopped from None
        if isinstance(e, (Again, WaitFor)) and self._stopped is None:
            if e.checkpoint is not None:
                text = "steps: the handler asks for a checkpoint, where the results of steps are: use the payload"
                raise Permanent(text) from None
            e.checkpoint = _bytes({"steps": _FORM, "version": 0, "done": []}, self.occurrence + 1, 0)
        raise e

    def returned(self, value: object) -> object:
        """Ends the attempt after the handler has returned."""
        if self._stopped is not None:  # also if the handler has made something else of it
            raise self._stopped
        if self._next < len(self._steps):
            text = 'the handler has ended after %d steps, and the task has done %d: "%s" comes next'
            raise _changed(text % (self._next, len(self._steps), self._steps[self._next].get("name")))
        return value


def _read(checkpoint: bytes) -> dict[str, Any]:
    if not checkpoint:
        return {}
    try:
        record: dict[str, Any] = json.loads(checkpoint)
        form = record.get("steps")
    except (ValueError, AttributeError):
        form = None
    if not isinstance(form, int) or form == 0:
        raise _changed("the checkpoint of the task is not one of steps: a handler of another kind has begun it")
    if form != _FORM:
        text = "steps: the steps of the task have the form %d, and this program reads %d"
        raise Retry(text % (form, _FORM), error_class="steps_newer")
    return record


def _bytes(record: dict[str, Any], occurrence: int, steps: int) -> bytes:
    if occurrence:
        record["occurrence"] = occurrence
    try:
        data = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as e:
        raise Permanent("steps: the results cannot be kept: %s" % e, error_class="bad_result") from e
    if len(data) > MAX_CHECKPOINT:
        text = (
            "the results of %d steps have %d bytes, of %d allowed:"
            " keep large results elsewhere, and have steps return where"
        )
        raise Permanent(text % (steps, len(data), MAX_CHECKPOINT), error_class="steps_too_large")
    return data


def _counts(first: int, done: int, failed: int, cancelled: int) -> dict[str, int]:
    """The counts in a step with children, but for those that are 0."""
    counts = {"from": first, "done": done, "failed": failed, "cancelled": cancelled}
    return {name: count for name, count in counts.items() if count}


def _changed(why: str) -> Permanent:
    """The error of a task whose steps are not those of the code."""
    return Permanent("steps: " + why, error_class="steps_changed")


def _record_of(woken: Woken) -> dict[str, Any]:
    record: dict[str, Any] = {"by": _WAKERS[woken.by]}
    if woken.by == "signal":
        record["id"], record["name"] = woken.id, woken.name
        record["at"] = _text_of(woken.at or _now())
        if woken.data:
            record["data"] = base64.b64encode(woken.data).decode()
    return record


def _woken_of(record: dict[str, Any]) -> Woken:
    by = NAMES.get(record.get("by", 0), "")
    if by != "signal":
        return Woken(by)
    data = base64.b64decode(record.get("data") or "")
    return Woken(by, record.get("id", ""), record.get("name", ""), _time_of(record["at"]), data)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _text_of(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _time_of(text: str) -> datetime:
    """A time of RFC 3339, to the microsecond."""
    whole, zone = text[:19], text[19:]
    fraction = ""
    if zone.startswith("."):
        digits = zone[1:].rstrip("Z")
        for sign in "+-":
            digits = digits.split(sign)[0]
        fraction, zone = digits, zone[1 + len(digits) :]
    at = datetime.fromisoformat(whole + (zone.replace("Z", "+00:00") or "+00:00"))
    return at + timedelta(microseconds=int(fraction[:6].ljust(6, "0"))) if fraction else at
