"""When will waiting jobs start, if they go in today's order? A forward simulation of room that comes back.

Room is counted per GPU model (and CPUs for jobs without GPUs), not per node: what fragmentation, topology and backfill
do is not foreseen. It is simulated twice, with every job's soonest and with its latest end; the two starts are the
range. A job behind one whose end nobody knows has no expected start.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from gangline_core.foresight.history import classes
from gangline_core.foresight.run_times import Basis, RunTimes, Span
from gangline_core.groups import holders
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, Task
from gangline_core.limits.amounts import add_all
from gangline_core.limits.least_counted import least_counted
from gangline_core.limits.quota import JOBS, Ledger, job_amounts, minimum_sizes
from gangline_core.limits.rungs import lowered
from gangline_core.limits.shares import free_by_model
from gangline_core.room.holds import placed_amounts
from gangline_core.spec import GPU_MILLI, smallest_size
from gangline_core.state import Held, State, count, task_amounts

CPU = "cpu"
"""The class of room for jobs without GPUs."""


class Start(Struct, frozen=True):
    """When a job is expected to start: a range in ms, and the weakest thing it rests on."""

    soonest_ms: int
    latest_ms: int
    basis: Basis


class Ask(Struct, frozen=True):
    """What a waiting job needs: one of these classes, so much of it, for so long."""

    job: JobId
    classes: tuple[str, ...]
    amount: int
    span: Span | None


class Release(Struct, frozen=True):
    """What a live job gives back when it ends."""

    amounts: dict[str, int]
    """By class."""
    span: Span | None
    job: JobId = JobId(0)


class Pile:
    """Room of one class through time."""

    def __init__(self, free: int, now: int) -> None:
        """So much free now."""
        self.free = free
        self.now = now
        self.coming = 0
        """Sum of what comes back."""
        self.returns: list[tuple[int, int]] = []
        """(time, amount) of what comes back, as a heap: soonest first."""

    def expect(self, returns: list[tuple[int, int]], coming: int) -> None:
        """All of this comes back, in this order of times; `coming` is its sum."""
        self.returns, self.coming = returns, coming

    def give_back(self, at: int, amount: int) -> None:
        """So much comes back then."""
        heapq.heappush(self.returns, (at, amount))
        self.coming += amount

    def take(self, amount: int) -> int | None:
        """When this much can be taken, which it then is; None when it never can."""
        returns, now, free, coming = self.returns, self.now, self.free, self.coming
        while returns and returns[0][0] <= now:
            _, back = heapq.heappop(returns)
            free += back
            coming -= back
        # A job that can never have its room does not stand in the way of those that can.
        can_wait = free + coming >= amount
        while can_wait and free < amount:
            now, back = heapq.heappop(returns)
            free += back
            coming -= back
        self.now, self.free, self.coming = now, free - amount if can_wait else free, coming
        return now if can_wait else None


def pool_forecast(
    state: State, pool: str, jobs: Sequence[Job], *, times: RunTimes, now: int
) -> dict[JobId, Start | None]:
    """Expected starts of the pool's waiting jobs that may go, given in their order."""
    free, releases, asks = plan_of(state, pool, jobs, times=times, now=now)
    return simulate(free, releases, asks, now)


def plan_of(
    state: State, pool: str, jobs: Sequence[Job], *, times: RunTimes, now: int
) -> tuple[dict[str, int], list[Release], list[Ask]]:
    """What is free by class, what comes back, and what these waiting jobs ask for, in their order."""
    free, asks = free_and_asks(state, pool, jobs, times=times)
    live = [state.kept.jobs[job] for job in sorted(state.live.get(pool, {}))]
    idle = idle_nodes(state, pool)
    releases = [Release(comes_back(state, job, idle), times.remaining(job, now), job.id) for job in live]
    return free, releases, asks


def free_and_asks(state: State, pool: str, jobs: Sequence[Job], *, times: RunTimes) -> tuple[dict[str, int], list[Ask]]:
    """What is free by class, and what these waiting jobs ask for, in their order."""
    gpus, cpu_milli = free_by_model(state, pool)
    free = {**gpus, CPU: cpu_milli}
    layout = state.room(pool).layout
    largest_card = layout.remember(
        ("largest card",), lambda: max((gpu.memory_mib for node in layout.nodes for gpu in node.gpus), default=1)
    )
    known: dict[int, tuple[tuple[str, ...], int]] = {}
    asks = []
    for job in jobs:
        shape = state.shapes.get(job.id, -job.id)
        if shape not in known:
            known[shape] = _needs(job, tuple(model for model in free if model != CPU), largest_card)
        classes, amount = known[shape]
        asks.append(Ask(job.id, classes, amount, times.whole(job)))
    return free, asks


def limit_forecast(
    state: State, jobs: Sequence[Job], *, times: RunTimes, now: int, claimed: Ledger | None = None
) -> dict[JobId, Start | None]:
    """Expected starts of jobs that limits keep out, in their order: when what the holder uses comes back.

    Only the nearest broken limit is looked at, so a start is a moment before which it will not be. A job that no limit
    keeps out is left out. With a ledger in which claims count, those for whom room is being cleared have theirs first.
    """
    ledger = Ledger(state, now)
    free: dict[str, int] = {}
    watched: dict[str, dict[str, str]] = {}
    asks: list[Ask] = []
    for job in jobs:
        amounts = least_counted(state, ledger, job, job_amounts(job.spec, minimum_sizes(job.spec)))
        broken = next((claimed or ledger).broken(job, amounts), None)
        if broken is not None:
            rung, dimension, _, needed = broken
            name = f"{rung.holder}|{dimension}"
            free[name] = rung.limit[dimension] - ledger.used(rung.holder, dimension)
            watched.setdefault(rung.holder, {})[dimension] = name
            asks.append(Ask(job=job.id, classes=(name,), amount=needed, span=times.whole(job)))
    releases = [_release_of_holders(state, job, watched, times, now) for job in state.live_jobs()] if asks else []
    heirs = list(_heirs(state, watched, times)) if claimed is not None else []
    return simulate(free, releases, heirs + asks, now)


def _heirs(state: State, watched: Mapping[str, Mapping[str, str]], times: RunTimes) -> Iterator[Ask]:
    """What claims will take below the limits watched, in the order in which they were made."""
    for claim in sorted(state.kept.claims.values(), key=lambda claim: (claim.made_ms, claim.job)):
        job = state.kept.jobs[claim.job]
        taken = lowered({**placed_amounts(state, claim.placement.tasks), JOBS: 1})
        for holder in holders(job.spec.group, job.spec.user):
            for dimension, name in watched.get(holder, {}).items():
                if taken.get(dimension):
                    yield Ask(job=job.id, classes=(name,), amount=taken[dimension], span=times.whole(job))


def simulate(
    free: Mapping[str, int], releases: Iterable[Release], asks: Sequence[Ask], now: int
) -> dict[JobId, Start | None]:
    """Starts by list scheduling: every job takes its room as soon as the jobs before it in its class have theirs."""
    releases = list(releases)
    known = [release.span.basis for release in releases if release.span is not None]
    soonest = _run(free, releases, asks, now, lambda span: span.soonest_ms)
    latest = _run(free, releases, asks, now, lambda span: span.latest_ms)
    basis = min(known, default=Basis.LIMIT)
    starts: dict[JobId, Start | None] = {}
    for ask in asks:
        early, late = soonest[ask.job], latest[ask.job]
        starts[ask.job] = None if early is None or late is None else Start(min(early, late), late, basis)
        basis = min(basis, ask.span.basis) if ask.span is not None else basis
    return starts


def _run(
    free: Mapping[str, int], releases: Sequence[Release], asks: Sequence[Ask], now: int, length: Callable[[Span], int]
) -> dict[JobId, int | None]:
    piles = {name: Pile(amount, now) for name, amount in free.items()}
    for release in releases:
        if release.span is not None:
            for name, amount in release.amounts.items():
                if name in piles:
                    piles[name].give_back(now + length(release.span), amount)
    starts: dict[JobId, int | None] = {}
    for ask in asks:
        pile = best_pile(piles, ask)
        start = starts[ask.job] = pile.take(ask.amount) if pile else None
        if pile and start is not None and ask.span is not None:
            pile.give_back(start + length(ask.span), ask.amount)
    return starts


def best_pile(piles: Mapping[str, Pile], ask: Ask) -> Pile | None:
    """The class in which the job gets its room first; among those where it must wait, the one with most free."""
    if len(ask.classes) == 1:
        return piles.get(ask.classes[0])
    open_to = [piles[name] for name in ask.classes if name in piles]
    ready = [pile for pile in open_to if pile.free >= ask.amount]
    if ready:
        return min(ready, key=lambda pile: pile.now)
    return max(open_to, key=lambda pile: pile.free + pile.coming, default=None)


def _needs(job: Job, all_models: tuple[str, ...], largest_card: int) -> tuple[tuple[str, ...], int]:
    """Which classes the job may use, and how much of one it needs."""
    gpu_milli, models = 0, tuple[str, ...]()
    for role in job.spec.roles:
        need = role.resources
        if need.wants_gpu:
            milli = need.gpu_milli or -(-need.gpu_memory_mib * GPU_MILLI // largest_card)
            gpu_milli += smallest_size(role) * milli
            models = models or tuple(model.lower() for model in need.gpu_models)
    if gpu_milli:
        return models or all_models, gpu_milli
    return (CPU,), sum(smallest_size(role) * role.resources.cpu_milli for role in job.spec.roles)


def held_by(state: State, job: Job) -> Held:
    """What a live job gives back when it ends, worked out again only when its tasks or its terms are others."""
    known = state.held.get(job.id)
    if known is None or known.tasks is not job.tasks or known.spec is not job.spec:
        tasks = state.tasks_of(job)
        used, folded = used_by(tasks), dict[str, int]()
        for dimension, amount in used.items():
            count(folded, dimension.lower(), amount)
        known = state.held[job.id] = Held(
            tasks=job.tasks,
            spec=job.spec,
            amounts=_amounts(tasks),
            classes=classes(job.spec),
            used=used,
            folded=folded,
            is_bare=not any(task.gpus or task.cells for task in tasks),
            still=_still(tasks),
        )
    return known


def idle_nodes(state: State, pool: str) -> frozenset[NodeId]:
    """Nodes of the pool that take no work: what ends there comes back to nobody."""
    layout = state.room(pool).layout
    return frozenset(layout.nodes[row].id for row in np.flatnonzero(~layout.works).tolist())


def comes_back(state: State, job: Job, idle: frozenset[NodeId]) -> dict[str, int]:
    """What others may use when a live job ends, by class."""
    tasks = state.tasks_of(job) if idle else ()
    if any(task.node in idle for task in tasks):
        return _amounts(task for task in tasks if task.node not in idle)
    return held_by(state, job).amounts


def _still(tasks: Sequence[Task]) -> tuple[tuple[NodeId, int], ...] | None:
    """Where these tasks work when they do, and on how much CPU; None where some work now."""
    places = [(task.node, task.working.cpu_milli) for task in tasks if task.working is not None]
    return tuple(places) if len(places) == len(tasks) else None


def used_by(tasks: Iterable[Task]) -> dict[str, int]:
    """What these tasks of one job count against quotas, the job itself included."""
    amounts: dict[str, int] = {JOBS: 1}
    for task in tasks:
        add_all(amounts, task_amounts(task).items())
    return amounts


def _amounts(tasks: Iterable[Task]) -> dict[str, int]:
    """What these tasks hold, by class."""
    amounts: dict[str, int] = {CPU: 0}
    for task in tasks:
        amounts[CPU] += task.cpu_milli
        if task.gpu_model:
            model = task.gpu_model.lower()
            amounts[model] = amounts.get(model, 0) + task.gpu_milli
    return amounts


def _release_of_holders(
    state: State, job: Job, watched: Mapping[str, Mapping[str, str]], times: RunTimes, now: int
) -> Release:
    """What the job gives back to the limits watched: by holder and dimension, the name of their class."""
    used = held_by(state, job).folded
    amounts = {
        name: used[dimension]
        for holder in holders(job.spec.group, job.spec.user)
        for dimension, name in watched.get(holder, {}).items()
        if dimension in used
    }
    return Release(amounts=amounts, span=times.remaining(job, now), job=job.id)
