"""What a priority formula may look at: one row per named factor, and how its column is computed for all jobs."""

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from msgspec import Struct

from gangline_core.equal_runs import run_lengths, run_starts
from gangline_core.foresight.past_use import usual_percent
from gangline_core.foresight.predict import predicted_seconds
from gangline_core.groups import user_key
from gangline_core.job import Job
from gangline_core.limits.quota import Ledger, job_amounts, minimum_sizes
from gangline_core.limits.shares import WEIGHT_LEAST, free_by_model, total_gpu_milli, weight_shares
from gangline_core.scoring import columns as c
from gangline_core.scoring.attained import GPU_SECOND, queue_of
from gangline_core.scoring.columns import Ints
from gangline_core.scoring.finish_ratio import remaining_seconds, rho
from gangline_core.scoring.surroundings import interference_beside, load_of_models, measured_of_models
from gangline_core.scoring.waiting import Column, Waiting
from gangline_core.spec import GPU_MILLI, Resources

HOUR_MS = 3_600_000
HOUR_S = 3_600
ATTRIBUTE_PREFIX = "attr_"
IS_TEXT = " == "
"""Stands in the name of a factor between an attribute and the text that it may be."""
NOT_MEASURED_PERCENT = 100.0
"""A job of whose like nothing is known is taken at its word: it uses what it asks for."""


class Table:
    """Columns of a formula, computed when it asks for them."""

    def __init__(self, waiting: Waiting) -> None:
        """Columns of these jobs."""
        self.waiting = waiting
        self.state = waiting.state
        self.ahead_milli: Column = np.zeros(len(waiting))
        """GPU thousandths that each job's group asks for with jobs that go before it."""
        self._columns: dict[str, Column] = {}

    @cached_property
    def total_milli(self) -> int:
        """Thousandths of all GPUs, at least one."""
        return max(1, total_gpu_milli(self.state))

    @cached_property
    def used_milli(self) -> Column:
        """GPU thousandths that each job's group uses now."""
        usage = self.state.usage
        return self.waiting.per_group(lambda path: usage.get(path, {}).get("gpu_milli", 0))

    def column(self, name: str) -> Column:
        """One number per job for a factor or attribute, or whether an attribute is some text."""
        found = self._columns.get(name)
        if found is None:
            factor = FACTORS.get(name)
            found = factor.column(self) if factor else _attribute(self, name.removeprefix(ATTRIBUTE_PREFIX))
            self._columns[name] = found
        return found

    def count_ahead(self, order: Ints) -> None:
        """Let shares count what goes before: `order` lists the rows from first to last."""
        groups, asked = self.waiting.field(c.GROUP)[order], self.waiting.field(c.GPU_MILLI)[order]
        by_group = np.argsort(groups, kind="stable")
        sums = np.cumsum(asked[by_group])
        starts = run_starts(groups[by_group])
        # What stood in the sum before each group began, and the job's own ask, are not ahead of it.
        before = np.repeat((sums - asked[by_group])[starts], run_lengths(starts, len(order)))
        ahead = np.empty(len(order))
        ahead[order[by_group]] = sums - asked[by_group] - before
        self.ahead_milli = ahead
        for name in SHARE_FACTORS:
            self._columns.pop(name, None)


class Factor(Struct, frozen=True):
    """One named factor: what it is, how it is computed, and its least, usual and largest value for trying formulas."""

    doc: str
    column: Callable[[Table], Column]
    probes: tuple[float, float, float] = (0, 1, 10_000)


def probe_values(name: str) -> tuple[float, float, float] | None:
    """Values to try a formula with; None when there is no such factor."""
    if name.startswith(ATTRIBUTE_PREFIX) and name != ATTRIBUTE_PREFIX:
        return (0, 1, 1) if IS_TEXT in name else (0, 1, 1e12)
    factor = FACTORS.get(name)
    return factor.probes if factor else None


def text_factor(attribute: str, text: str) -> str:
    """The name of the factor that is 1 where `attr_<name>` is this text, and 0 elsewhere."""
    return f"{attribute}{IS_TEXT}{text}"


def _user_level(table: Table) -> Column:

    def level(group: str, user: str) -> float:
        known = table.state.user(user_key(group, user))
        return known.level if known else 0

    return table.waiting.per_member(level)


def _group_level(table: Table) -> Column:
    groups = table.state.kept.groups
    return table.waiting.per_group(lambda path: groups[path].level if path in groups else 0)


def _level(table: Table) -> Column:
    levels = table.waiting.pool.pool.levels
    return table.waiting.per_level(lambda name: levels.get(name, 0))


def _age_hours(table: Table) -> Column:
    return np.maximum(table.waiting.now - table.waiting.since, 0) / HOUR_MS


def _share_used(table: Table) -> Column:
    """The group's live share of all GPUs, its own jobs that go before this one included."""
    return (table.used_milli + table.ahead_milli) / table.total_milli


def _weight_share(table: Table) -> Column:
    shares = weight_shares(table.state)
    return table.waiting.per_group(lambda path: max(WEIGHT_LEAST, shares.get(path, 1.0)))


def _past_share(table: Table) -> Column:
    """The group's part of what all groups used lately."""
    pool, now = table.waiting.pool, table.waiting.now
    rates = table.state.rates.get(pool.pool.name, {})
    total = max(1, pool.past.used("", rates.get("", 0), now))
    return table.waiting.per_group(lambda path: pool.past.used(path, rates.get(path, 0), now) / total)


def _within_guarantee(table: Table) -> Column:
    ledger = Ledger(table.state)

    def within(job: Job) -> float:
        return float(ledger.within_guarantee(job, job_amounts(job.spec, minimum_sizes(job.spec))))

    return table.waiting.per(c.SHAPE, within)


def _free_fraction(table: Table) -> Column:
    free_gpu, free_cpu = free_by_model(table.state, table.waiting.pool.pool.name)
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

    return table.waiting.per(c.ASK, fraction)


def _predicted_hours(table: Table) -> Column:
    return predicted_seconds(table.waiting) / HOUR_S


def _usual_gpu_percent(table: Table) -> Column:
    history = table.state.kept.use_history

    def value(job: Job) -> float:
        percent = usual_percent(history, job.spec) if history else -1
        return float(percent) if percent >= 0 else NOT_MEASURED_PERCENT

    return table.waiting.each(value)


def _attribute(table: Table, name: str) -> Column:
    """An attribute as a number, or 1 where it is the text behind its name."""
    attribute, of_text, text = name.partition(IS_TEXT)

    def value(job: Job) -> float:
        found = job.spec.attributes.get(attribute, 0)
        if of_text:
            return float(found == text)
        return 0.0 if isinstance(found, str) else float(found)

    return table.waiting.each(value)


def _field(field: int, unit: int = 1) -> Callable[[Table], Column]:
    return lambda table: table.waiting.field(field) / unit


def _queue(table: Table) -> Column:
    policy = table.waiting.policy
    return np.array([queue_of(service, policy) for service in table.waiting.field(c.ATTAINED).tolist()], dtype=float)


FACTORS: dict[str, Factor] = {
    "level": Factor("what the job's queue level adds", _level, (-1_000, 0, 1_000_000)),
    "priority": Factor("the job's own priority", _field(c.PRIORITY), (-1_000_000, 0, 1_000_000)),
    "user_level": Factor("the user's level, set by the administrator", _user_level, (-1_000, 0, 1_000_000)),
    "group_level": Factor("the group's level, set by the administrator", _group_level, (-1_000, 0, 1_000_000)),
    "service_class": Factor("0 opportunistic, 1 burstable, 2 guaranteed", _field(c.CLASS), (0, 1, 2)),
    "gpus": Factor("GPUs asked for at start", _field(c.GPU_MILLI, GPU_MILLI), (0, 1, 100_000)),
    "tasks": Factor("tasks asked for at start", _field(c.TASKS), (1, 1, 100_000)),
    "cpus": Factor("CPUs asked for at start", _field(c.CPU_MILLI, 1000), (0, 1, 1_000_000)),
    "memory_gib": Factor("memory asked for at start", _field(c.MEMORY_MIB, 1024), (0, 1, 10_000_000)),
    "estimate_hours": Factor(
        "the user's estimate of the run time, or else the time limit; 0 when neither is given",
        lambda t: (
            np.where(t.waiting.field(c.ESTIMATE_S) > 0, t.waiting.field(c.ESTIMATE_S), t.waiting.field(c.LIMIT_S))
            / HOUR_S
        ),
    ),
    "time_limit_hours": Factor("the time limit; 0 when there is none", _field(c.LIMIT_S, HOUR_S)),
    "predicted_hours": Factor(
        "the run time that earlier jobs like it suggest, else the estimate, else the time limit, else the pool's usual",
        _predicted_hours,
    ),
    "predicted_gpu_hours": Factor(
        "predicted_hours times the GPUs asked for",
        lambda t: t.column("predicted_hours") * t.column("gpus"),
        (0, 1, 1_000_000),
    ),
    "usual_gpu_percent": Factor(
        "how busy the user's last jobs like it kept their GPUs, by what was measured; 100 where nothing was",
        _usual_gpu_percent,
        (0, 50, 100),
    ),
    "remaining_hours": Factor(
        "what is left of the predicted run time after the service that the job has had",
        lambda t: remaining_seconds(t.waiting) / HOUR_S,
    ),
    "remaining_gpu_hours": Factor(
        "remaining_hours times the GPUs asked for",
        lambda t: t.column("remaining_hours") * t.column("gpus"),
        (0, 1, 1_000_000),
    ),
    "rho": Factor(
        "the predicted time from submission to end over that alone on an equal part of the pool: above 1 is late",
        lambda t: rho(t.waiting),
    ),
    "age_hours": Factor(
        "how long the job has been ready and waiting, earlier waits included", _age_hours, (0, 1, 100_000)
    ),
    "attempts": Factor("how often the job has been placed before", _field(c.ATTEMPT)),
    "preemptions": Factor("how often the job was preempted", _field(c.PREEMPTIONS)),
    "attained_gpu_hours": Factor(
        "GPU-hours that the job's earlier runs had", _field(c.ATTAINED, GPU_SECOND * HOUR_S), (0, 1, 1_000_000)
    ),
    "service_queue": Factor("0, 1, ...: how many of the policy's service thresholds it has passed", _queue, (0, 0, 64)),
    "share_used": Factor(
        "the part of all GPUs (0 to 1) that the group uses, its own jobs that go before this one included",
        _share_used,
        (0, 0.1, 1_000),
    ),
    "weight_share": Factor(
        "the part of all GPUs (0 to 1) that the group's weight gives it", _weight_share, (WEIGHT_LEAST, 0.1, 1)
    ),
    "share_over_weight": Factor(
        "share_used divided by weight_share: above 1 the group has more than its part",
        lambda t: t.column("share_used") / t.column("weight_share"),
        (0, 1, 1_000_000),
    ),
    "past_share": Factor(
        "the group's part (0 to 1) of what the pool's groups used lately, halved every half-life",
        _past_share,
        (0, 0.1, 1),
    ),
    "past_share_over_weight": Factor(
        "past_share divided by weight_share: above 1 the group has had more than its part",
        lambda t: t.column("past_share") / t.column("weight_share"),
        (0, 1, 1_000_000),
    ),
    "within_guarantee": Factor(
        "1 when the group stays within its guarantee with this job, else 0", _within_guarantee, (0, 1, 1)
    ),
    "free_fraction": Factor("the part (0 to 1) of what it asks for that is free now", _free_fraction, (0, 0.5, 1)),
    "load": Factor(
        "how busy (0 to 1) the GPUs it could use are, on average: as measured in the last 300 s, "
        "or else as their tasks asked for, which the term then says",
        lambda t: load_of_models(t.waiting),
        (0, 0.5, 1),
    ),
    "load_measured": Factor(
        "the part (0 to 1) of the GPUs it could use whose load was measured in the last 300 s",
        lambda t: measured_of_models(t.waiting),
        (0, 0.5, 1),
    ),
    "interference": Factor(
        "mean attribute `interference` of the jobs that run where it could go beside them, by GPUs; 0 of none",
        lambda t: interference_beside(t.waiting),
        (0, 1, 1_000),
    ),
}
"""Every factor; `attr_<name>` besides is the job's attribute of that name when it is a number, and 0 otherwise."""

SHARE_FACTORS = ("share_used", "share_over_weight")
"""Factors that depend on which jobs go before."""


def uses_shares(names: Iterable[str]) -> bool:
    """True when any of these factors depends on which jobs go before."""
    return any(name in SHARE_FACTORS for name in names)
