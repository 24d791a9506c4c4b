"""The client for functions that block."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable, TypeVar, overload

from . import _calls
from ._base import is_final, outcomes, receipt_of, result_of, still_runs, together
from ._bulk import Bulk
from ._calls import POLL, Call, NamedSchedule, Page
from ._children import ChildrenAdded, adding, opening, submitting
from ._cluster import Cluster
from ._cluster_messages import LimitList, LimitReasons
from ._documents import Documents
from ._errors import Closed, DeadlineExceeded, Error, Unavailable
from ._events import Events
from ._flow import Submission
from ._logs import Logs
from ._messages import (
    AppliedSchedule,
    CancelledTree,
    ErrorKinds,
    Limit,
    Rate,
    Reason,
    Schedule,
    ScheduleDefinition,
    SchedulesChanged,
    ScheduleTime,
    Signaled,
    Source,
    SourceMove,
    StateCount,
    Task,
    TreeTask,
    Workflow,
)  # fmt: skip
from ._operations import Operations
from ._requests import Id, Instant, NewTask, Receipt, Seconds
from ._silent import attempt
from ._slices import Slices
from ._waiting import TRY_ERRORS, Deadline, pauses, pick

T = TypeVar("T")


class _Latch:
    """A caller that blocks until all of its submissions have landed."""

    def __init__(self) -> None:
        self.left = 0  # set before the first can land, and then guarded by the lock of the flow
        self._landed = threading.Lock()
        self._landed.acquire()

    def land(self, s: Submission) -> None:
        self.left -= 1
        if self.left == 0:
            self._landed.release()

    def wait(self, timeout: float) -> bool:
        return self._landed.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))


class Client(Bulk, Cluster, Documents, Operations, Slices, Events, Logs):
    """Adds tasks to nodes, waits for them and manages them. Any thread may call it.

    A process that was forked cannot use a client that was used before the fork: calls raise Closed, and say so.
    """

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections. Calls under way raise Closed, and may have been carried out."""
        self._close()

    def _call(self, call: Call[T], timeout: float | None = None) -> T:
        """Makes a call. If no node answers, it makes it again until the timeout is over: always if it
        is repeatable, and otherwise while no node can have received it."""
        self._check_process()
        deadline = Deadline(self._timeout if timeout is None else timeout)
        for pause in pauses():
            if self._closed.is_set():
                raise Closed("the client is closed")
            patience = self._patience(call, deadline)
            node = pick(self._nodes, deadline, patience, is_sure=not call.is_repeatable)
            error: Error = self._nodes.absent()
            if node is not None:
                try:
                    return call.read(attempt(node, call.method, call.request, deadline.left(), patience))
                except TRY_ERRORS as e:
                    error = self._failed(node, call, e)
            if is_final(error, call, node is not None, deadline, pause):
                raise error
            self._closed.wait(pause)
        raise AssertionError  # there is always another pause

    # --- adding tasks

    def submit(
        self,
        task_type: str,
        payload: object = None,
        *,
        key: str = "",
        ordering_key: str = "",
        priority: int | None = None,
        at: Instant | None = None,
        delay: Seconds | None = None,
        expires_at: Instant | None = None,
        headers: Mapping[str, str] | None = None,
        id: Id | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Adds a task, and returns when it is durable. NewTask describes the arguments.

        Calls at the same time share messages and commits. If no node answers, it asks again, here
        or at another address, until the timeout is over. After Unavailable, DeadlineExceeded or
        Closed the task may have been added: to find out, submit it again with the same id or key.
        """
        task = NewTask(task_type, payload, key, ordering_key, priority, at, delay, expires_at, headers, id)
        return receipt_of(self.submit_each([task], timeout=timeout)[0])

    def submit_each(self, tasks: Iterable[NewTask], *, timeout: float | None = None) -> list[Receipt | Error]:
        """Adds many tasks, of which each is added or refused by itself. Returns a receipt or an error
        for each, in their order."""
        latch = _Latch()
        prepared = self._prepare(tasks, latch)
        submissions = [s for s in prepared if isinstance(s, Submission)]
        latch.left = len(submissions)
        if submissions:
            wait = self._timeout if timeout is None else timeout
            self._submit(submissions, wait)
            try:
                is_over = not latch.wait(wait)
            except BaseException:  # such as KeyboardInterrupt
                self._flow.abandon(submissions)
                raise
            if is_over:
                self._flow.abandon(submissions)
        return outcomes(prepared)

    def submit_all(self, tasks: Iterable[NewTask], *, timeout: float | None = None) -> list[Receipt]:
        """Adds up to 1000 tasks together: if one of them is refused, none is added. But if a key is
        taken and its type rejects that, or a task is too late for its type, the other tasks are added:
        then it raises AlreadyExists or Late, which has all receipts."""
        messages = self._messages(tasks)
        if not messages:
            return []
        call = _calls.submit([m for m, _, _ in messages])
        return together(messages, self._call(call, timeout))

    def submit_with_children(
        self,
        task: NewTask,
        children: Iterable[NewTask],
        *,
        name: str = "",
        count: int = 0,
        or_failed: bool = False,
        until: Instant | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Adds a task and children of it. The task runs when the children have ended: all of them or, with
        count, so many; with or_failed, also when one has failed or was cancelled; at the latest at until.
        Its handler finds their counts by the name, which is child by default. The children have no id and
        no key. If the key or the id of the task is taken, nothing is added.

        Up to 10000 children, of 8 MiB, are added all or not at all. More are added in several requests,
        each with the timeout. If one fails, the task waits for more children: the same call with the same
        id or key goes on, and cancel_tree gives it up."""
        calls = submitting(self._encode(task), self._children(children), name, count, or_failed, until)
        return self._run(calls, timeout)

    def submit_open(
        self,
        task: NewTask,
        children: Iterable[NewTask] = (),
        *,
        name: str = "",
        until: Instant | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Adds a task whose children are added by later calls: add_children adds more, in any number of calls, and
        close_children says that there are no others. The children given here are the first. All run when they are added;
        the task runs when they are closed and have ended, or at until. If its key or its id is taken, nothing is added, and
        the receipt is that of the task that has it: a caller that was lost goes on with that. cancel_tree gives it up."""
        calls = opening(self._encode(task), self._children(children), name, until)
        return self._run(calls, timeout)

    def add_children(
        self, id: Id, start: int, children: Iterable[NewTask] = (), *, name: str = "", timeout: float | None = None
    ) -> ChildrenAdded:
        """Adds children to a task of submit_open. start is the number of the first of them, counted from 0, or how many were
        added before. Those that the task has already, by their numbers, are not added again: the call may be repeated with
        the same children. Without children it says how many there are.

        Raises ChildrenClosed if the children were closed or the task was woken, TaskEnded if the task has ended,
        TooManyChildren, BacklogFull, and NotAllowed also if children before start are missing."""
        return self._run(adding(str(id), name, start, self._children(children), False, 0, False), timeout)

    def close_children(
        self,
        id: Id,
        start: int,
        children: Iterable[NewTask] = (),
        *,
        name: str = "",
        count: int = 0,
        or_failed: bool = False,
        timeout: float | None = None,
    ) -> ChildrenAdded:
        """Adds the last children of a task of submit_open, if there are any, and says that there are no others: the task has
        start and as many as these. It runs when they have ended or, with count, so many; with or_failed, also when one has
        failed or was cancelled. The call may be repeated, also when the task is done, and raises what add_children does."""
        calls = adding(str(id), name, start, self._children(children), True, count, or_failed)
        return self._run(calls, timeout)

    def _run(self, calls: Generator[Call[Any], Any, T], timeout: float | None) -> T:
        """Makes calls, each with the timeout, and returns what they come to."""
        call = next(calls)
        while True:
            answer = self._call(call, timeout)
            try:
                call = calls.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result

    # --- reading tasks

    def get(self, id: Id, *, timeout: float | None = None) -> Task:
        """A task, with its payload and result."""
        return self._call(_calls.get(id), timeout)

    def find(self, task_type: str, key: str, ordering_key: str = "", *, timeout: float | None = None) -> Task:
        """The task that has a key."""
        return self._call(_calls.find(task_type, key, ordering_key), timeout)

    def tasks(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), key: str = "", where: str = ""
    ) -> Iterator[Task]:
        """Tasks without payload and result, the newest first. Without arguments all of them; where is a filter, such as
        'error~"503" since=2h'. Each page is a call of its own."""
        return self._items(_calls.task_pages(states, types, key, where))

    def error_kinds(
        self, *, types: Iterable[str] = (), where: str = "", limit: int = 100, timeout: float | None = None
    ) -> ErrorKinds:
        """The kinds of errors of tasks in the state error or, if where names states, in those: at most limit kinds, those
        of most tasks first. tasks(where="error.kind=...") lists the tasks of one."""
        return self._call(_calls.error_kinds(types, where, limit), timeout)

    def tree(self, id: Id) -> Iterator[TreeTask]:
        """A task and the tasks below it: its children, their children, and so on. A task comes before its
        children, which come by their names and indexes. Each page is a call of its own."""
        return self._items(lambda token: _calls.tree(id, token))

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
        token = ""
        while True:
            page = self._call(call(token))
            yield from page.items
            token = page.next
            if not token:
                return

    def count(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), where: str = "", timeout: float | None = None
    ) -> Sequence[StateCount]:
        """How many tasks there are, by state and type; those of zero are left out. where is a filter, as in tasks. Raises
        Invalid if it selects among more tasks than a node reads to count them."""
        return self._call(_calls.count(states, types, where), timeout)

    def wait(self, id: Id, *, timeout: float | None = None) -> Task:
        """A task when it has ended: it is done, error, failed or cancelled. Waits until the timeout is
        over, also while no node answers; None is without end. Raises NotFound for a task that does
        not exist, or whose retention is over."""
        deadline = Deadline(timeout)
        while True:
            try:
                if self._call(_calls.wait(id, deadline.within(POLL)), deadline.within(POLL + self._timeout)):
                    return self.get(id, timeout=deadline.within(self._timeout))
            except (Unavailable, DeadlineExceeded) as e:
                if deadline.is_over():
                    raise (still_runs(id) if isinstance(e, DeadlineExceeded) else e) from None
            if deadline.is_over():
                raise still_runs(id)

    @overload
    def result(self, id: Id, *, timeout: float | None = None) -> Any: ...
    @overload
    def result(self, id: Id, convert: Callable[[Any], T], *, timeout: float | None = None) -> T: ...
    def result(self, id: Id, convert: Callable[[Any], Any] | None = None, *, timeout: float | None = None) -> Any:
        """Waits for a task, and returns its result, which is JSON. convert is given the parsed JSON, such
        as a model's model_validate; bytes returns the result as it is. Raises NotDone if the task ended
        without being done, and ResultRemoved if it is done and its result was removed."""
        return result_of(self.wait(id, timeout=timeout), convert)

    def why(self, id: Id, *, timeout: float | None = None) -> Sequence[Reason]:
        """What keeps a task from running, the nearest reason first."""
        return self._call(_calls.why(id), timeout)

    # --- changing tasks: each returns the task after the change. version has it changed only if it is
    # at that version; 0 is any

    def cancel(self, id: Id, reason: str = "", *, version: int = 0, timeout: float | None = None) -> Task:
        """Ends a task as cancelled. If it is running, its handler is stopped."""
        return self._call(_calls.change("Cancel", id, version, reason), timeout)

    def cancel_tree(self, id: Id, reason: str = "", *, timeout: float | None = None) -> CancelledTree:
        """Cancels a task and all tasks below it that have not ended, whether the task has ended or not.
        After an error it may be called again, and goes on with the rest."""
        deadline, cancelled = Deadline(self._timeout if timeout is None else timeout), 0
        while True:
            tree, more = self._call(_calls.cancel_tree(id, reason), deadline.left())
            cancelled += tree.cancelled
            if not more:
                return CancelledTree(tree.task, cancelled, tree.missing)

    def signal(
        self,
        name: str,
        data: object = None,
        *,
        id: Id | None = None,
        type: str = "",
        key: str = "",
        ordering_key: str = "",
        keep: bool = False,
        request_id: Id | None = None,
        timeout: float | None = None,
    ) -> Signaled:
        """Sends a signal to a task, by its id, or by its type and key. With keep, a task that does not
        wait for it keeps it; otherwise it is dropped. It is sent again when a node does not answer, and
        the task gets it once. data is encoded as a payload is."""
        request = str(uuid.uuid4() if request_id is None else request_id)
        call = _calls.signal(name, data, id, type, key, ordering_key, keep, request)
        return self._call(call, timeout)

    def fail(self, id: Id, reason: str = "", *, version: int = 0, timeout: float | None = None) -> Task:
        """Ends a task as failed. For a task in the state error it acknowledges the error."""
        return self._call(_calls.change("Fail", id, version, reason), timeout)

    def resume(self, id: Id, *, version: int = 0, timeout: float | None = None) -> Task:
        """Makes a task ready now that waits, or that ended without being done."""
        return self._call(_calls.change("Resume", id, version), timeout)

    def reschedule(
        self,
        id: Id,
        *,
        at: Instant | None = None,
        delay: Seconds | None = None,
        version: int = 0,
        timeout: float | None = None,
    ) -> Task:
        """Sets the time at which a task is due that is not running."""
        return self._call(_calls.reschedule(id, at, delay, version), timeout)

    # --- workflows

    def submit_workflow(
        self,
        name: str = "",
        *,
        definition: object = None,
        input: object = None,
        key: str = "",
        priority: int | None = None,
        at: Instant | None = None,
        delay: Seconds | None = None,
        headers: Mapping[str, str] | None = None,
        id: Id | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Adds a workflow of the configuration of the node by its name, or one with a definition. Both the
        definition and the input are encoded as a payload is, and are JSON. The key is unique among all
        workflows, and the priority that of the workflow and not of its tasks. It is repeated as submit is,
        and decorate is not called."""
        call = _calls.submit_workflow(name, definition, input, key, priority, at, delay, headers, id, self._ids)
        return self._call(call, timeout)

    def workflow(self, id: Id, *, timeout: float | None = None) -> Workflow:
        """A workflow with its steps."""
        return self._call(_calls.workflow(id), timeout)

    def workflow_of(self, key: str, *, timeout: float | None = None) -> Workflow:
        """The workflow that has a key."""
        return self._call(_calls.workflow_of(key), timeout)

    def retry_workflow(
        self, id: Id, *, from_step: str = "", version: int = 0, timeout: float | None = None
    ) -> Workflow:
        """Has a workflow run again that has failed, was cancelled or is in error: from_step and all after
        it, and the steps that have failed, were stopped or were compensated, with those after them.
        cancel_tree cancels a workflow. With a version, it is retried only if its task is at that version."""
        return self._call(_calls.retry_workflow(id, from_step, version), timeout)

    # --- limits

    def limits(self, *, timeout: float | None = None) -> LimitList:
        """All limits as they are in force, and the nodes that did not answer, of which the uses are missing."""
        return self._call(_calls.limits(), timeout)

    def limit(self, name: str, value: str = "", *, timeout: float | None = None) -> Limit:
        """A limit, as a whole or for one of its values."""
        return self._call(_calls.limit(name, value), timeout)

    def why_limit(self, name: str, value: str = "", *, timeout: float | None = None) -> LimitReasons:
        """Why a limit, as a whole or for one of its values, holds tasks up: which tasks and nodes use it, and how many tasks
        wait for it."""
        return self._call(_calls.why_limit(name, value), timeout)

    def set_limit(
        self,
        name: str,
        value: str = "",
        *,
        max: int | None = None,
        rate: Rate | None = None,
        paused: bool | None = None,
        if_version: int | None = None,
        by: str = "",
        timeout: float | None = None,
    ) -> Limit:
        """Changes a limit on all nodes until it is unset. What is None stays as it is. With if_version
        it is changed only if its setting is at that version, and raises Conflict otherwise."""
        return self._call(_calls.set_limit(name, value, max, rate, paused, if_version, by), timeout)

    def unset_limit(
        self, name: str, value: str = "", *, if_version: int | None = None, by: str = "", timeout: float | None = None
    ) -> Limit:
        """Removes what set_limit has set."""
        return self._call(_calls.unset_limit(name, value, if_version, by), timeout)

    # --- schedules

    def schedules(self, *, prefix: str = "", paused: bool = False, failing: bool = False) -> Iterator[Schedule]:
        """The schedules with names that begin with prefix, in the order of their names, without payloads: all of them, or
        only those that are paused, or that cannot run. Each page is a call of its own."""
        return self._items(lambda token: _calls.schedules(prefix, paused, failing, token))

    def schedule(self, name: str, *, timeout: float | None = None) -> Schedule:
        """A schedule."""
        return self._call(_calls.schedule(name), timeout)

    def apply_schedule(self, name: str, definition: ScheduleDefinition, *, timeout: float | None = None) -> str:
        """Makes a schedule be as a definition says. Returns created, updated or unchanged; a repetition
        of a call whose answer was lost returns unchanged."""
        return self._call(_calls.apply_schedule(name, definition), timeout)

    def apply_schedules(
        self, schedules: Iterable[NamedSchedule], *, timeout: float | None = None
    ) -> Sequence[AppliedSchedule]:
        """Applies schedules as apply_schedule does, 100 with each call, and returns the effect on each. Each is a name and a
        definition, or these and the version that the schedule must have, 0 if there must be none. After an error the same
        call applies the rest."""
        done: list[AppliedSchedule] = []
        some = list(schedules)
        for i in range(0, len(some), 100):
            applied = self._call(_calls.apply_schedules(some[i : i + 100]), timeout)
            done += applied
        return done

    def pause_schedules(
        self,
        prefix: str = "",
        reason: str = "",
        *,
        all: bool = False,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> SchedulesChanged:
        """Pauses the schedules with names that begin with prefix, or all of them; with dry_run it only counts them. Each call
        changes a part of them, each by itself. After an error the same call pauses the rest."""
        return self._change("PauseSchedules", prefix, all, dry_run, reason, timeout)

    def resume_schedules(
        self, prefix: str = "", *, all: bool = False, dry_run: bool = False, timeout: float | None = None
    ) -> SchedulesChanged:
        """Ends the pauses of the schedules with names that begin with prefix, as pause_schedules begins them."""
        return self._change("ResumeSchedules", prefix, all, dry_run, "", timeout)

    def delete_schedules(
        self, prefix: str = "", *, all: bool = False, dry_run: bool = False, timeout: float | None = None
    ) -> SchedulesChanged:
        """Deletes the schedules with names that begin with prefix, in parts as pause_schedules."""
        return self._change("DeleteSchedules", prefix, all, dry_run, "", timeout)

    def _change(
        self, method: str, prefix: str, all: bool, dry_run: bool, reason: str, timeout: float | None
    ) -> SchedulesChanged:
        sum, token = SchedulesChanged(), ""
        while True:
            part = self._call(_calls.change_schedules(method, prefix, all, dry_run, reason, token), timeout)
            sum, token = _calls.added(sum, part), part.next_page_token
            if not token:
                return sum

    def preview_schedule(
        self,
        name: str,
        definition: ScheduleDefinition | None = None,
        *,
        start: Instant | None = None,
        count: int = 10,
        timeout: float | None = None,
    ) -> Sequence[ScheduleTime]:
        """The next times of a schedule, or of a definition that is not stored."""
        return self._call(_calls.preview_schedule(name, definition, start, count), timeout)

    def delete_schedule(self, name: str, *, timeout: float | None = None) -> None:
        """Ends a schedule. Tasks that it has added are not affected."""
        self._call(_calls.delete_schedule(name), timeout)

    def pause_schedule(self, name: str, reason: str = "", *, timeout: float | None = None) -> Schedule:
        """Stops a schedule from firing until resume_schedule."""
        return self._call(_calls.pause_schedule(name, reason), timeout)

    def resume_schedule(self, name: str, *, timeout: float | None = None) -> Schedule:
        """Ends a pause."""
        return self._call(_calls.resume_schedule(name), timeout)

    def trigger_schedule(self, name: str, *, timeout: float | None = None) -> str:
        """Has a schedule add a task now, and returns the id of the task. Each call adds another one."""
        return self._call(_calls.trigger_schedule(name), timeout)

    def backfill_schedule(
        self, name: str, start: Instant, end: Instant, *, dry_run: bool = False, timeout: float | None = None
    ) -> int:
        """Has a schedule add tasks for its times from start to end, and returns how many; with dry_run
        it only counts them. Each call adds other tasks."""
        return self._call(_calls.backfill_schedule(name, start, end, dry_run), timeout)

    # --- sources

    def sources(self, *, timeout: float | None = None) -> Sequence[Source]:
        """The sources of tasks in the configuration of the node, by name, without their partitions."""
        return self._call(_calls.sources(), timeout)

    def source(self, name: str, *, timeout: float | None = None) -> Source:
        """A source with its partitions."""
        return self._call(_calls.source(name), timeout)

    def pause_source(self, name: str, reason: str = "", *, timeout: float | None = None) -> Source:
        """Stops a source from reading until resume_source. It is carried out when orders of source() is 0."""
        return self._call(_calls.pause_source(name, reason), timeout)

    def resume_source(self, name: str, *, timeout: float | None = None) -> Source:
        """Ends a pause. It is carried out when orders of source() is 0."""
        return self._call(_calls.resume_source(name), timeout)

    def seek_source(
        self,
        name: str,
        *,
        topic: str = "",
        partition: int | None = None,
        begin: bool = False,
        end: bool = False,
        time: Instant | None = None,
        offset: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Sequence[SourceMove]:
        """Moves the positions of a source: to the first record (begin), behind the last one (end), to the
        first record of a time or later, or to an offset of a partition. Returns where each partition
        goes, and with dry_run only that; none if the brokers do not say it now. Records that are read
        again become tasks once more."""
        return self._call(_calls.seek_source(name, topic, partition, begin, end, time, offset, dry_run), timeout)
