"""How a test waits, and asks for what must be quick, on a machine that others load.

A wait that is there so that a test which hangs ends takes `LONG_S` and says nothing about time. What must be quick is
asked for by `quick`. What must be over in time to say anything is played by `timely`. Ports come from `free_port`.
"""

import asyncio
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

LONG_S = 90.0
"""Longer than anything takes on a machine that works at all."""
TRIES = 5
PORTS = range(12_000, 20_000)
"""None of them is given to whoever asks the system for any port, nor to a gang."""

T = TypeVar("T")
_held: list[int] = []
"""Locks of the ports that this process was given; they end with it."""


async def quick(within_s: float, story: Callable[[int], Awaitable[float]]) -> None:
    """A story that gives how many seconds something took takes less than this.

    It is played again while it took longer, as others may have had the machine: what waits where it should not does so
    each time. The number of the try goes into the story's names.
    """
    took_s = [await story(0)]
    while took_s[-1] >= within_s and len(took_s) < TRIES:
        took_s.append(await story(len(took_s)))
    assert took_s[-1] < within_s, took_s


async def timely(within_s: float, story: Callable[[int], Awaitable[T]], *, tries: int = 30) -> T:
    """What a story gives that must be over within so many seconds to say anything; it is played until it was.

    What goes wrong counts, unless this machine was too slow for it. The number of the try goes into the story's names.
    """
    for number in range(tries):
        began_s = time.monotonic()
        try:
            return await story(number)
        except (Exception, pytest.fail.Exception):
            if number == tries - 1 or time.monotonic() - began_s < within_s:
                raise
    raise AssertionError("the last try returns or raises")


async def until(holds: Callable[[], Awaitable[object]], within_s: float = LONG_S) -> None:
    """Ask again and again until it holds, of what tells nobody when it does."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - of an event there would be no need for this
            await asyncio.sleep(0.02)


def free_ports(count: int) -> list[int]:
    """Several of them, see `free_port`."""
    return [free_port() for _ in range(count)]


def free_port() -> int:
    """A port of loopback that nobody listens on, and that no other test is given while this process lives.

    A port that was free a moment ago may be anybody's: the system gives it to the next one who asks for any. So these
    are others than those, and a lock keeps each for one process.
    """
    folder = Path(tempfile.gettempdir()) / f"gangline-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    first = os.getpid() * 7 + len(_held)
    for number in range(len(PORTS)):
        port = PORTS[(first + number) % len(PORTS)]
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        _held.append(lock)
        return port
    raise AssertionError("no port is free")
