"""Spans of OpenTelemetry: a request, the tasks that it adds, their handlers, and what these add are one trace.

    from taskengine import around
    from taskengine.client import Client
    from taskengine.tracing import Tracer

    tracer = Tracer()
    around(tracer.around)                                  # a span for each call of a handler
    client = Client("10.0.0.1:7420", decorate=tracer.decorate)   # tasks belong to the trace of the caller

It needs the package opentelemetry-api: pip install "taskengine-handler[tracing]". Which spans are recorded, and where
they are sent, the program configures as for its other spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ._task import Task
from ._verdicts import Again, Ended, Snooze, WaitFor
from ._version import VERSION
from .client import NewTask

__all__ = ["Tracer"]

_PROPAGATOR = TraceContextTextMapPropagator()
_OUTCOMES: dict[type[BaseException], str] = {
    Again: "completed",
    WaitFor: "completed",
    Ended: "ended",
    Snooze: "snoozed",
}


class Tracer:
    """Makes the spans of handlers, by a provider of tracers or by that of the process. Any thread may call it."""

    def __init__(self, provider: Any = None) -> None:
        self._tracer = trace.get_tracer("taskengine", VERSION, tracer_provider=provider)

    @contextmanager
    def around(self, tasks: Sequence[Task]) -> Iterator[None]:
        """A span for the call of a handler, which is current meanwhile. It is a child of the trace context in the
        headers of the task. The span of a batch is linked to those of its tasks. It is for Program.around."""
        contexts = [_context_of(task.headers) for task in tasks]
        parent = contexts[0] if len(contexts) == 1 else context.Context()
        links = [Link(trace.get_current_span(c).get_span_context()) for c in contexts] if len(contexts) > 1 else []
        with self._tracer.start_as_current_span(
            "handle " + tasks[0].type,
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_attributes(tasks),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as e:
                outcome = _OUTCOMES.get(type(e), "errored")
                span.set_attribute("taskengine.outcome", outcome)
                if outcome == "errored":
                    span.set_attribute("error.type", getattr(e, "error_class", "") or type(e).__name__)
                    span.record_exception(e)
                    span.set_status(Status(StatusCode.ERROR, str(e)))
                raise
            span.set_attribute("taskengine.outcome", "completed")

    def decorate(self, task: NewTask) -> NewTask:
        """The task with the trace context of the current span in its headers. One that has a trace context keeps it. It
        is for the clients."""
        if task.headers and any(name.lower() == "traceparent" for name in task.headers):
            return task
        carrier = dict(task.headers or {})
        _PROPAGATOR.inject(carrier)
        return replace(task, headers=carrier)


def _context_of(headers: Mapping[str, str]) -> context.Context:
    carrier = {name.lower(): value for name, value in headers.items()}
    return _PROPAGATOR.extract(carrier, context=context.Context())


def _attributes(tasks: Sequence[Task]) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": "taskengine",
        "messaging.operation.type": "process",
        "messaging.destination.name": tasks[0].type,
    }
    if len(tasks) == 1:
        attributes["messaging.message.id"] = str(tasks[0].id)
        attributes["taskengine.attempt"] = tasks[0].attempt
    else:
        attributes["messaging.batch.message_count"] = len(tasks)
    return attributes
