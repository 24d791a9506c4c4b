"""Add tasks to nodes of taskengine, wait for them and manage them.

    from taskengine.client import Client

    with Client(["10.0.0.1:7420", "10.0.0.2:7420"]) as client:
        receipt = client.submit("mail", {"to": "a@example.com"}, key="m-1")
        sent = client.result(receipt.id, timeout=60)

Every task has an id that the client makes. So a submit that is repeated, because its answer was
lost, adds no second task. README.md is the manual.
"""

from ._aio import AsyncClient
from ._children import ChildrenAdded
from ._client import Client
from ._errors import (
    AlreadyExists,
    BacklogFull,
    ChildrenClosed,
    Closed,
    Conflict,
    DeadlineExceeded,
    Error,
    Internal,
    Invalid,
    Late,
    NotAllowed,
    NotDone,
    NotFound,
    ResultRemoved,
    TaskEnded,
    TooLarge,
    TooManyChildren,
    Unavailable,
    Unsupported,
)  # fmt: skip
from ._messages import (
    AppliedSchedule,
    Attempt,
    CancelledTree,
    ChildSet,
    ErrorKind,
    ErrorKinds,
    Limit,
    LimitSetting,
    LimitUse,
    Parent,
    Progress,
    Rate,
    Reason,
    ReceivedSignal,
    Schedule,
    ScheduleCatchUp,
    ScheduleDefinition,
    ScheduleFailure,
    ScheduleFire,
    SchedulePause,
    SchedulesChanged,
    ScheduleTask,
    ScheduleTime,
    Signaled,
    Source,
    SourceLoss,
    SourceMove,
    SourcePartition,
    SourcePause,
    StateCount,
    Task,
    TreeTask,
    Workflow,
    WorkflowStep,
)  # fmt: skip
from ._requests import NewTask, Receipt
from ._slice_messages import OpenSlice, Platform, PlatformStop, SliceChange, SliceSetting, SliceSource

__all__ = [
    "AlreadyExists", "AppliedSchedule", "AsyncClient", "Attempt", "BacklogFull", "CancelledTree", "ChildSet", "ChildrenAdded", "ChildrenClosed", "Client", "Closed", "Conflict",
    "DeadlineExceeded", "Error", "ErrorKind", "ErrorKinds", "Internal", "Invalid", "Late", "Limit", "LimitSetting", "LimitUse", "NewTask", "NotAllowed", "NotDone", "NotFound",
    "OpenSlice", "Parent", "Platform", "PlatformStop", "Progress", "Rate", "Reason", "Receipt", "ReceivedSignal", "ResultRemoved", "Schedule", "ScheduleCatchUp",
    "ScheduleDefinition", "ScheduleFailure", "ScheduleFire", "SchedulePause", "SchedulesChanged", "ScheduleTask", "ScheduleTime", "SliceChange", "SliceSetting", "SliceSource", "Source",
    "SourceLoss", "SourceMove", "Signaled", "SourcePartition", "SourcePause", "StateCount", "Task", "TaskEnded", "TooLarge", "TooManyChildren", "TreeTask", "Unavailable", "Unsupported", "Workflow",
    "WorkflowStep",
]  # fmt: skip
