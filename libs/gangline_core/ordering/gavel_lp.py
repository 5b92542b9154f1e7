"""Gavel's linear programs (OSDI 2020, sections 3 and 4): the part of its time each job should spend on each GPU model.

X[m, j] in [0, 1] is the part of wall time that job m spends on model j, with sum_j X[m, j] <= 1 and, per model,
sum_m GPUs_m X[m, j] <= GPUs_j. Jobs that are equal in everything are one row with a count, which changes nothing in the
optimum (all objectives are concave and symmetric) and much in the size. Solved by HiGHS through scipy.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS_MAX = 4
"""Water is filled in so many steps; what is left after them goes where most of it helps."""
AIMS_MAX = 16
"""Steps of the search for the best finish-time fairness; two or three are usual."""
CLOSE = 1e-6
"""A ratio of finish times this near to the best is the best."""
EDGE = 1e-7
"""Values closer than this are equal."""
HALVES = 60
"""Halvings of an interval, which is as narrow then as numbers can tell."""
TINY = 1e-300
"""Keeps from dividing by nothing where nothing is needed."""


class Problem(Struct, frozen=True):
    """Rows of equal jobs and columns of GPU models."""

    speeds: Floats
    """Rows x models: how fast one job of the row is on a model, 0 where it cannot run."""
    gpus: Floats
    """Per row: GPUs of one job."""
    counts: Floats
    """Per row: how many such jobs there are."""
    weights: Floats
    """Per row: the weight of one job."""
    steps: Floats
    """Per row: what is left to do, in units of speed times seconds."""
    elapsed: Floats
    """Per row: seconds since the job came."""
    ranks: Floats
    """Per row: how early the job came; larger is earlier."""
    capacity: Floats
    """Per model: GPUs there are."""
    prices: Floats
    """Per model: what a GPU costs."""
    done: Floats
    """Per row: what is done already, in the same units as `steps`."""

    @property
    def jobs(self) -> float:
        """How many jobs there are in all."""
        return float(self.counts.sum())

    def equal_speeds(self) -> Floats:
        """Per row: the speed when every job had the same part of every model."""
        part = self.capacity / self.jobs
        return self.speeds @ (part / max(1.0, float(part.sum())))

    def isolated(self) -> Floats:
        """The allocation in which every job has the same part of the GPUs of every model for itself alone."""
        parts: Floats = (self.capacity / self.jobs)[None, :] / np.maximum(self.gpus, EDGE)[:, None]
        found: Floats = parts / np.maximum(1.0, parts.sum(axis=1))[:, None] * (self.speeds > 0)
        return found

    def reached(self, allocation: Floats) -> Floats:
        """Per row: the speed under an allocation, never quite nothing."""
        found: Floats = np.maximum((self.speeds * allocation).sum(axis=1), EDGE)
        return found


def max_min(problem: Problem) -> Floats:
    """The least of all normalised speeds is as large as can be, then the next least, and so on (water filling)."""
    scale = problem.gpus / problem.weights / np.maximum(problem.equal_speeds(), EDGE)
    return _fill(problem, problem.speeds * scale[:, None])


def max_min_only(problem: Problem) -> Floats:
    """The least of all normalised speeds is as large as can be; nothing is said of the others (section 4.1)."""
    scale = problem.gpus / problem.weights / np.maximum(problem.equal_speeds(), EDGE)
    value = problem.speeds * scale[:, None]
    found = _level(problem, value, is_open=value.max(axis=1) > 0, floors=np.zeros(len(value)))
    return np.zeros_like(value) if found is None else found.allocation


def makespan(problem: Problem) -> Floats:
    """All jobs end as early as the last of them can."""
    return _fill(problem, problem.speeds / np.maximum(problem.steps, EDGE)[:, None])


def finish_time(problem: Problem) -> Floats:
    """The worst finish time, compared with that on a part of the cluster of one's own, is as good as can be.

    The time on such a part is that of all of the job's work, of what is done as of what is left (section 4.2).
    Newton's search from below, as Dinkelbach's (1967) on the dual side: aim at a ratio, at first that of such parts,
    and raise the least part of the speed that anybody would need for it. The allocation reaches a ratio; the program's
    multipliers prove another one below which none can be. That is aimed at next, until both meet.
    """
    can_run = problem.speeds.max(axis=1) > 0
    best = problem.isolated()
    alone = np.maximum((problem.done + problem.steps) / problem.reached(best), EDGE)
    aim = least = _worst(problem, best, alone)
    fastest = np.where(can_run, problem.speeds.max(axis=1), 1.0)
    low = float(((problem.elapsed + problem.steps / fastest) / alone).max(where=can_run, initial=0.0))
    for _ in range(AIMS_MAX):
        found = _level(problem, _towards(problem, aim, alone), is_open=can_run, floors=np.zeros(len(alone)))
        if found is None:
            break
        if (worst := _worst(problem, found.allocation, alone)) < least:
            best, least = found.allocation, worst
        aim, before = max(low, _none_below(problem, aim, alone, found=found, most=least)), aim
        if least <= aim * (1 + CLOSE) or aim == before:
            break
    # Whoever nothing helps any more holds the ratio down alone; the others still have as much more as can be.
    filled = _fill(problem, _towards(problem, least, alone))
    return filled if _worst(problem, filled, alone) <= least * (1 + CLOSE) else best


def _none_below(problem: Problem, aim: float, alone: Floats, *, found: "Level", most: float) -> float:
    """No allocation reaches a ratio below this: the multipliers of the program for `aim` prove it.

    They weigh the rows so that no allocation gives them more than the level in all. With what the rows need for another
    ratio it is the same weights, each times the need for that one over the need for this one.
    """
    needs = problem.steps / np.maximum(aim * alone - problem.elapsed, EDGE)
    low, high = (0.0, aim) if found.level >= 1 else (aim, max(aim, most))
    for _ in range(HALVES):
        middle = (low + high) / 2
        asked = problem.steps / np.maximum(middle * alone - problem.elapsed, EDGE)
        if float((found.holds * asked / np.maximum(needs, TINY)).sum()) > found.level:
            low = middle
        else:
            high = middle
    return low


def _towards(problem: Problem, ratio: float, alone: Floats) -> Floats:
    """Speeds as parts of the one with which a job would end in so many times its time alone."""
    wanted = problem.steps / np.maximum(ratio * alone - problem.elapsed, EDGE)
    return problem.speeds / wanted[:, None]


def _worst(problem: Problem, allocation: Floats, alone: Floats) -> float:
    """The worst finish time under an allocation over that alone, of those who can run at all."""
    ratios = (problem.elapsed + problem.steps / problem.reached(allocation)) / alone
    return float(ratios.max(where=problem.speeds.max(axis=1) > 0, initial=0.0))


def throughput(problem: Problem) -> Floats:
    """As many steps as can be, whoever does them."""
    return _most(problem, problem.speeds)


def equal_time(problem: Problem) -> Floats:
    """Everybody the same part of the time on every model (Gandiva-fair's lottery without its trades)."""
    part = problem.capacity / problem.jobs
    return np.tile(part / max(1.0, float(part.sum())), (len(problem.gpus), 1)) * (problem.speeds > 0)


def fifo(problem: Problem) -> Floats:
    """Speed, compared with the best, counts more for those who came earlier."""
    best = np.maximum(problem.speeds.max(axis=1), EDGE)
    return _most(problem, problem.speeds / best[:, None] * problem.ranks[:, None])


def cost(problem: Problem) -> Floats:
    """As much normalised speed per price as can be, at a full cluster's time: Charnes and Cooper's linear form."""
    best = np.maximum(problem.speeds.max(axis=1), EDGE)
    rows, models = problem.speeds.shape
    gain = (problem.speeds / best[:, None] * problem.counts[:, None]).ravel()
    paid = (problem.gpus * problem.counts)[:, None] * problem.prices[None, :]
    limits, bounds = _limits(problem)
    # Y = X * t with price(Y) = 1: every limit b becomes b * t.
    solved = _solve(
        -np.append(gain, 0.0),
        upper=(_beside(limits, -bounds[:, None]), np.zeros(len(bounds))),
        equal=(np.append(paid.ravel(), 0.0)[None, :], np.ones(1)),
    )
    if solved is None or solved.x[-1] <= EDGE:
        return np.zeros_like(problem.speeds)
    return np.asarray(solved.x[:-1] / solved.x[-1]).reshape(rows, models)


# --- inside -------------------------------------------------------------------------------------------------


def _fill(problem: Problem, value: Floats) -> Floats:
    """Raise the least value as far as it goes; those that hold it there are full; raise the others on."""
    base = np.zeros(len(value))
    is_open = value.max(axis=1) > 0
    allocation = np.zeros_like(value)
    for _ in range(LEVELS_MAX):
        if not is_open.any():
            return allocation
        found = _level(problem, value, is_open=is_open, floors=base)
        if found is None:
            return allocation
        allocation = found.allocation
        base[is_open] = found.level * (1 - EDGE)
        full = is_open & (found.holds > EDGE)
        is_open &= ~(full if full.any() else is_open)
    return _most(problem, value, floors=base)


class Level(Struct, frozen=True):
    """How far the least value of the open rows can be raised."""

    level: float
    allocation: Floats
    holds: Floats
    """How much each row holds the others down; all of them together 1."""


def _level(problem: Problem, value: Floats, *, is_open: NDArray[np.bool_], floors: Floats) -> Level | None:
    """The largest common level of all open rows; the others keep their floors."""
    rows, models = value.shape
    limits, bounds = _limits(problem)
    # One more variable: the common level, to be as large as can be.
    at_least = _beside(-_row_matrix(value), is_open.astype(np.float64)[:, None])
    solved = _solve(
        np.append(np.zeros(rows * models), -1.0),
        upper=(
            _above(_beside(limits, np.zeros((len(bounds), 1))), at_least),
            np.append(bounds, -np.where(is_open, 0.0, floors)),
        ),
    )
    if solved is None:
        return None
    return Level(
        level=float(solved.x[-1]),
        allocation=np.asarray(solved.x[:-1]).reshape(rows, models),
        holds=-np.asarray(solved.ineqlin.marginals)[len(bounds) :],
    )


def _most(problem: Problem, value: Floats, *, floors: Floats | None = None) -> Floats:
    """The largest sum of values, no row below its floor."""
    rows, models = value.shape
    limits, bounds = _limits(problem)
    if floors is not None:
        limits, bounds = _above(limits, -_row_matrix(value)), np.append(bounds, -floors)
    solved = _solve(-(value * problem.counts[:, None]).ravel(), upper=(limits, bounds))
    return np.zeros((rows, models)) if solved is None else np.asarray(solved.x).reshape(rows, models)


def _limits(problem: Problem) -> tuple[Any, Floats]:
    """Nobody has more than all of its time, and no model more GPUs than there are; as (matrix, bounds)."""
    sparse = _sparse()
    rows, models = problem.speeds.shape
    times = sparse.kron(sparse.eye(rows), np.ones((1, models)), format="csr")
    taken = sparse.kron((problem.gpus * problem.counts)[None, :], sparse.eye(models), format="csr")
    return sparse.vstack([times, taken], format="csr"), np.concatenate([np.ones(rows), problem.capacity])


def _row_matrix(value: Floats) -> Any:
    """Per row the sum of its values times its variables."""
    sparse = _sparse()
    rows, models = value.shape
    columns = np.arange(rows * models)
    return sparse.csr_matrix((value.ravel(), (columns // models, columns)), shape=(rows, rows * models))


def _beside(left: Any, right: Any) -> Any:
    sparse = _sparse()
    return sparse.hstack([left, sparse.csr_matrix(right)], format="csr")


def _above(top: Any, bottom: Any) -> Any:
    sparse = _sparse()
    return sparse.vstack([top, bottom], format="csr")


def _solve(costs: Floats, *, upper: tuple[Any, Floats], equal: tuple[Any, Floats] | None = None) -> Any:
    """The solver's answer; None when there is no solution. Steps are limited, never time, so answers repeat."""
    from scipy.optimize import linprog  # type: ignore[import-untyped]  # no hints; heavy

    solved = linprog(
        costs,
        A_ub=upper[0],
        b_ub=upper[1],
        A_eq=equal[0] if equal else None,
        b_eq=equal[1] if equal else None,
        bounds=(0, None),
        method="highs",
        options={"maxiter": 1_000_000},
    )
    return solved if solved.status == 0 else None


def _sparse() -> Any:
    from scipy import sparse  # type: ignore[import-untyped]  # no hints; heavy

    return sparse
