"""When room is expected to come back: by time limits, else by estimates, else nobody knows."""

from copy import copy

import numpy as np

from gangline_core.equal_runs import run_lengths, run_starts
from gangline_core.facts import TaskPlacement
from gangline_core.ids import TaskId
from gangline_core.job import Job, Task, TaskState
from gangline_core.pauses.pausing import leaving_part
from gangline_core.placement.gang import Gang
from gangline_core.room.capacity import Flags, Ints, Layout, Room
from gangline_core.room.holdings import MILLI, ROW, as_lines, give_lines, lines_of, task_lines
from gangline_core.spec import GPU_MILLI, JobSpec
from gangline_core.state import State

UNKNOWN_MS = 1 << 62
"""Stands for an end that nobody knows."""


def run_ms(spec: JobSpec) -> int | None:
    """How long a job may or is expected to run; None when nobody knows."""
    seconds = spec.time_limit_s or spec.estimate_s
    return seconds * 1000 if seconds else None


def expected_end_ms(task: Task, job: Job) -> int:
    """When a task is expected to give its room back."""
    if task.state == TaskState.LOST:
        return UNKNOWN_MS
    if task.state == TaskState.EXITED:
        return task.exited_ms
    if task.stop:
        return task.stop_ms + job.spec.grace_s * 1000
    length = run_ms(job.spec) or job.expected_ms or None
    if length is None or task.pause:
        return UNKNOWN_MS
    return (task.started_ms or task.placed_ms) + task.paused_ms + length


class Releases:
    """The room of a pool at later times, as one round sees it."""

    def __init__(self, state: State, settled: Room, *, leaving: set[TaskId]) -> None:
        """`settled` is the room with all claims settled; tasks `leaving` are already counted as gone in it."""
        self._settled = settled
        layout = settled.layout
        self._ends, self._lines = _tenants(state, layout)
        if leaving:
            self._drop(state, layout, leaving)
            self._ends, self._lines = _in_order(self._ends, self._lines)

    def add(self, placed: list[tuple[TaskPlacement, int]]) -> None:
        """Tasks placed in this round and when they are expected to end."""
        layout = self._settled.layout
        lines = [task_lines(layout, place) for place, _ in placed]
        ends = [end for (_, end), own in zip(placed, lines, strict=True) for _ in own]
        self._lines = np.concatenate([self._lines, as_lines(layout, [line for own in lines for line in own])])
        self._ends = np.concatenate([self._ends, np.array(ends, dtype=np.int64)])
        self._ends, self._lines = _in_order(self._ends, self._lines)

    def book(self, tasks: tuple[TaskPlacement, ...], end_ms: int) -> None:
        """These places are taken at all later times, up to this end."""
        self.take([(place, end_ms) for place in tasks])

    def take(self, placed: list[tuple[TaskPlacement, int]]) -> None:
        """These places are taken at all later times, each up to its end."""
        if not placed:
            return
        for place, _ in placed:
            self._settled.take(place)
        self.add(placed)

    def beside(self, tasks: tuple[TaskPlacement, ...], end_ms: int) -> "Releases":
        """The same where these places are taken, up to this end."""
        twin = copy(self)
        twin._settled = self._settled.copy()
        twin.book(tasks, end_ms)
        return twin

    def times(self) -> Ints:
        """All times at which room comes back, ascending."""
        return self._ends[run_starts(self._ends)]

    def soonest(self, gang: Gang, rows: Flags) -> int:
        """The first of `times` at which the GPUs of each of these nodes, added up, are enough for the gang.

        Before that it surely does not fit; it is the number of all times when it never does.
        """
        wanted = [(need.gpus * GPU_MILLI, need.count) for need in gang.needs if need.gpus]
        if not wanted:
            return 0
        own = rows[self._lines[:, ROW]]
        lines, ends, times = self._lines[own], self._ends[own], self.times()
        settled = np.where(rows, np.maximum(self._settled.milli, 0).sum(axis=1), 0)
        sums = _sums_by_node(settled, lines)
        gone = max(_enough_after(settled, *sums, *one) for one in (*wanted, (GPU_MILLI, gang.whole_gpus)))
        if gone > len(ends):
            return len(times)
        return int(np.searchsorted(times, ends[gone - 1])) if gone else 0

    def _gone_by(self, time: int) -> int:
        """How many lines have ended by then."""
        return int(np.searchsorted(self._ends, time, side="right"))

    def at(self, time: int) -> Room:
        """The room when everything expected to end by then has ended."""
        room = self._settled.copy()
        give_lines(room, self._lines[: self._gone_by(time)])
        return room

    def _drop(self, state: State, layout: Layout, leaving: set[TaskId]) -> None:
        """Leave out tasks that are counted as gone already, by taking their lines out again."""
        for task in sorted(leaving):
            known = state.kept.tasks.get(task)
            if known is None:
                continue
            end = expected_end_ms(known, state.kept.jobs[known.job])
            lines = lines_of(layout, [leaving_part(state, known, going=None)])
            self._lines = np.concatenate([self._lines, -_only_amounts(lines)])
            self._ends = np.concatenate([self._ends, np.full(len(lines), end, dtype=np.int64)])


def _sums_by_node(settled: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """Per line the GPU thousandths that are free on its node before it has ended, and after."""
    by_node = np.argsort(lines[:, ROW], kind="stable")
    node, given = lines[by_node, ROW], np.maximum(lines[by_node, MILLI], 0)
    starts, sums = run_starts(node), given.cumsum()
    of_others = np.repeat((sums - given)[starts], run_lengths(starts, len(node)))
    after = np.empty_like(sums)
    after[by_node] = settled[node] + sums - of_others
    return after - np.maximum(lines[:, MILLI], 0), after


def _enough_after(settled: Ints, before: Ints, after: Ints, milli: int, count: int) -> int:
    """How many lines have to end before so many tasks of so many thousandths fit on nodes; one more when all do not do.

    What is free on each node is known as it is settled, and before and after each line has ended.
    """
    fits = np.concatenate(([(settled // milli).sum()], after // milli - before // milli)).cumsum()
    return int(np.searchsorted(fits, count))


def _only_amounts(lines: Ints) -> Ints:
    """Lines whose place stays positive when the whole is negated."""
    turned = lines.copy()
    turned[:, :2] *= -1
    return turned


def _tenants(state: State, layout: Layout) -> tuple[Ints, Ints]:
    """Expected ends of all tasks on the layout's nodes, soonest first, and their lines; only read them.

    Only nodes that changed are read again.
    """
    known = layout.tenants
    if known is not None and not layout.stale:
        return known
    ends: list[int] = []
    lines: list[list[int]] = []
    for row in sorted(layout.stale):
        for name in sorted(state.node_tasks.get(layout.nodes[row].id, {})):
            task = state.kept.tasks[name]
            job = state.kept.jobs.get(task.job)
            own = task_lines(layout, task)
            lines.extend(own)
            ends.extend([UNKNOWN_MS if job is None else expected_end_ms(task, job)] * len(own))
    fresh = np.array(ends, dtype=np.int64), as_lines(layout, lines)
    if known is not None:
        is_stale = np.zeros(len(layout.nodes), dtype=np.bool_)
        is_stale[list(layout.stale)] = True
        stays = ~is_stale[known[1][:, ROW]]
        fresh = np.concatenate([known[0][stays], fresh[0]]), np.concatenate([known[1][stays], fresh[1]])
    layout.tenants = _in_order(*fresh)
    layout.stale.clear()
    return layout.tenants


def _in_order(ends: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """Soonest first."""
    order = np.argsort(ends, kind="stable")
    return ends[order], lines[order]
