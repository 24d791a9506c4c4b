"""The calls about types, ordering keys, alerts and configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .._wire import _fields
from ._calls import Call, Page, _checked, _nothing, _read, _read_all, _read_page, _texts
from ._cluster_messages import SilentNode
from ._codec import decode, give_duration, integer, mapping, sized, text
from ._messages import Task
from ._operation_messages import (
    Alert,
    Alerts,
    AlertSilence,
    AlertTest,
    AppliedConfig,
    ConfigList,
    OrderingKey,
    TaskType,
    TypeList,
    UnsentAlerts,
)
from ._requests import Seconds, seconds


def types() -> Call[TypeList]:
    found = _read_all(TaskType, 1)
    return Call("ListTypes", b"", lambda buf: TypeList(found(buf), bool(dict(_fields(buf)).get(2, 0))), True)


@_checked
def change_type(method: str, task_type: str) -> Call[None]:
    """PauseType or ResumeType."""
    return Call(method, text(1, task_type), _nothing, True)


@_checked
def ordering_keys(states: Iterable[str], behind: bool, token: str) -> Call[Page[OrderingKey]]:
    return Call("ListKeys", _texts(1, states) + integer(2, int(behind)) + text(4, token), _read_page(OrderingKey), True)


@_checked
def ordering_key_tasks(key: str, token: str) -> Call[Page[Task]]:
    def read(buf: bytes) -> Page[Task]:
        head: list[Task] = []
        behind: list[Task] = []
        following = ""
        for number, value in _fields(buf):
            if number == 1 and not token:
                head = [decode(Task, value)]
            elif number == 2:
                behind.append(decode(Task, value))
            elif number == 3:
                following = bytes(value).decode()
        return Page(head + behind, following)

    return Call("GetKey", text(1, key) + text(3, token), read, True)


@_checked
def resume_ordering_key(key: str) -> Call[Task]:
    return Call("ResumeKey", text(1, key), _read(Task), False)


@_checked
def skip_ordering_key(key: str, reason: str) -> Call[Task]:
    return Call("SkipKey", text(1, key) + text(2, reason), _read(Task), False)


def alerts() -> Call[Alerts]:
    found, silences, unsent = _read_all(Alert, 1), _read_all(AlertSilence, 2), _read_all(UnsentAlerts, 3)
    return Call("ListAlerts", b"", lambda buf: Alerts(found(buf), silences(buf), unsent(buf)), True)


@_checked
def silence_alerts(
    rule: str, labels: Mapping[str, str] | None, lasting: Seconds, comment: str, by: str
) -> Call[AlertSilence]:
    request = text(1, rule) + mapping(2, labels or {}) + sized(3, give_duration(seconds(lasting)))
    return Call("SilenceAlerts", request + text(4, comment) + text(5, by), _read(AlertSilence), False)


@_checked
def unsilence_alerts(id: str) -> Call[None]:
    return Call("UnsilenceAlerts", text(1, id), _nothing, False)


@_checked
def test_alerts(targets: Iterable[str]) -> Call[Sequence[AlertTest]]:
    return Call("TestAlerts", _texts(1, targets), _read_all(AlertTest, 1), False)


@_checked
def apply_config(all_nodes: bool) -> Call[ConfigList]:
    nodes, silent = _read_all(AppliedConfig, 1), _read_all(SilentNode, 2)
    return Call("ApplyConfig", integer(1, int(all_nodes)), lambda buf: ConfigList(nodes(buf), silent(buf)), False)
