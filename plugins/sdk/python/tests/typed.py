"""Handlers with types, for mypy: it accepts them and knows what they get. Nothing runs this."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from taskengine import (
    Again,
    Cancelled,
    Client,
    Document,
    LogHandler,
    Permanent,
    Program,
    Task,
    WaitFor,
    Woken,
    client,
    handler,
)


@dataclass
class Order:
    id: str
    amount: int


def order(value: Any) -> Order:
    return Order(**value)


@handler("function")
def function(task: Task) -> dict[str, int]:
    taken: Order = task.json(order)
    task.progress(1, 2, "taken")
    task.spawn("mail", {"order": taken.id}, priority=1, run_at=1.5)
    task.spawn("audit", after=[task.id], after_any=True)
    task.log.info("charged", extra={"amount": taken.amount})
    stock: Document = task.read_document("stock/a")
    task.write_document(stock, {"left": stock.version}, expires_at=1.5)
    task.delete_document("stock/b", if_version=stock.version)
    cancellation: Cancelled | None = task.cancellation
    if cancellation is not None:
        raise cancellation
    return {"amount": taken.amount}


@handler("coroutine")
async def coroutine(task: Task) -> bytes:
    trace: str | None = task.traceparent
    if trace is None:
        raise Permanent("no trace", error_class="trace")
    return task.checkpoint


@handler("batch", batch=100, wait=timedelta(milliseconds=50))
async def batch(tasks: list[Task]) -> list[Exception | str]:
    return [Again(0, payload={"n": 1}, checkpoint=b"") if task.attempt > 1 else task.text() for task in tasks]


@handler("steps", version=2, oldest=1)
async def steps(task: Task) -> str:
    amount: int = await task.step("charge", task.json, order)
    woken: Woken = await task.wait_for("paid", timeout=timedelta(days=2))
    await task.save_checkpoint(b"")
    if woken.by == "timeout" or task.step_version < 2:
        raise WaitFor("paid", "void", timeout=1.5, result=amount)
    return woken.text()


program = Program()
amount: int = function(Task.__new__(Task))["amount"]  # a decorated function keeps its type
log = LogHandler()


@program.handler("batch")  # type: ignore[type-var]
def wrong(tasks: list[Task]) -> None:  # a list is given with batch only
    pass


def submits(c: Client) -> Order:
    receipt: client.Receipt = c.submit("charge", Order("a", 1), delay=timedelta(seconds=1))
    for outcome in c.submit_each([client.NewTask("mail", at=1.5)]):
        if isinstance(outcome, client.Error):
            raise outcome
        receipt = outcome
    receipt = c.submit_with_children(client.NewTask("mail"), [client.NewTask("mail")], until=1.5)
    below: list[client.TreeTask] = list(c.tree(receipt.id))
    said: client.Signaled = c.signal("paid", Order("a", 1), id=below[0].task.id)
    missing: int = c.cancel_tree(said.task.id).missing
    listed: list[client.Task] = list(c.tasks(states=["error"])) if missing else []
    receipt = c.submit_open(client.NewTask("mail"), name="page")
    added: client.ChildrenAdded = c.add_children(receipt.id, 0, [client.NewTask("mail")], name="page")
    missing += c.close_children(receipt.id, added.added, name="page", or_failed=added.open).added
    kinds: client.ErrorKinds = c.error_kinds(types=["mail"], where="since=2h")
    listed += c.tasks(where="error.kind=" + kinds.kinds[0].kind)
    platform: client.Platform | None = c.set_slices("orders", {"lag": "5m"}, by="anna")
    platform = c.reset_platform("orders", "shop-a", 1.5, cursor=1.0) if platform is None else platform
    cursors = [p.cursor for p in c.platforms("orders") if p.stopped is None and c.slice_source("orders").low_water]
    listed += [c.get(s.task_id) for s in platform.slices if s.start in cursors]
    receipt = c.submit_workflow("order", input=Order("a", 1), delay=1)
    undone: client.WorkflowStep | None = c.retry_workflow(receipt.id, from_step="pay").steps[0].compensation
    shown: client.Workflow = c.workflow_of("o-1")
    listed = [shown.task] if undone is not None else listed
    order_of: client.BulkOrder = client.BulkOrder(
        "set", "state=error", values=client.TaskValues(priority=1, payload=Order("a", 1))
    )
    job: client.BulkJob = c.start_bulk_job(order_of, name="mend", rate=0.5)
    states: dict[str, int] = dict(c.preview_bulk_job(order_of).states) if job.has_ended else {}
    for event in c.events(where="type=mail", cursor="1h", catch_up=True):
        if event.task is not None and event.task.state in states:
            listed.append(event.task)
    nodes, silent = c.nodes()
    names: list[str] = [n.name for n in nodes if n.status is None] + [s.problem for s in silent]
    secret: str = c.add_token("shop", ["submit"], expires_in=timedelta(days=1)).secret if names else ""
    total: timedelta | None = c.wait_history(secret).waits[0].total
    if total is not None and total.days:
        return Order("a", total.days)
    limit: client.Limit = c.set_limit("partner", rate=client.Rate(20, timedelta(seconds=1)))
    made: Order = c.result(receipt.id, order)
    return made if listed and limit.max else order(c.result(receipt.id))


async def coroutines(c: client.AsyncClient) -> str:
    async with c:
        async for schedule in c.schedules():
            if schedule.next is not None:
                return schedule.next.isoformat()
        async for platform in c.platforms("orders", "shop-"):
            await c.retry_slices("orders", platform.name, start=1.5)
        moves = await c.seek_source("orders", begin=True, dry_run=True)
        lag: int | None = (await c.source("orders")).lag
        if lag is None and moves:
            return moves[0].topic
        async for event in c.events(types=["mail"]):
            if event.gap is not None and event.gap.from_ is not None:
                return event.gap.text
        async for job in c.bulk_jobs():
            await c.stop_bulk_job(job.name, reason=str(job.changed))
        task: client.Task = await c.wait((await c.submit("mail")).id, timeout=1)
        return task.state
