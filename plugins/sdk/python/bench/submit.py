"""Measures how many tasks a client adds in a second: python3 bench/submit.py ADDRESS [--way WAY] [--in-flight N]

It prints a line of JSON. The node keeps the tasks. cmd/taskengine/e2e has a benchmark that compares
the clients: go test ./cmd/taskengine/e2e -run '^$' -bench Clients -benchtime 50000x
"""

import argparse
import asyncio
import json
import sys
import threading
import time

from taskengine.client import AsyncClient, Client, NewTask

PAYLOAD = b'"' + b"x" * 254 + b'"'
TYPE = "shout"


def coroutines(address, tasks, in_flight):
    """Each coroutine submits one task after the other."""

    async def main():
        async with AsyncClient(address) as c:

            async def submit(n):
                for _ in range(n):
                    await c.submit(TYPE, PAYLOAD)

            await submit(100)
            begin = time.monotonic()
            await asyncio.gather(*[submit(tasks // in_flight) for _ in range(in_flight)])
            return time.monotonic() - begin

    return asyncio.run(main())


def threads(address, tasks, in_flight):
    """Each thread submits one task after the other."""
    with Client(address) as c:

        def submit(n):
            for _ in range(n):
                c.submit(TYPE, PAYLOAD)

        submit(100)
        all_threads = [threading.Thread(target=submit, args=(tasks // in_flight,)) for _ in range(in_flight)]
        begin = time.monotonic()
        for t in all_threads:
            t.start()
        for t in all_threads:
            t.join()
        return time.monotonic() - begin


def each(address, tasks, in_flight):
    """One thread calls submit_each with so many tasks."""
    with Client(address) as c:
        c.submit_each([NewTask(TYPE, PAYLOAD)] * 100)
        begin = time.monotonic()
        for _ in range(tasks // in_flight):
            c.submit_each([NewTask(TYPE, PAYLOAD) for _ in range(in_flight)])
        return time.monotonic() - begin


def main():
    ways = {"coroutines": coroutines, "threads": threads, "each": each}
    parser = argparse.ArgumentParser(description="Measures how many tasks a client adds in a second.")
    parser.add_argument("address", help="of a node")
    parser.add_argument("--way", choices=ways, default="coroutines")
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--tasks", type=int, default=50_000)
    a = parser.parse_args()
    if a.in_flight < 1 or a.tasks < a.in_flight:
        parser.error("give at least one task for each in flight")
    took = ways[a.way](a.address, a.tasks, a.in_flight)
    done = a.tasks // a.in_flight * a.in_flight
    found = {"way": a.way, "in_flight": a.in_flight, "tasks": done, "seconds": took, "rate": done / took}
    json.dump({**found, "cpu_us": time.process_time() * 1_000_000 / done}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
