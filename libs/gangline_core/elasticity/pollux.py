"""Pollux: sizes that maximise the power mean of all jobs' speed-ups over their fair share, by goodput.

Qiao et al., OSDI 2021, section 4.2: the mean over jobs of (speed-up + 0.001)^p with p = -1, where the speed-up of a job
whose size changes is multiplied by max(age - restarts x cost, 0) / (age + cost), and a job may at most double what it
has been profiled on. The paper searches by a genetic algorithm over whole placements. Here sizes are the configurations
of Sia (SOSP 2023, section 3.3: parts of a node by powers of two, then whole nodes), which can always be placed; the
objective is a sum over jobs, so the best sizes are found exactly, and equal inputs give equal sizes.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from gangline_core.elasticity.clearing import clearing
from gangline_core.elasticity.fit import fitted
from gangline_core.elasticity.goodput import Floats, Grad, Limits, Perf, optimise
from gangline_core.elasticity.knapsack import choose
from gangline_core.elasticity.room import able_nodes
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.elasticity.worth import cost_s
from gangline_core.placement.gang import gang_of
from gangline_core.sizes.progress import BATCH_MOST, MILLION, Point, Progress

POWER = -1.0
FLOOR = 1e-3
DAMPING = 0.9
SOON_S = 600
HASTE = 0.5
"""How much more soon-over jobs count: 0 not at all. Between processor sharing and shortest remaining time first."""
GROWTH_MOST = 2
"""A job is given at most so many times the largest size it was profiled on."""


class Bidder(Struct, frozen=True):
    """One job as the search sees it."""

    sizes: tuple[int, ...]
    """Sizes it may have, ascending, in members; without 0."""
    gpus: int
    """GPUs of one member."""
    present: int
    """Its size now; 0 when it does not run."""
    perf: Perf | None
    """None before it reported any step time: then it is taken to speed up in step with its size."""
    grad: Grad
    limits: Limits
    profiled: int
    """Largest size it reported from; 0 for none."""
    age_s: int
    restarts: int
    cost_s: int
    left_s: int = -1
    """Seconds it needs at the size it last ran with, as it said itself; -1 when it did not."""
    left_at: int = 0
    """That size."""
    must_run: bool = False
    """It cannot be taken off: its smallest size is the least it gets."""


def goodput(view: View) -> list[Target]:
    """The pool's jobs that use whole GPUs, weighed together each `elastic_interval_s` if anything happened outside."""
    jobs = [one for one in view.jobs if one.role.resources.whole_gpus]
    if not jobs or not view.may_weigh:
        return []
    per_node = common_width(view)
    held = sum(one.size * one.role.resources.whole_gpus for one in jobs)
    capacity = held + free_gpus(view, jobs)
    bidders = [bidder_of(one, view.now) for one in jobs]
    chosen = pollux(bidders, capacity=capacity, per_node=per_node)
    targets = [
        Target(job=one.job, role=one.role.name, size=size, why="goodput")
        for one, size in zip(jobs, chosen, strict=True)
        if size and size != one.size
    ]
    return [*targets, *clearing(view, list(zip(jobs, bidders, strict=True)), targets, per_node)]


def common_width(view: View) -> int:
    """GPUs of most nodes of the pool."""
    widths = Counter(len(node.gpus) for node in view.table.frozen.nodes if node.gpus)
    return min((width for width, count in widths.items() if count == max(widths.values())), default=1)


def free_gpus(view: View, jobs: Sequence[Elastic]) -> int:
    """Whole GPUs that growth may take, on nodes that are large enough for a member of any of these jobs."""
    room = view.table.room
    able = np.zeros(len(room.free), dtype=np.bool_)
    for one in jobs:
        able |= able_nodes(room.layout, gang_of(one.job.spec, {one.role.name: 1}, view.table.pool.pool))
    return int(room.free[able].sum())


def bidder_of(one: Elastic, now: int) -> Bidder:
    """A running job as the search sees it: by its reports, and by what its attributes say of its batches."""
    perf, grad, profiled = known_of(one.progress)
    points = one.progress.points if one.progress is not None else ()
    batch = max((point.batch * point.members for point in points), default=1)
    attributes = one.job.spec.attributes
    return Bidder(
        sizes=one.sizes,
        gpus=one.role.resources.whole_gpus,
        present=one.size,
        perf=perf,
        grad=grad,
        limits=Limits(
            initial=max(1, _number(attributes.get("batch_size"), batch)),
            batch_max=_number(attributes.get("batch_size_max"), 0),
            local_min=max(1, _number(attributes.get("batch_member_min"), 1)),
            local_max=_number(attributes.get("batch_member_max"), 0),
            accumulates=attributes.get("accumulates") is True,
        ),
        profiled=max(profiled, one.size),
        age_s=max(0, now - one.job.submitted_ms) // 1000,
        restarts=one.job.resize.number if one.job.resize is not None else 0,
        cost_s=cost_s(one),
        left_s=one.progress.remaining_s if one.progress is not None else -1,
        left_at=points[-1].members if points else 0,
        must_run=True,
    )


def _number(value: object, otherwise: int) -> int:
    """What an attribute says, where it says a number of samples that can be."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= BATCH_MOST
    return int(value) if is_one and isinstance(value, int | float) else otherwise


def pollux(bidders: Sequence[Bidder], *, capacity: int, per_node: int) -> list[int]:
    """The size of each job within so many GPUs on nodes of `per_node`; 0 for those that have to wait."""
    if not bidders:
        return []
    fair = max(1, -(-capacity // len(bidders)))
    values, costs, sizes = [], [], []
    for bidder in bidders:
        options = [0, *(size for size in bidder.sizes if size <= most(bidder))]
        speeds = speed_ups(bidder, options, fair=fair, per_node=per_node)
        stays = np.array([size == bidder.present for size in options])
        worth = (np.where(stays, speeds, speeds * penalty(bidder)) + FLOOR) ** POWER
        worth = -worth * weight(bidder, fair=fair, per_node=per_node)
        if bidder.must_run:
            worth[0] = -1e12
        values.append(worth.tolist())
        costs.append([size * bidder.gpus for size in options])
        sizes.append(options)
    return [sizes[job][option] for job, option in enumerate(choose(values, costs, capacity))]


def configurations(per_node: int, nodes: int) -> tuple[int, ...]:
    """Numbers of GPUs that can always be placed together: powers of two inside one node, whole nodes beyond."""
    inside = [1 << k for k in range(per_node.bit_length()) if 1 << k <= per_node]
    return tuple(sorted({*inside, *(per_node * count for count in range(1, nodes + 1))}))


def weight(bidder: Bidder, *, fair: int, per_node: int) -> float:
    """Jobs that said that they are soon over count more: GPUs given to them are back sooner, and all wait less.

    This is not Pollux's; a job that says nothing of its end counts as there.
    """
    if bidder.left_s < 0 or not bidder.left_at:
        return 1.0
    speed = float(speed_ups(bidder, [bidder.left_at], fair=fair, per_node=per_node)[0])
    return float((1 + bidder.left_s * speed / SOON_S) ** -HASTE)


def most(bidder: Bidder) -> int:
    """The largest size it may get now."""
    grown = max(GROWTH_MOST * bidder.profiled, bidder.present, bidder.sizes[0])
    by_batch = bidder.limits.batch_max // max(1, bidder.limits.local_min)
    return min(grown, max(by_batch, bidder.sizes[0])) if bidder.limits.batch_max else grown


def penalty(bidder: Bidder) -> float:
    """What a change is worth less: the share of its age that the job has not spent starting.

    A change that costs nothing must win a tenth, as AdaptDL asks of one: else noise alone would be worth following.
    """
    if not bidder.cost_s:
        return DAMPING
    return max(bidder.age_s - bidder.restarts * bidder.cost_s, 0) / max(1, bidder.age_s + bidder.cost_s)


def speed_ups(bidder: Bidder, sizes: Sequence[int], *, fair: int, per_node: int) -> Floats:
    """Goodput at each size over that at the fair share; 0 at size 0."""
    members = np.array(sizes)
    if bidder.perf is None:
        return np.asarray(members / max(1, fair // max(1, bidder.gpus)), dtype=np.float64)
    some = np.maximum(members, 1)
    share = min(max(1, fair // max(1, bidder.gpus)), bidder.sizes[-1])
    asked = np.append(some, share)
    nodes = -(-asked * bidder.gpus // per_node)
    best = optimise(bidder.perf, bidder.grad, bidder.limits, nodes, asked).goodput
    return np.where(members > 0, best[:-1] / best[-1], 0.0)


def known_of(progress: Progress | None) -> tuple[Perf | None, Grad, int]:
    """Speed, gradients and the largest profiled size by a job's reports."""
    points: tuple[Point, ...] = progress.points if progress is not None else ()
    if progress is None or not points:
        return None, Grad(), 0
    said = progress.grad_sqr >= 0 and progress.grad_var >= 0
    grad = Grad(sqr=progress.grad_sqr / MILLION, var=progress.grad_var / MILLION) if said else Grad()
    return fitted(points), grad, max(point.members for point in points)
