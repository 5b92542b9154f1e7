"""What is wrong with a policy? Every field of it, checked when it is set, before any round meets it."""

from collections.abc import Iterator

from gangline_core.cluster import Policy, Pool
from gangline_core.elasticity import POLICIES
from gangline_core.foresight.learnt import ModelError, unpacked
from gangline_core.foresight.predict import LEARNT, PREDICTORS
from gangline_core.ordering import ORDERINGS
from gangline_core.ordering.gavel import OBJECTIVES
from gangline_core.parsync import Preference, Sync
from gangline_core.placement import PLACERS
from gangline_core.scoring.formula import FormulaError, compile_formula
from gangline_core.settings.amounts import Problem, range_problem
from gangline_core.sharing.rules import sharing_problem

CANDIDATES_MAX = 100_000
TIME_S_MAX = 366 * 86_400
THRESHOLDS_MAX = 16
GPU_S_MAX = 10**12
BACKFILL_DEPTH_MAX = 64
PERCENT_MAX = 10_000
NODE_TASKS_MAX = 100_000
SCHEDULERS_MAX = 32
PARTITIONS_MAX = 256

_RANGES = {
    "starvation_s": (0, TIME_S_MAX),
    "starvation_percent": (1, 100),
    "candidates_max": (1, CANDIDATES_MAX),
    "candidates_per_shape": (1, CANDIDATES_MAX),
    "start_limit_s": (0, TIME_S_MAX),
    "elastic_interval_s": (1, TIME_S_MAX),
    "min_utilisation_s": (1, TIME_S_MAX),
    "time_slice_s": (0, TIME_S_MAX),
    "min_utilisation_percent": (0, 100),
    "half_life_s": (0, 100 * TIME_S_MAX),
    "promote_after": (0, 1_000_000),
    "backfill_depth": (0, BACKFILL_DEPTH_MAX),
    "unlimited_run_percent": (0, PERCENT_MAX),
    "postpone_percent": (0, 100),
    "node_tasks_max": (1, NODE_TASKS_MAX),
    "lease_s": (0, TIME_S_MAX),
    "schedulers": (1, SCHEDULERS_MAX),
    "scheduler_partitions": (1, PARTITIONS_MAX),
    "scheduler_delay_s": (0, TIME_S_MAX),
}
"""Whole numbers of a policy and their bounds."""


def policy_problem(policy: Policy, pool: Pool | None = None) -> Problem | None:
    """The first thing that is wrong with a policy, for this pool if it is known; None when nothing is."""
    return next(policy_problems(policy, pool), None)


def policy_problems(policy: Policy, pool: Pool | None = None) -> Iterator[Problem]:
    """Everything that is wrong with a policy, each field by itself."""
    named = (
        ("ordering", ORDERINGS),
        ("elastic", POLICIES),
        ("placement", PLACERS),
        ("objective", OBJECTIVES),
        ("predictor", PREDICTORS),
        ("scheduler_preference", tuple(Preference)),
        ("scheduler_sync", tuple(Sync)),
    )
    for field, known in named:
        value = getattr(policy, field)
        if value not in known:
            yield Problem("invalid", f"{value!r} is none of {', '.join(sorted(known))}", field)
    try:
        compile_formula(policy.formula)
    except FormulaError as error:
        yield Problem("invalid", str(error), "formula")
    if policy.model or policy.predictor == LEARNT:
        try:
            unpacked(policy.model)
        except ModelError as error:
            yield Problem("invalid", f"{error}; make one with gangline lab train", "model")
    bounded = (range_problem(field, getattr(policy, field), *bounds) for field, bounds in _RANGES.items())
    others = (
        _thresholds_problem(policy),
        _levels_problem(policy, pool),
        _schedulers_problem(policy, pool),
        sharing_problem(policy, pool),
    )
    yield from (problem for problem in (*bounded, *others) if problem is not None)


def _schedulers_problem(policy: Policy, pool: Pool | None) -> Problem | None:
    """Why several schedulers cannot serve the pool: what one of them gives must not depend on what others give."""
    if policy.schedulers == 1:
        return None
    if policy.lease_s:
        return Problem("conflict", "room that is lent in one order needs one scheduler (lease_s is set)", "schedulers")
    if pool is not None and (pool.cells or pool.pinned):
        return Problem("conflict", "the pool owes cells to groups, which one scheduler has to keep", "schedulers")
    return None


def _thresholds_problem(policy: Policy) -> Problem | None:
    bounds = policy.service_thresholds
    if len(bounds) > THRESHOLDS_MAX or any(not 0 < bound <= GPU_S_MAX for bound in bounds):
        message = f"must be at most {THRESHOLDS_MAX} numbers of GPU-seconds from 1 to {GPU_S_MAX}"
        return Problem("invalid", message, "service_thresholds")
    if list(bounds) != sorted(set(bounds)):
        return Problem("invalid", "must ascend, each number once", "service_thresholds")
    return None


def _levels_problem(policy: Policy, pool: Pool | None) -> Problem | None:
    for level, rule in sorted(policy.levels.items()):
        field = f"levels.{level}"
        if pool is not None and level not in pool.levels:
            return Problem(
                "invalid", f"the pool has no level {level!r}; it has {', '.join(sorted(pool.levels))}", field
            )
        if rule.to and pool is not None and rule.to not in pool.levels:
            return Problem("invalid", f"moves jobs to {rule.to!r}, which the pool does not have", f"{field}.to")
        if rule.to == level:
            return Problem("invalid", "moves jobs to itself", f"{field}.to")
        if rule.to and not (rule.after_gpu_s or rule.after_wait_s):
            return Problem("invalid", "says where jobs move but not when: after_gpu_s or after_wait_s", f"{field}.to")
        for name in ("head_wait_s", "after_wait_s", "after_gpu_s"):
            most = GPU_S_MAX if name == "after_gpu_s" else TIME_S_MAX
            problem = range_problem(f"{field}.{name}", getattr(rule, name), 0, most)
            if problem is not None:
                return problem
    return None
