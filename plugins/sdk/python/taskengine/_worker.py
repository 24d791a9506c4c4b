"""A program that connects to nodes by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

from ._batch import Served
from ._connection import Connection
from ._dial import Dialer, hello
from ._session import Session

_LAST_MOMENTS = 2  # seconds for handlers to return that were cut off


async def work(served: Mapping[str, Served], to: Connection, version: str, slots: int, ending: asyncio.Event) -> None:
    """Runs tasks of nodes, as Program.work says."""
    loop = asyncio.get_running_loop()
    nodes = len(to.addresses)
    sessions, dialers, threads = [], [], []
    for n, address in enumerate(to.addresses):
        share = max(1, slots // nodes + (n < slots % nodes))
        session = Session(dict(served), share)
        dialer = Dialer(session, to, address, hello(version, sorted(served), share))
        over = asyncio.Event()
        sessions.append(session)
        dialers.append(dialer)
        threads.append(over)
        run = threading.Thread(target=_run, args=(dialer, loop, over), name="taskengine node", daemon=True)
        run.start()
    leaving = loop.create_task(_leave(ending, dialers))
    try:
        for over in threads:
            await over.wait()
    finally:
        leaving.cancel()
        for dialer in dialers:
            dialer.stop()
        for session in sessions:
            session.end()
    rests = [loop.create_task(session.rest.wait()) for session in sessions]
    _, waiting = await asyncio.wait(rests, timeout=_LAST_MOMENTS)
    for rest in waiting:
        rest.cancel()


def _run(dialer: Dialer, loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    try:
        dialer.run()
    finally:
        try:
            loop.call_soon_threadsafe(over.set)
        except RuntimeError:
            pass  # the loop is closed: the program ends


async def _leave(ending: asyncio.Event, dialers: list[Dialer]) -> None:
    await ending.wait()
    for dialer in dialers:
        dialer.leave()
