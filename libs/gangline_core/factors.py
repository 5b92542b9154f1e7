"""What a priority formula may look at: one row per named factor, and how its column is computed for all jobs."""

from collections.abc import Callable, Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.ageing import waiting_since_ms
from gangline_core.groups import ROOT, user_key
from gangline_core.job import Job
from gangline_core.quota import Ledger, job_amounts, minimum_sizes
from gangline_core.spec import GPU_MILLI, Resources, ServiceClass, gpu_milli_wanted, task_count
from gangline_core.state import PoolState, State

Column = NDArray[np.float64]
HOUR_MS = 3_600_000
HOUR_S = 3_600
ATTRIBUTE_PREFIX = "attr_"
_CLASS_RANK = {ServiceClass.OPPORTUNISTIC: 0.0, ServiceClass.BURSTABLE: 1.0, ServiceClass.GUARANTEED: 2.0}
_WEIGHT_LEAST = 1e-6
"""Share of a group whose weight is 0."""


class Table:
    """The waiting jobs as rows; columns are computed when a formula asks for them."""

    def __init__(self, state: State, pool: PoolState, jobs: list[Job], *, now: int) -> None:
        """A table of these jobs of the pool at time `now`."""
        self.state = state
        self.pool = pool
        self.jobs = jobs
        self.now = now
        self.ahead_milli: Column = np.zeros(len(jobs))
        """GPU thousandths that each job's group asks for with jobs that go before it."""
        self._columns: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """One number per job for a factor or attribute."""
        found = self._columns.get(name)
        if found is None:
            factor = FACTORS.get(name)
            found = factor.column(self) if factor else _attribute(self, name.removeprefix(ATTRIBUTE_PREFIX))
            self._columns[name] = found
        return found

    def count_ahead(self, order: NDArray[np.int64]) -> None:
        """Let shares count what goes before: `order` lists the rows from first to last."""
        seen: dict[str, float] = {}
        asked = self.column("gpus") * GPU_MILLI
        ahead = np.zeros(len(self.jobs))
        for row in order.tolist():
            group = self.jobs[row].spec.group
            ahead[row] = seen.get(group, 0.0)
            seen[group] = ahead[row] + asked[row]
        self.ahead_milli = ahead
        for name in SHARE_FACTORS:
            self._columns.pop(name, None)

    def each(self, value: Callable[[Job], float]) -> Column:
        """A column by a function of the job."""
        return np.fromiter((value(job) for job in self.jobs), dtype=np.float64, count=len(self.jobs))


class Factor(Struct, frozen=True):
    """One named factor: what it is, how it is computed, and its least, usual and largest value for trying formulas."""

    doc: str
    column: Callable[[Table], Column]
    probes: tuple[float, float, float] = (0, 1, 10_000)


def probe_values(name: str) -> tuple[float, float, float] | None:
    """Values to try a formula with; None when there is no such factor."""
    if name.startswith(ATTRIBUTE_PREFIX) and name != ATTRIBUTE_PREFIX:
        return (0, 1, 1e12)
    factor = FACTORS.get(name)
    return factor.probes if factor else None


def _user_level(table: Table) -> Column:
    users = table.state.kept.users

    def level(job: Job) -> float:
        user = users.get(user_key(job.spec.group, job.spec.user))
        return user.level if user else 0

    return table.each(level)


def _group_level(table: Table) -> Column:
    levels = {path: group.level for path, group in table.state.kept.groups.items()}
    return table.each(lambda job: levels.get(job.spec.group, 0))


def _level(table: Table) -> Column:
    levels = table.pool.pool.levels
    return table.each(lambda job: levels.get(job.spec.level, 0))


def _age_hours(table: Table) -> Column:
    waited = np.maximum(table.now - waiting_since_ms(table.state, table.jobs), 0)
    return waited / HOUR_MS


def _share_used(table: Table) -> Column:
    """The group's live share of all GPUs, its own jobs that go before this one included."""
    total = max(1, total_gpu_milli(table.state))
    usage = table.state.usage
    used = table.each(lambda job: usage.get(job.spec.group, {}).get("gpu_milli", 0))
    return (used + table.ahead_milli) / total


def _weight_share(table: Table) -> Column:
    shares = weight_shares(table.state)
    return table.each(lambda job: shares.get(job.spec.group, 1.0))


def _within_guarantee(table: Table) -> Column:
    ledger, known, shapes = Ledger(table.state), dict[int, float](), table.state.shapes

    def within(job: Job) -> float:
        shape = shapes.get(job.id, -job.id)
        if shape not in known:
            known[shape] = float(ledger.within_guarantee(job, job_amounts(job.spec, minimum_sizes(job.spec))))
        return known[shape]

    return table.each(within)


def _free_fraction(table: Table) -> Column:
    free_gpu, free_cpu = free_by_model(table.state, table.pool.pool.name)
    total_free, by_models = sum(free_gpu.values()), dict[tuple[str, ...], int]()

    def free_for(wanted: Resources) -> int:
        models = wanted.gpu_models
        if not models:
            return total_free
        if models not in by_models:
            by_models[models] = sum(free_gpu.get(model, 0) for model in {one.lower() for one in models})
        return by_models[models]

    def fraction(job: Job) -> float:
        wants = [role for role in job.spec.roles if role.resources.gpu_milli]
        if not wants:
            asked = sum(role.count * role.resources.cpu_milli for role in job.spec.roles)
            return min(1.0, free_cpu / asked) if asked else 1.0
        return min(min(1.0, free_for(r.resources) / (r.count * r.resources.gpu_milli)) for r in wants)

    return table.each(fraction)


def _attribute(table: Table, name: str) -> Column:
    def value(job: Job) -> float:
        found = job.spec.attributes.get(name, 0)
        return 0.0 if isinstance(found, str) else float(found)

    return table.each(value)


def total_gpu_milli(state: State) -> int:
    """Thousandths of all GPUs of all machines, whatever their condition."""
    return GPU_MILLI * sum(len(node.gpus) for node in state.kept.nodes.values())


def weight_shares(state: State) -> dict[str, float]:
    """What each group deserves of everything: its weight among its siblings, times what its parent deserves."""
    groups = state.kept.groups
    sums: dict[str, int] = {}
    for path, group in groups.items():
        if path != ROOT:
            parent = path.rpartition("/")[0]
            sums[parent] = sums.get(parent, 0) + group.weight
    shares = {ROOT: 1.0}
    for path in sorted(groups, key=lambda one: (one.count("/"), one)):
        if path != ROOT:
            parent = path.rpartition("/")[0]
            own = groups[path].weight / sums[parent] if sums[parent] else 1.0
            shares[path] = max(_WEIGHT_LEAST, own * shares.get(parent, 1.0))
    return shares


def free_by_model(state: State, pool: str) -> tuple[dict[str, int], int]:
    """Free GPU thousandths by model (lower case) and free cpu_milli on the pool's nodes that take work."""
    room = state.room(pool)
    layout, works = room.layout, room.layout.works
    gpus: dict[str, int] = {}
    for number, kind in enumerate(layout.kinds):
        milli = int(room.milli[(layout.kind == number) & works[:, None]].clip(min=0).sum())
        gpus[kind.model] = gpus.get(kind.model, 0) + milli
    return gpus, int(room.cpu[works].clip(min=0).sum())


def _sum_over_roles(amount: Callable[[Resources], int], unit: int) -> Callable[[Table], Column]:
    def column(table: Table) -> Column:
        return table.each(lambda job: sum(role.count * amount(role.resources) for role in job.spec.roles) / unit)

    return column


FACTORS: dict[str, Factor] = {
    "level": Factor("what the job's queue level adds", _level, (-1_000, 0, 1_000_000)),
    "priority": Factor(
        "the job's own priority", lambda t: t.each(lambda j: j.spec.priority), (-1_000_000, 0, 1_000_000)
    ),
    "user_level": Factor("the user's level, set by the administrator", _user_level, (-1_000, 0, 1_000_000)),
    "group_level": Factor("the group's level, set by the administrator", _group_level, (-1_000, 0, 1_000_000)),
    "service_class": Factor(
        "0 opportunistic, 1 burstable, 2 guaranteed",
        lambda t: t.each(lambda j: _CLASS_RANK[j.spec.service_class]),
        (0, 1, 2),
    ),
    "gpus": Factor(
        "GPUs asked for at start", lambda t: t.each(lambda j: gpu_milli_wanted(j.spec)) / GPU_MILLI, (0, 1, 100_000)
    ),
    "tasks": Factor("tasks asked for at start", lambda t: t.each(lambda j: task_count(j.spec)), (1, 1, 100_000)),
    "cpus": Factor("CPUs asked for at start", _sum_over_roles(lambda r: r.cpu_milli, 1000), (0, 1, 1_000_000)),
    "memory_gib": Factor(
        "memory asked for at start", _sum_over_roles(lambda r: r.memory_mib, 1024), (0, 1, 10_000_000)
    ),
    "estimate_hours": Factor(
        "the user's estimate of the run time, or else the time limit; 0 when neither is given",
        lambda t: t.each(lambda j: (j.spec.estimate_s or j.spec.time_limit_s) / HOUR_S),
    ),
    "time_limit_hours": Factor(
        "the time limit; 0 when there is none", lambda t: t.each(lambda j: j.spec.time_limit_s / HOUR_S)
    ),
    "age_hours": Factor(
        "how long the job has been ready and waiting, earlier waits included", _age_hours, (0, 1, 100_000)
    ),
    "attempts": Factor("how often the job has been placed before", lambda t: t.each(lambda j: j.attempt)),
    "preemptions": Factor("how often the job was preempted", lambda t: t.each(lambda j: j.preemptions)),
    "share_used": Factor(
        "the part of all GPUs (0 to 1) that the group uses, its own jobs that go before this one included",
        _share_used,
        (0, 0.1, 1_000),
    ),
    "weight_share": Factor(
        "the part of all GPUs (0 to 1) that the group's weight gives it", _weight_share, (_WEIGHT_LEAST, 0.1, 1)
    ),
    "share_over_weight": Factor(
        "share_used divided by weight_share: above 1 the group has more than its part",
        lambda t: t.column("share_used") / t.column("weight_share"),
        (0, 1, 1_000_000),
    ),
    "within_guarantee": Factor(
        "1 when the group stays within its guarantee with this job, else 0", _within_guarantee, (0, 1, 1)
    ),
    "free_fraction": Factor("the part (0 to 1) of what it asks for that is free now", _free_fraction, (0, 0.5, 1)),
}
"""Every factor; `attr_<name>` besides is the job's attribute of that name when it is a number, and 0 otherwise."""

SHARE_FACTORS = ("share_used", "share_over_weight")
"""Factors that depend on which jobs go before."""


def uses_shares(names: Iterable[str]) -> bool:
    """True when any of these factors depends on which jobs go before."""
    return any(name in SHARE_FACTORS for name in names)
