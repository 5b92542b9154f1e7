"""How full each pool was over time: GPUs held and there, jobs running and waiting."""

from bisect import bisect_left, bisect_right

from msgspec import Struct

from gangline_core.ids import TaskId
from gangline_core.job import LIVE, JobState
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State
from gangline_core.step import Step

RESOLUTION_MS = 100
"""Moments closer together than this are told as the last of them."""

WAITING = frozenset({JobState.WAITING})


class Moment(Struct, frozen=True):
    """A pool from this time until the next moment."""

    at: int
    held_milli: int
    """GPU thousandths held by tasks."""
    there_milli: int
    """GPU thousandths on nodes that are not lost."""
    running: int
    """Jobs that hold room."""
    waiting: int


class _Sums:
    """A sum per pool, made of parts that come, change and go by name."""

    def __init__(self) -> None:
        self.by_pool: dict[str, int] = {}
        self._parts: dict[str, tuple[str, int]] = {}

    def put(self, name: str, pool: str, amount: int) -> set[str]:
        """Set a part; the pools whose sums changed."""
        touched = self.drop(name)
        self._parts[name] = (pool, amount)
        self.by_pool[pool] = self.by_pool.get(pool, 0) + amount
        return touched | {pool}

    def drop(self, name: str) -> set[str]:
        """Take a part out; the pools whose sums changed."""
        pool, amount = self._parts.pop(name, ("", 0))
        if not pool:
            return set()
        self.by_pool[pool] -= amount
        return {pool}


class PoolUse:
    """Watches a state that is being folded."""

    def __init__(self, state: State) -> None:
        """Nothing is known before the first `note`."""
        self._state = state
        self._held = _Sums()
        self._there = _Sums()
        self._running: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._moments: dict[str, list[Moment]] = {}

    def note(self, step: Step) -> None:
        """Take in what one message changed."""
        touched: set[str] = set()
        for node_id in step.nodes:
            node = self._state.kept.nodes.get(node_id)
            if node is None:
                touched |= self._there.drop(node_id)
            else:
                touched |= self._there.put(node_id, node.pool, 0 if node.lost else GPU_MILLI * len(node.gpus))
        for task_id in step.tasks:
            touched |= self._note_task(task_id)
        for moved in step.moves:
            pool = self._state.kept.jobs[moved.job].spec.pool
            for counts, states in ((self._running, LIVE), (self._waiting, WAITING)):
                counts[pool] = counts.get(pool, 0) + (moved.after in states) - (moved.before in states)
            touched.add(pool)
        for pool in touched:
            # Writers' clocks differ a little; a pool's time only moves on.
            self._mark(pool, self._state.kept.at)

    def _note_task(self, task_id: TaskId) -> set[str]:
        task = self._state.kept.tasks.get(task_id)
        if task is None:
            return self._held.drop(task_id)
        return self._held.put(task_id, self._state.kept.nodes[task.node].pool, task.gpu_milli)

    def _mark(self, pool: str, at: int) -> None:
        moment = Moment(
            at=at,
            held_milli=self._held.by_pool.get(pool, 0),
            there_milli=self._there.by_pool.get(pool, 0),
            running=self._running.get(pool, 0),
            waiting=self._waiting.get(pool, 0),
        )
        moments = self._moments.setdefault(pool, [])
        if moments and moments[-1].at // RESOLUTION_MS == at // RESOLUTION_MS:
            moments.pop()
        moments.append(moment)

    def moments(self) -> dict[str, tuple[Moment, ...]]:
        """Every pool's moments in order."""
        return {pool: tuple(moments) for pool, moments in sorted(self._moments.items())}

    def shares(self, begin_ms: int, end_ms: int) -> dict[str, float]:
        """Mean share of the GPUs that were held in this time, for pools that have GPUs."""
        shares = {pool: held_share(moments, begin_ms, end_ms) for pool, moments in self.moments().items()}
        return {pool: share for pool, share in shares.items() if share is not None}

    def models(self) -> dict[str, dict[str, int]]:
        """GPUs now there, by pool and model."""
        models: dict[str, dict[str, int]] = {}
        for node in self._state.kept.nodes.values():
            for gpu in node.gpus:
                of_pool = models.setdefault(node.pool, {})
                of_pool[gpu.model] = of_pool.get(gpu.model, 0) + 1
        return {pool: dict(sorted(of_pool.items())) for pool, of_pool in sorted(models.items())}

    def nodes(self) -> dict[str, int]:
        """Nodes by pool."""
        counts: dict[str, int] = {}
        for node in self._state.kept.nodes.values():
            counts[node.pool] = counts.get(node.pool, 0) + 1
        return dict(sorted(counts.items()))


def held_share(moments: tuple[Moment, ...], begin_ms: int, end_ms: int) -> float | None:
    """GPU-time held over GPU-time there between two times; None when there was none."""
    held = there = 0
    first = max(0, bisect_right(moments, begin_ms, key=lambda moment: moment.at) - 1)
    for index in range(first, bisect_left(moments, end_ms, key=lambda moment: moment.at)):
        moment = moments[index]
        until = moments[index + 1].at if index + 1 < len(moments) else end_ms
        length = max(0, min(until, end_ms) - max(moment.at, begin_ms))
        held += moment.held_milli * length
        there += moment.there_milli * length
    return held / there if there else None
