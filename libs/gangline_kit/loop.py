"""The event loop every process of ours runs on: uvloop where it exists, asyncio's own elsewhere."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None
try:
    from uvloop import new_event_loop
except ImportError:  # not on every system
    new_event_loop = None

YOUNG_MAX = 50_000
"""New containers before the collector looks at them: jobs and facts are no business of it, and looking costs."""
YOUNG_ROUNDS_MAX = 20
OLD_ROUNDS_MAX = 50


def calm_collector() -> None:
    """Have the collector of cycles look seldom; nearly all we make dies by its reference count."""
    gc.set_threshold(YOUNG_MAX, YOUNG_ROUNDS_MAX, OLD_ROUNDS_MAX)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
