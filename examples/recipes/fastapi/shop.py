"""A web service that charges cards by tasks. An order and its task are written in one transaction of PostgreSQL: both exist, or
neither does. The tasks run in the process of the service, and a receipt is written in the transaction that ends its task."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, Field

from taskengine import Connection, Ended, Program, Task
from taskengine.client import AsyncClient, DeadlineExceeded, Error, NotDone, Unavailable

NODES = os.environ["TASKENGINE_ADDRESS"].split(",")
TABLES = """
    create table if not exists orders (id text primary key, cents int not null, task uuid not null);
    create table if not exists receipts (order_id text not null, number text not null);
"""


class Order(BaseModel):
    id: str = Field(min_length=1)
    cents: int = Field(gt=0)


pool = AsyncConnectionPool(os.environ["DATABASE"], open=False)
program = Program()


@program.handler("charge")
async def charge(task: Task) -> None:
    """It may run twice, after a crash. It writes one receipt all the same: that is done in the transaction that ends
    the attempt, and an attempt that is over cannot be ended."""
    order = task.json()
    async with pool.connection() as db:
        await db.execute("insert into receipts values (%s, %s)", (order["id"], "R-" + order["id"]))
        await db.execute("select taskengine.finish(%s, %s)", (task.id, task.version))
    raise Ended


@asynccontextmanager
async def life(app: FastAPI) -> AsyncIterator[None]:
    ending = asyncio.Event()
    await pool.open()
    async with pool.connection() as db:
        await db.execute(TABLES)
    app.state.tasks = AsyncClient(NODES, timeout=5)
    working = asyncio.create_task(program.work(Connection(NODES), ending=ending))
    yield
    ending.set()  # tasks that have begun are answered
    await working
    await app.state.tasks.close()
    await pool.close()
    print("closed", flush=True)


app = FastAPI(lifespan=life)


@app.exception_handler(Error)
async def fail(_: Request, error: Exception) -> JSONResponse:
    status = 503 if isinstance(error, (Unavailable, DeadlineExceeded)) else 502
    return JSONResponse({"error": str(error)}, status)


@app.exception_handler(RequestValidationError)
async def refuse(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": "an order has an id and cents"}, 400)


@app.post("/orders", status_code=202)
async def add(order: Order) -> dict[str, str]:
    """It may be repeated: an order exists once, and with it its task."""
    async with pool.connection() as db:  # it commits at the end, or rolls back
        await db.execute(
            """with task as (select id from taskengine.add('charge', %(payload)s::jsonb, key => %(id)s))
               insert into orders select %(id)s, %(cents)s, task.id from task on conflict (id) do nothing""",
            {"id": order.id, "cents": order.cents, "payload": json.dumps(order.model_dump())},
        )
        row = await (await db.execute("select task from orders where id = %s", (order.id,))).fetchone()
    assert row is not None
    return {"task": str(row[0])}


@app.get("/orders/{order}")
async def get(order: str) -> JSONResponse:
    """It waits up to 10 s for what became of the order."""
    async with pool.connection() as db:
        row = await (await db.execute("select task from orders where id = %s", (order,))).fetchone()
        if row is None:
            raise HTTPException(404, "there is no such order")
    try:
        await app.state.tasks.result(str(row[0]), timeout=10)
    except NotDone as e:
        return JSONResponse({"state": e.state, "error": str(e)})
    except DeadlineExceeded:
        return JSONResponse({"state": "running"}, 202)
    async with pool.connection() as db:
        receipt = await (await db.execute("select number from receipts where order_id = %s", (order,))).fetchone()
    return JSONResponse({"state": "done", "receipt": receipt and receipt[0]})


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "8000"))))
    print("listening on 127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listener]))
