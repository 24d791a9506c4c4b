"""Add tasks to nodes of taskengine, wait for them and manage them.

    from taskengine.client import Client

    with Client(["10.0.0.1:7420", "10.0.0.2:7420"]) as client:
        receipt = client.submit("mail", {"to": "a@example.com"}, key="m-1")
        sent = client.result(receipt.id, timeout=60)

Every task has an id that the client makes. So a submit that is repeated, because its answer was
lost, adds no second task. README.md is the manual.
"""

from ._aio import AsyncClient
from ._bulk_messages import (
    BulkEvent,
    BulkJob,
    BulkKind,
    BulkOrder,
    BulkPreview,
    BulkRefusal,
    TaskValues,
    where_ids,
)
from ._children import ChildrenAdded
from ._client import Client
from ._cluster_messages import (
    LimitList,
    LimitNode,
    LimitQueue,
    LimitReasons,
    LimitTask,
    NewSecret,
    Node,
    NodeList,
    NodeStatus,
    SilentNode,
    Token,
    Wait,
    WaitHistory,
    Worker,
    WorkerList,
)
from ._document_messages import Document
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
from ._event_messages import Event, EventGap
from ._log_messages import LogEntry, LogLine, MissingLines, RanElsewhere
from ._messages import (
    After,
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
from ._operation_messages import (
    Alert,
    Alerts,
    AlertSilence,
    AlertTest,
    AppliedConfig,
    ConfigChange,
    ConfigList,
    OrderingKey,
    TaskType,
    TypeList,
    UnsentAlerts,
)
from ._requests import NewTask, Receipt
from ._slice_messages import (
    AppliedPlatform,
    OpenSlice,
    Platform,
    PlatformRow,
    PlatformStop,
    SliceChange,
    SliceSetting,
    SliceSource,
)

__all__ = [
    "After", "Alert", "AlertSilence", "AlertTest", "Alerts", "AlreadyExists", "AppliedConfig", "AppliedPlatform", "AppliedSchedule", "AsyncClient", "Attempt", "BacklogFull", "BulkEvent",
    "BulkJob", "BulkKind", "BulkOrder", "BulkPreview", "BulkRefusal", "CancelledTree", "ChildSet", "ChildrenAdded", "ChildrenClosed", "Client", "Closed", "ConfigChange", "ConfigList",
    "Conflict", "DeadlineExceeded", "Document", "Error", "ErrorKind", "ErrorKinds", "Event", "EventGap", "Internal", "Invalid", "Late", "Limit", "LimitList", "LimitNode", "LimitQueue",
    "LimitReasons", "LimitSetting", "LimitTask", "LimitUse",
    "LogEntry", "LogLine", "MissingLines", "NewSecret", "NewTask", "Node", "NodeList", "NodeStatus", "NotAllowed", "NotDone", "NotFound", "OpenSlice", "OrderingKey", "Parent", "Platform",
    "PlatformRow", "PlatformStop", "Progress", "RanElsewhere", "Rate", "Reason", "Receipt", "ReceivedSignal", "ResultRemoved", "Schedule", "ScheduleCatchUp", "ScheduleDefinition",
    "ScheduleFailure", "ScheduleFire", "SchedulePause", "ScheduleTask", "ScheduleTime", "SchedulesChanged", "Signaled", "SilentNode", "SliceChange", "SliceSetting", "SliceSource", "Source",
    "SourceLoss", "SourceMove", "SourcePartition", "SourcePause", "StateCount", "Task", "TaskEnded", "TaskType", "TaskValues", "Token", "TooLarge", "TooManyChildren", "TreeTask", "TypeList",
    "Unavailable", "UnsentAlerts", "Unsupported", "Wait", "WaitHistory", "Worker", "WorkerList", "Workflow", "WorkflowStep", "where_ids",
]  # fmt: skip
