"""Several simulations at once, each in a process of its own; what comes out is what one after the other gives.

The pools of the standard library do not do here: `multiprocessing.Pool` waits for ever for a process that was ended
from outside, and `concurrent.futures` cannot end what runs when somebody interrupts.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TypeVar, cast

from msgspec import Struct

from gangline_lab.archive import Progress

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Shared, Task, Progress | None], Result]
"""One simulation: what all of them look at, which one it is, and whom it tells how far it is."""
Together = Callable[[Sequence[Task], Progress | None], list[Result]]
"""All of these, in their order."""

FINE = 1_000
"""Steps of one simulation's progress that are told."""
LEAVE_S = 5.0
"""How long a process that was told to end is waited for."""


class _Far(Struct, frozen=True):
    """How far a simulation is, in steps."""

    steps: int


class _Came(Struct, frozen=True):
    """What it came to."""

    result: object


class _Failed(Struct, frozen=True):
    """How it ended instead."""

    error: Exception


class LostError(OSError):
    """A process ended before its simulation did."""


def processors() -> int:
    """How many of them this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def side_by_side(work: Work[Shared, Task, Result], shared: Shared, *, workers: int) -> Iterator[Together[Task, Result]]:
    """So many processes that know `shared`; with one, all is done here. Whoever leaves early ends what they are at.

    A script that asks for more than one must be guarded by `if __name__ == "__main__"`, for they start from it.

    Raises:
        LostError: one of them was ended from outside.
    """
    if workers <= 1:
        yield partial(_one_by_one, work, shared)
        return
    crew: list[tuple[SpawnProcess, Connection]] = []
    try:
        while len(crew) < workers:
            crew.append(_started(work, shared))
        yield cast("Together[Task, Result]", partial(_given_out, [pipe for _, pipe in crew]))
    finally:
        for process, pipe in crew:
            pipe.close()
            process.terminate()
        for process, _ in crew:
            process.join(LEAVE_S)


def _one_by_one(
    work: Work[Shared, Task, Result], shared: Shared, tasks: Sequence[Task], progress: Progress | None
) -> list[Result]:
    far = [0] * len(tasks)
    return [work(shared, task, _part(far, index, progress)) for index, task in enumerate(tasks)]


def _part(far: list[int], index: int, progress: Progress | None) -> Progress | None:
    """Progress of one of them as a part of all."""
    if progress is None:
        return None

    def tell(done: int, total: int) -> None:
        far[index] = _steps(done, total)
        progress(sum(far), FINE * len(far))

    return tell


def _steps(done: int, total: int) -> int:
    return FINE * done // total if total else FINE


def _started(work: Work[Shared, Task, Result], shared: Shared) -> tuple[SpawnProcess, Connection]:
    """A process that waits for tasks; who interrupts the command interrupts us, and we end it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    resource_tracker.ensure_running()  # its first start lets signals through again, in the midst of ours
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = context.Process(target=_serve, args=(theirs, work, shared), daemon=True)
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()
    return process, ours


def _serve(pipe: Connection, work: Work[Shared, Task, Result], shared: Shared) -> None:
    """The life of such a process: until nobody is there who gives it tasks."""
    told = -1

    def tell(done: int, total: int) -> None:
        nonlocal told
        steps = _steps(done, total)
        if steps != told:
            told = steps
            pipe.send(_Far(steps))

    try:
        while True:
            task, told = pipe.recv(), -1
            try:
                came: _Came | _Failed = _Came(work(shared, task, tell))
            except BrokenPipeError:
                raise
            except Exception as error:  # noqa: BLE001  it is raised again by whoever gave the task
                came = _Failed(error)
            pipe.send(came)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _given_out(pipes: list[Connection], tasks: Sequence[object], progress: Progress | None) -> list[object]:
    """Each process has one task at a time, and the next when it is done."""
    left, far = deque(enumerate(tasks)), [0] * len(tasks)
    results: dict[int, object] = {}
    busy: dict[Connection, int] = {}
    for pipe in pipes:
        _give(pipe, left, busy)
    while busy:
        ready = wait(list(busy))
        for pipe in [one for one in busy if one in ready]:
            index = busy[pipe]
            match _heard(pipe):
                case _Far(steps=steps):
                    far[index] = steps
                case _Came(result=result):
                    results[index], far[index] = result, FINE
                    del busy[pipe]
                    _give(pipe, left, busy)
                case _Failed(error=error):
                    raise error
            if progress is not None:
                progress(sum(far), FINE * len(far))
    return [results[index] for index in range(len(tasks))]


def _give(pipe: Connection, left: "deque[tuple[int, object]]", busy: dict[Connection, int]) -> None:
    if left:
        busy[pipe], task = left.popleft()
        pipe.send(task)


def _heard(pipe: Connection) -> _Far | _Came | _Failed:
    try:
        return cast("_Far | _Came | _Failed", pipe.recv())
    except (EOFError, ConnectionResetError) as error:
        raise LostError(0, "a process of the run was ended from outside, perhaps for want of memory") from error
