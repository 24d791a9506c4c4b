"""What both clients have for types, ordering keys, alerts and configurations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Callable, TypeVar

from . import _operation_calls
from ._calls import Call, Page
from ._messages import Task
from ._operation_messages import Alerts, AlertSilence, AlertTest, ConfigList, OrderingKey, TypeList
from ._requests import Seconds

T = TypeVar("T")


class Operations:
    """The methods of the client that blocks."""

    def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
        raise NotImplementedError

    def types(self, *, timeout: float | None = None) -> TypeList:
        """The types that are configured, were paused or resumed, or have tasks, by name. With a store in files, types that
        have only ended tasks are left out."""
        return self._call(_operation_calls.types(), timeout)

    def pause_type(self, task_type: str, *, timeout: float | None = None) -> None:
        """Keeps tasks of a type from being started on all nodes, also over restarts, until resume_type. Running tasks go on,
        and new tasks are accepted."""
        self._call(_operation_calls.change_type("PauseType", task_type), timeout)

    def resume_type(self, task_type: str, *, timeout: float | None = None) -> None:
        """Lets tasks of a type be started again."""
        self._call(_operation_calls.change_type("ResumeType", task_type), timeout)

    # --- ordering keys

    def ordering_keys(self, *, states: Iterable[str] = (), behind: bool = False) -> Iterator[OrderingKey]:
        """The ordering keys whose tasks run or wait, in their order: those whose heads are in one of the states, and with
        behind those of which tasks wait behind others. Each page is a call of its own."""
        return self._items(lambda token: _operation_calls.ordering_keys(states, behind, token))

    def ordering_key_tasks(self, key: str) -> Iterator[Task]:
        """The tasks of an ordering key that run or wait, without payload and result, in the order in which they run. The first
        is the head, unless the first task of the key waits for its time. Raises NotFound if there is no task. Each page is a
        call of its own."""
        return self._items(lambda token: _operation_calls.ordering_key_tasks(key, token))

    def resume_ordering_key(self, key: str, *, timeout: float | None = None) -> Task:
        """Resumes the head of an ordering key that is in the state error and stops the key, and returns it. Raises NotAllowed
        if the head is in another state. The call is not repeated."""
        return self._call(_operation_calls.resume_ordering_key(key), timeout)

    def skip_ordering_key(self, key: str, reason: str = "", *, timeout: float | None = None) -> Task:
        """Ends the head of an ordering key that is in the state error as failed, so that the next task of the key runs, and
        returns the head. Raises NotAllowed if it is in another state. The call is not repeated."""
        return self._call(_operation_calls.skip_ordering_key(key, reason), timeout)

    # --- alerts

    def alerts(self, *, timeout: float | None = None) -> Alerts:
        """The alerts of all nodes that share the store, their silences, and the notifications that no target has accepted
        yet."""
        return self._call(_operation_calls.alerts(), timeout)

    def silence_alerts(
        self,
        rule: str = "",
        *,
        lasting: Seconds,
        labels: Mapping[str, str] | None = None,
        comment: str = "",
        by: str = "",
        timeout: float | None = None,
    ) -> AlertSilence:
        """Keeps alerts out of notifications for a time of at most a year, on all nodes and over restarts: those of a rule, or
        of any that have the labels, where a value with * at its end stands for all that begin so. The end of an alert is
        sent all the same. The call is not repeated."""
        return self._call(_operation_calls.silence_alerts(rule, labels, lasting, comment, by), timeout)

    def unsilence_alerts(self, id: str, *, timeout: float | None = None) -> None:
        """Ends a silence. Raises NotFound if there is none with the id. The call is not repeated."""
        self._call(_operation_calls.unsilence_alerts(id), timeout)

    def test_alerts(self, targets: Iterable[str] = (), *, timeout: float | None = None) -> Sequence[AlertTest]:
        """Sends a test notification to targets of the configuration of the node, or to all of them, once, and returns the
        outcome for each."""
        return self._call(_operation_calls.test_alerts(targets), timeout)

    # --- configuration

    def apply_config(self, *, all_nodes: bool = False, timeout: float | None = None) -> ConfigList:
        """Has the node read its configuration file again, as SIGHUP does, or all nodes of the cluster their own files. Returns
        the outcome of each, by name, and the nodes that did not answer and may have applied theirs. The call is not
        repeated."""
        return self._call(_operation_calls.apply_config(all_nodes), timeout)


class AsyncOperations:
    """The methods of the client for coroutines."""

    async def _call(self, call: Call[T], timeout: float | None = None) -> T:
        raise NotImplementedError

    def _items(self, call: Callable[[str], Call[Page[T]]]) -> AsyncIterator[T]:
        raise NotImplementedError

    async def types(self, *, timeout: float | None = None) -> TypeList:
        """The types that are configured, were paused or resumed, or have tasks, by name. With a store in files, types that
        have only ended tasks are left out."""
        return await self._call(_operation_calls.types(), timeout)

    async def pause_type(self, task_type: str, *, timeout: float | None = None) -> None:
        """Keeps tasks of a type from being started on all nodes, also over restarts, until resume_type. Running tasks go on,
        and new tasks are accepted."""
        await self._call(_operation_calls.change_type("PauseType", task_type), timeout)

    async def resume_type(self, task_type: str, *, timeout: float | None = None) -> None:
        """Lets tasks of a type be started again."""
        await self._call(_operation_calls.change_type("ResumeType", task_type), timeout)

    # --- ordering keys

    def ordering_keys(self, *, states: Iterable[str] = (), behind: bool = False) -> AsyncIterator[OrderingKey]:
        """The ordering keys whose tasks run or wait, in their order: those whose heads are in one of the states, and with
        behind those of which tasks wait behind others. Each page is a call of its own."""
        return self._items(lambda token: _operation_calls.ordering_keys(states, behind, token))

    def ordering_key_tasks(self, key: str) -> AsyncIterator[Task]:
        """The tasks of an ordering key that run or wait, without payload and result, in the order in which they run. The first
        is the head, unless the first task of the key waits for its time. Raises NotFound if there is no task. Each page is a
        call of its own."""
        return self._items(lambda token: _operation_calls.ordering_key_tasks(key, token))

    async def resume_ordering_key(self, key: str, *, timeout: float | None = None) -> Task:
        """Resumes the head of an ordering key that is in the state error and stops the key, and returns it. Raises NotAllowed
        if the head is in another state. The call is not repeated."""
        return await self._call(_operation_calls.resume_ordering_key(key), timeout)

    async def skip_ordering_key(self, key: str, reason: str = "", *, timeout: float | None = None) -> Task:
        """Ends the head of an ordering key that is in the state error as failed, so that the next task of the key runs, and
        returns the head. Raises NotAllowed if it is in another state. The call is not repeated."""
        return await self._call(_operation_calls.skip_ordering_key(key, reason), timeout)

    # --- alerts

    async def alerts(self, *, timeout: float | None = None) -> Alerts:
        """The alerts of all nodes that share the store, their silences, and the notifications that no target has accepted
        yet."""
        return await self._call(_operation_calls.alerts(), timeout)

    async def silence_alerts(
        self,
        rule: str = "",
        *,
        lasting: Seconds,
        labels: Mapping[str, str] | None = None,
        comment: str = "",
        by: str = "",
        timeout: float | None = None,
    ) -> AlertSilence:
        """Keeps alerts out of notifications for a time of at most a year, on all nodes and over restarts: those of a rule, or
        of any that have the labels, where a value with * at its end stands for all that begin so. The end of an alert is
        sent all the same. The call is not repeated."""
        return await self._call(_operation_calls.silence_alerts(rule, labels, lasting, comment, by), timeout)

    async def unsilence_alerts(self, id: str, *, timeout: float | None = None) -> None:
        """Ends a silence. Raises NotFound if there is none with the id. The call is not repeated."""
        await self._call(_operation_calls.unsilence_alerts(id), timeout)

    async def test_alerts(self, targets: Iterable[str] = (), *, timeout: float | None = None) -> Sequence[AlertTest]:
        """Sends a test notification to targets of the configuration of the node, or to all of them, once, and returns the
        outcome for each."""
        return await self._call(_operation_calls.test_alerts(targets), timeout)

    # --- configuration

    async def apply_config(self, *, all_nodes: bool = False, timeout: float | None = None) -> ConfigList:
        """Has the node read its configuration file again, as SIGHUP does, or all nodes of the cluster their own files. Returns
        the outcome of each, by name, and the nodes that did not answer and may have applied theirs. The call is not
        repeated."""
        return await self._call(_operation_calls.apply_config(all_nodes), timeout)
