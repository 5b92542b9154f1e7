"""The client's only doors to what it cannot compute: the time, and fresh keys.

The services have theirs in the kit, which the client may not see.
"""

import asyncio
import secrets  # noqa: TID251 - this is the door
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Sleep = Callable[[float], Awaitable[None]]


def now_ms() -> int:
    """The wall clock, in ms since the Unix epoch."""
    return time.time_ns() // 1_000_000  # noqa: TID251 - this is the door


def steady_s() -> float:
    """Seconds of a clock that never goes back, for programs of users that wait without asyncio."""
    return time.monotonic()  # noqa: TID251 - this is the door


def rest(seconds: float) -> None:
    """Sleep in a thread."""
    time.sleep(seconds)  # noqa: TID251 - this is the door


def new_key() -> str:
    """A fresh idempotency key."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Doors:
    """The doors as a parameter, so that a test can bring its own time."""

    now_ms: Callable[[], int] = now_ms
    new_key: Callable[[], str] = new_key
    sleep: Sleep = asyncio.sleep
