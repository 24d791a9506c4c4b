"""A program that does on request whatever a handler may do. The tests here run it, and so may
any host: `python3 tests/conformance.py` is the command of its handler."""

import asyncio
import base64
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from taskengine import (  # noqa: E402
    Again,
    Child,
    ChildrenWait,
    Ended,
    InDoubt,
    Permanent,
    Retry,
    RetryIn,
    Snooze,
    WaitFor,
    WaitForChildren,
    handler,
    run,
)


@handler("noop")
def noop(task):
    return None


@handler("async noop")
async def async_noop(task):
    return None


@handler("echo")
async def echo(task):
    return task.payload


@handler("json")
def json(task):
    numbers = task.json()
    return {"sum": numbers["a"] + numbers["b"]}


@handler("describe")
def describe(task):
    return {
        "id": task.id, "version": task.version, "type": task.type, "attempt": task.attempt, "crashes": task.crashes,
        "priority": task.priority, "key": task.key, "ordering_key": task.ordering_key, "headers": task.headers,
        "payload": base64.b64encode(task.payload).decode(),
        "time_left_us": round((task.time_left() or 0) * 1_000_000),
        "checkpoint": base64.b64encode(task.checkpoint).decode(),
    }  # fmt: skip


@handler("error")
def error(task):
    asked = task.json()
    message, error_class = asked["message"], asked.get("class", "")
    if asked.get("permanent"):
        raise Permanent(message, error_class=error_class)
    if asked.get("retry_delay_ms") is not None:
        raise RetryIn(asked["retry_delay_ms"] / 1000, message, error_class=error_class)
    raise Retry(message, error_class=error_class)


@handler("throw")
def throw(task):
    raise ValueError(task.text())


@handler("doubt")
def doubt(task):
    raise InDoubt(task.text())


@handler("unencodable")
def unencodable(task):
    return float("nan")


@handler("snooze")
def snooze(task):
    raise Snooze(task.json()["delay_ms"] / 1000)


@handler("again")
async def again(task):
    asked = task.json()
    raise Again(asked["at_ms"] / 1000, asked["result"])


@handler("rerun")
def rerun(task):
    asked = task.json()
    at = asked["at_ms"] / 1000
    raise Again(at, asked["result"], payload=asked.get("payload"), checkpoint=asked.get("checkpoint"))


@handler("ended")
def ended(task):
    raise Ended


@handler("wait")
async def wait(task):
    await asyncio.Event().wait()


@handler("wait on a thread")
def wait_on_a_thread(task):
    task.cancelled.wait()
    task.check()


@handler("hang")
def hang(task):
    while True:
        time.sleep(60)


@handler("log")
def log(task):
    asked = task.json()
    getattr(task.log, {"warn": "warning"}.get(asked["level"], asked["level"]))(
        "%s", asked["message"], extra=asked.get("fields")
    )


@handler("print")
def print_(task):
    print(task.text())
    print(task.text(), file=sys.stderr)


@handler("progress")
def progress(task):
    asked = task.json()
    task.progress(asked["done"], asked["total"], asked["message"])


@handler("checkpoint")
def checkpoint(task):
    task.save_checkpoint(task.payload)
    raise RuntimeError("kept")


@handler("keep")
def keep(task):
    task.save_checkpoint(task.payload)
    return "stored"


def heard(woken):
    if woken.by != "signal":
        return {"by": woken.by}
    return {"by": woken.by, "id": woken.id, "name": woken.name, "data": base64.b64encode(woken.data).decode()}


@handler("await")
def await_(task):
    if task.woken is not None:
        return heard(task.woken)
    asked = task.json()
    timeout = asked["timeout_ms"] / 1000 if "timeout_ms" in asked else None
    raise WaitFor(*asked["names"], timeout=timeout, result=asked.get("result"), checkpoint=asked.get("checkpoint"))


@handler("flow", version=1)
async def flow(task):
    began = await task.step("begin", lambda: str(os.getpid()))
    woken = await task.wait_for("packed", timeout=3600)
    return {**heard(woken), "began": began, "ended": await task.step("end", lambda: str(os.getpid()))}


@handler("children")
def children(task):
    child = task.json()
    task.spawn(child["type"], child["payload"], key=child["key"])
    return "spawned"


@handler("after")
def after(task):
    asked = task.json()
    task.spawn(asked["type"], asked.get("payload"), after=asked["after"], after_any=asked.get("any", False))
    return "spawned"


@handler("family")
def family(task):
    if task.woken is not None:
        sets = [
            {"name": s.name, "added": s.added, "done": s.done, "failed": s.failed, "cancelled": s.cancelled,
             "ids": [s.id(number) for number in range(s.added)]}
            for s in task.children.values()
        ]  # fmt: skip
        parent = task.parent and {"id": task.parent.id, "name": task.parent.name, "index": task.parent.number}
        return {"by": task.woken.by, "parent": parent, "children": sets}
    asked = task.json()
    task.add_children(asked["name"], *(Child(asked["type"], payload) for payload in asked["payloads"]))
    wait = ChildrenWait(asked["name"], asked.get("count", 0), asked.get("or_failed", False))
    raise WaitForChildren(wait, result=asked.get("result"))


@handler("check")
def check(task):
    asked = task.json()
    if asked["name"]:
        refused = task.check_children(asked["name"], *(Child(c["type"], c.get("payload")) for c in asked["children"]))
    else:
        one = asked["children"][0]
        refused = task.check_spawn(one["type"], one.get("payload"), key=one.get("key", ""))
    return [{"index": r.index, "reason": r.reason, "message": r.message, "id": r.id} for r in refused]


@handler("documents")
async def documents(task):
    asked = task.json()
    out = {}
    if "read" in asked:
        document = await task.read_document(asked["read"])
        expires = document.expires_at and round(document.expires_at.timestamp() * 1000)
        out = {"data": document.text(), "version": str(document.version), "expires_ms": expires or 0}
        if "append" in asked:
            task.write_document(document, document.text() + asked["append"])
    for write in asked.get("write", []):
        if write.get("delete"):
            task.delete_document(write["key"])
        else:
            expires = write["expires_ms"] / 1000 if "expires_ms" in write else None
            task.write_document(write["key"], write["data"], expires_at=expires)
    return out


@handler("signals")
def signals(task):
    asked = task.json()
    names = {
        "to": "to",
        "type": "task_type",
        "key": "key",
        "ordering_key": "ordering_key",
        "id": "signal_id",
        "keep": "keep",
    }
    task.send_signal(
        asked["name"], asked.get("data"), **{name: asked[field] for field, name in names.items() if field in asked}
    )
    return "sent"


@handler("fan", version=1)
async def fan(task):
    began = await task.step("begin", lambda: str(os.getpid()))
    asked = task.json()
    pages = await task.run_children("page", *(Child(asked["type"], payload) for payload in asked["payloads"]))
    ended = await task.step("end", lambda: str(os.getpid()))
    return {
        "began": began, "ended": ended, "count": pages.count, "done": pages.done, "failed": pages.failed,
        "cancelled": pages.cancelled, "ids": [pages.id(number) for number in range(pages.count)],
    }  # fmt: skip


@handler("batch", batch=10, wait=0.1)
def batch(tasks):
    return [ValueError("asked to") if task.payload == b"fail" else str(len(tasks)) for task in tasks]


@handler("big")
def big(task):
    return "x" * int(task.text())


@handler("exit")
def exit_(task):
    os._exit(int(task.text()))


if __name__ == "__main__":
    run(version="conformance")
