"""Sia: one configuration (GPU type and number) per job, chosen for all jobs at once by an integer program.

Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP 2023, section 3.4.
With G the goodput of job i in configuration c, each row divided by its least value and multiplied by the restart factor
r_i = (T_i - N_i S_i) / (T_i + S_i) wherever it differs from the present one, and p = -0.5, the program is

    minimise   sum_ic A_ic (r_i G_ic)^p + LAMBDA sum_i (1 - sum_c A_ic)
    so that    sum_c A_ic <= 1,   sum_ic A_ic gpus_c <= capacity of each type,   A binary

solved by HiGHS. A job that has run on one type only is taken to scale on another as there (bootstrapping by the paper's
rule needs a profile of each type; without any the ratio of types is 1). A job at most doubles its size at once.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from gangline_core.elasticity.goodput import Floats
from gangline_core.elasticity.pollux import Bidder, bidder_of, common_width, most, penalty, speed_ups
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.spec import GPU_MILLI, ResizeKind

POWER = -0.5
LAMBDA = 1.1
SLOWEST = 1e-6
"""A type that a job calls slower than this, or faster than its inverse, is one of which it said nothing."""
NODES_MOST = 100
"""A program that is not solved with so many branches is not used: the sizes stay as they are.

Never a limit of time, which would have another machine decide otherwise, and a replay, too.
"""


class Choice(Struct, frozen=True):
    """A configuration of a job: so many members on GPUs of one type."""

    model: str
    size: int


class Asker(Struct, frozen=True):
    """A job: what it is, on which type it runs, and how fast one of its GPUs is on each type it may use."""

    bidder: Bidder
    model: str
    speeds: dict[str, float]


def solve(askers: Sequence[Asker], capacity: dict[str, int], *, per_node: int) -> list[Choice | None]:
    """The configuration of each job; None for one that gets none. Jobs that must run keep at least what they have."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]  # no hints; heavy

    if not askers:
        return []
    columns, cost = _columns(askers, per_node)
    models = sorted(capacity)
    use = np.zeros((len(models), len(columns)))
    one = np.zeros((len(askers), len(columns)))
    for k, (job, choice) in enumerate(columns):
        use[models.index(choice.model), k] = choice.size * askers[job].bidder.gpus
        one[job, k] = 1
    least = np.array([1.0 if asker.bidder.must_run else 0.0 for asker in askers])
    found = milp(
        cost,
        constraints=[
            LinearConstraint(use, -np.inf, np.array([capacity[model] for model in models])),
            LinearConstraint(one, least, np.ones(len(askers))),
        ],
        integrality=np.ones(len(columns)),
        bounds=Bounds(0, 1),
        options={"node_limit": NODES_MOST},
    )
    chosen: list[Choice | None] = [None] * len(askers)
    if found.x is not None and found.status == 0:
        for k, (job, choice) in enumerate(columns):
            if found.x[k] > 0.5:
                chosen[job] = choice
    else:
        chosen = [Choice(asker.model, asker.bidder.present) if asker.bidder.present else None for asker in askers]
    return chosen


def _columns(askers: Sequence[Asker], per_node: int) -> tuple[list[tuple[int, Choice]], Floats]:
    """Every job with every configuration it may have, and what choosing it costs beside choosing nothing."""
    columns: list[tuple[int, Choice]] = []
    cost: list[float] = []
    for job, asker in enumerate(askers):
        sizes = [size for size in asker.bidder.sizes if size <= most(asker.bidder)]
        scaling = speed_ups(asker.bidder, sizes, fair=1, per_node=per_node)
        values = {
            Choice(model, size): float(speed * scale)
            for model, speed in sorted(asker.speeds.items())
            for size, scale in zip(sizes, scaling, strict=True)
        }
        least = max(min(values.values()), 1e-9)
        for choice, value in values.items():
            stays = choice == Choice(asker.model, asker.bidder.present)
            factor = 1.0 if stays else max(penalty(asker.bidder), 1e-3)
            columns.append((job, choice))
            cost.append((factor * value / least) ** POWER - LAMBDA)
    return columns, np.array(cost)


def sia(view: View) -> list[Target]:
    """The pool's jobs that use whole GPUs, weighed together; a job changes its type only where a resize restarts it."""
    jobs = [one for one in view.jobs if one.role.resources.whole_gpus]
    if not jobs or not view.may_weigh:
        return []
    capacity = _capacity(view, jobs)
    askers = [_asker(view, one, capacity) for one in jobs]
    targets = []
    for one, asker, choice in zip(jobs, askers, solve(askers, capacity, per_node=common_width(view)), strict=True):
        if choice is not None and (choice.size != one.size or choice.model != asker.model):
            model = choice.model if choice.model != asker.model else ""
            targets.append(
                Target(job=one.job, role=one.role.name, size=choice.size, why="goodput by type", model=model)
            )
    return targets


def _capacity(view: View, jobs: Sequence[Elastic]) -> dict[str, int]:
    """GPUs by type that these jobs have or that are free for growth."""
    capacity: dict[str, int] = {}
    for row, node in enumerate(view.table.frozen.nodes):
        for gpu in node.gpus:
            if view.table.room.milli[row, gpu.index] == GPU_MILLI:
                capacity[gpu.model] = capacity.get(gpu.model, 0) + 1
    for one in jobs:
        model = _model(view, one)
        capacity[model] = capacity.get(model, 0) + one.size * one.role.resources.whole_gpus
    return capacity


def _model(view: View, one: Elastic) -> str:
    return next((task.gpu_model for task in view.state.tasks_of(one.job) if task.role == one.role.name), "")


def _asker(view: View, one: Elastic, capacity: dict[str, int]) -> Asker:
    """Its speed by type is what the job says in its attributes `speed_<model>`, 1 where it says nothing."""
    here, attributes = _model(view, one), one.job.spec.attributes
    wanted = {model.lower() for model in one.role.resources.gpu_models}
    moves = one.job.spec.elastic.kind == ResizeKind.RESTART
    models = [m for m in capacity if m == here or (moves and (not wanted or m.lower() in wanted))]
    speeds = {}
    for model in models:
        said = attributes.get(f"speed_{model.replace('-', '_')}", 1.0)
        speeds[model] = float(said) if isinstance(said, int | float) and SLOWEST <= said <= 1 / SLOWEST else 1.0
    return Asker(bidder=bidder_of(one, view.now), model=here, speeds=speeds)
