"""Band: so many nodes that the jobs use them well, and the sizes that go with them (AdaptDL's utility band).

After AdaptDL's scheduler (petuum/adaptdl, sched/adaptdl_sched/policy/pollux.py): for every number of nodes the sizes
with the largest sum of speed-up times dominant share are looked for, in which whatever changes counts a tenth less. The
utility of such a state is the speed-up per GPU of the nodes it uses. While that lies between LEAST and MOST for the
nodes there are, they are right; else the number is wanted whose utility is closest to the middle and not below LEAST,
of equals the larger one, up to as many nodes again as there are. Jobs that wait for room ask for nodes as those that
run do; nodes on which nobody's member fits count as nodes, and give none. Sizes are those that are best on no more than
the nodes that are wanted, so what is beyond them comes free. There the search is random; here it is exact, and equal
inputs give equal sizes. What is wanted is said by `NodesWanted`, for whoever adds and removes machines.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.elasticity.knapsack import Knapsack
from gangline_core.elasticity.pollux import Bidder, bidder_of, common_width, free_gpus, most, speed_ups
from gangline_core.elasticity.view import Elastic, Target, View, elastic
from gangline_core.facts.size import NodesWanted
from gangline_core.placement.why_not import ROOM_CODES

LEAST, MOST = 0.35, 0.65
AIM = (LEAST + MOST) / 2
DAMPING = 0.9
"""What a change of size counts less."""
MUST_RUN = -1e12
CHANGE_PERMILLE = 50
"""A utility that moved by less is not said again."""
WAITING_MOST = 64
"""So many waiting jobs are asked how many nodes they want."""
CLOSE = 1e-6
"""Utilities and sums that differ by less are equal."""


class State(Struct, frozen=True):
    """The best sizes on so many nodes."""

    nodes: int
    worth: float
    utility: float
    sizes: tuple[int, ...]


class Band(Struct, frozen=True):
    """How many nodes are wanted, how well they are used, and the size of each job; 0 for those that have to wait."""

    nodes: int
    utility: float
    sizes: tuple[int, ...]


def choose_nodes(bidders: Sequence[Bidder], *, nodes: int, per_node: int, more: int | None = None) -> Band:
    """What so many jobs want of a cluster of `nodes` equal nodes, to which `more` may be added, or as many."""
    front = states(bidders, nodes=nodes + (nodes if more is None else more), per_node=per_node)
    present = max((state for state in front if state.nodes <= nodes), key=lambda state: state.worth, default=None)
    if present is None and nodes:
        return Band(nodes=nodes, utility=0.0, sizes=tuple(bidder.present for bidder in bidders))
    if present is not None and LEAST <= present.utility <= MOST:
        return Band(nodes=nodes, utility=present.utility, sizes=present.sizes)
    wanted = nodes
    best = np.inf
    for state in front:
        if state.utility < LEAST:
            continue
        if abs(state.utility - AIM) < abs(best - AIM) + CLOSE:
            best, wanted = state.utility, state.nodes
    inside = (state for state in front if state.nodes <= min(nodes, wanted))
    within = max(inside, key=lambda state: state.worth, default=None)
    utility = float(best) if np.isfinite(best) else present.utility if present is not None else 0.0
    sizes = within.sizes if within is not None else tuple(0 for _ in bidders)
    return Band(nodes=wanted, utility=utility, sizes=sizes)


def states(bidders: Sequence[Bidder], *, nodes: int, per_node: int) -> list[State]:
    """The best state on each number of nodes, those left out that are no better than one on fewer nodes."""
    values, costs, sizes, speeds = [], [], [], []
    for bidder in bidders:
        options = [0, *(size for size in bidder.sizes if size <= most(bidder))]
        reached = speed_ups(bidder, options, fair=1, per_node=per_node) * bidder.gpus
        stays = np.array([size == bidder.present for size in options])
        worth = np.where(stays, reached, DAMPING * reached)
        if bidder.must_run:
            worth[0] = MUST_RUN
        values.append(worth.tolist())
        costs.append([size * bidder.gpus for size in options])
        sizes.append(options)
        speeds.append(reached)
    packed = Knapsack(values, costs, nodes * per_node)
    front: list[State] = []
    for count in range(1, nodes + 1):
        worth_here = packed.worth(count * per_node)
        if worth_here < 0 or (front and worth_here <= front[-1].worth + CLOSE):
            continue
        chosen = packed.options(count * per_node)
        speed = float(sum(reached[option] for reached, option in zip(speeds, chosen, strict=True)))
        front.append(
            State(
                nodes=count,
                worth=worth_here,
                utility=speed / (count * per_node),
                sizes=tuple(own[option] for own, option in zip(sizes, chosen, strict=True)),
            )
        )
    return front


def band(view: View) -> list[Target]:
    """Sizes of the pool's jobs that use whole GPUs, on no more nodes than they use well."""
    jobs = _jobs(view)
    if not jobs or not view.may_weigh:
        return []
    chosen, _ = _choice(view, jobs, ())
    return [
        Target(job=one.job, role=one.role.name, size=size, why="utility band")
        for one, size in zip(jobs, chosen.sizes, strict=True)
        if size and size != one.size
    ]


def nodes_wanted(view: View) -> NodesWanted | None:
    """The pool's number of nodes when it should be another one than was last said."""
    jobs, waiting = _jobs(view), _waiting(view)
    known = view.state.kept.pools[view.pool]
    if not view.may_weigh or not (jobs or waiting or known.nodes_wanted):
        return None
    chosen, others = _choice(view, jobs, waiting)
    said = NodesWanted(pool=view.pool, nodes=chosen.nodes + others, utility_permille=round(1000 * chosen.utility))
    moved = abs(said.utility_permille - known.utility_permille)
    return said if said.nodes != known.nodes_wanted or moved >= CHANGE_PERMILLE else None


def _jobs(view: View) -> list[Elastic]:
    return [one for one in view.jobs if one.role.resources.whole_gpus]


def _waiting(view: View) -> list[Elastic]:
    """Jobs that wait for room and use whole GPUs in one of their roles, the first by id."""
    state = view.state
    waiting = (state.kept.jobs[job] for job in sorted(state.waiting.get(view.pool, {})))
    able = (job for job in waiting if job.reason is not None and job.reason.code in ROOM_CODES)
    found = (
        elastic(state, job, roles[0])
        for job in able
        if len(roles := [role for role in job.spec.roles if role.resources.wants_gpu]) == 1
        and roles[0].resources.whole_gpus
    )
    return list(islice(found, WAITING_MOST))


def _choice(view: View, jobs: Sequence[Elastic], waiting: Sequence[Elastic]) -> tuple[Band, int]:
    """The choice for the GPUs that these jobs have or may have, and the nodes of the pool that others fill."""
    per_node = common_width(view)
    held = sum(one.size * one.role.resources.whole_gpus for one in jobs)
    nodes = -(-(held + free_gpus(view, [*jobs, *waiting])) // per_node)
    nodes = max(1, nodes) if jobs else nodes
    there = sum(1 for node in view.table.frozen.nodes if node.gpus)
    bidders = [bidder_of(one, view.now) for one in jobs]
    bidders += [replace(bidder_of(one, view.now), must_run=False) for one in waiting]
    more = max(nodes, there) if waiting else nodes
    return choose_nodes(bidders, nodes=nodes, per_node=per_node, more=more), there - nodes
