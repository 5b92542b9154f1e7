"""How big running elastic jobs should be: proposed here when a pool has come to rest, given or taken by the next round.

Every policy is one function in one file. Whatever the policy, three things hold. Sizes are proposed only after
something from outside has happened since the last proposal, never because of an own one, so nothing swings. Growth gets
only room that no waiting job could use. And a size somebody asked for by hand goes before every policy.
Shrinking for a job that needs the room is decided in the round itself (see `preemption`).
"""

from collections.abc import Callable
from itertools import chain

from msgspec.structs import replace

from gangline_core.elasticity.adaptive import adaptive
from gangline_core.elasticity.band import band, nodes_wanted
from gangline_core.elasticity.by_hand import by_hand
from gangline_core.elasticity.deadlines import deadlines
from gangline_core.elasticity.faster import faster, may_move, move_times
from gangline_core.elasticity.giving import grow
from gangline_core.elasticity.grow_shrink import grow_shrink
from gangline_core.elasticity.idle_fill import idle_fill
from gangline_core.elasticity.lending import lending
from gangline_core.elasticity.limits import limits
from gangline_core.elasticity.locality import locality
from gangline_core.elasticity.optimus import optimus
from gangline_core.elasticity.pollux import goodput
from gangline_core.elasticity.room import open_to_growth
from gangline_core.elasticity.sia import sia
from gangline_core.elasticity.stuck import next_deadline_ms, stuck
from gangline_core.elasticity.view import Target, View, calm_until_ms, has_rest, resizable
from gangline_core.facts import LimitSet, NodesWanted, ResizeFailed, ResizeProposed
from gangline_core.job import JobState
from gangline_core.making_room.claims import honour_claims
from gangline_core.sizes import resizing
from gangline_core.state import PoolState, State
from gangline_core.table import Table

__all__ = ["POLICIES", "grow", "next_deadline_ms", "next_move_ms", "propose"]

Decide = Callable[[View], list[Target]]
Proposal = ResizeFailed | ResizeProposed | LimitSet | NodesWanted

FAILS = (ArithmeticError, LookupError, TypeError, ValueError)
"""How a policy fails on something that a job said: that costs its own decision, and idle GPUs are filled instead."""

POLICIES: dict[str, Decide] = {
    "adaptive": adaptive,
    "idle_fill": idle_fill,
    "goodput": goodput,
    "sia": sia,
    "optimus": optimus,
    "deadlines": deadlines,
    "grow_shrink": grow_shrink,
    "lending": lending,
    "band": band,
}
"""Name in a pool's policy -> who decides how big its elastic jobs are."""


def propose(state: State, pool: str, now: int) -> tuple[Proposal, ...]:
    """Changes that took too long, else limits of jobs beside others, else the sizes that elastic jobs should have."""
    late = stuck(state, pool, now)
    if late:
        return late
    limited = limits(state, pool)
    if limited:
        return limited
    known = state.kept.pools[pool]
    if known.open_round is not None or known.proposals:
        return ()
    if known.later and (waiting := _later(state, known)) is not None:
        return waiting
    cause = state.kept.outside_seq
    targets = by_hand(state, pool) if cause > known.asked_seq else []
    said: NodesWanted | None = None
    if not targets and known.policy.elastic_growth and is_stirred(state, pool, now):
        targets, said = _by_policy(state, known, now)
    proposals = tuple(_proposal(pool, target, cause) for target in targets)
    return proposals if said is None else (*proposals, said)


def _proposal(pool: str, target: Target, cause: int) -> ResizeProposed:
    return ResizeProposed(
        pool=pool,
        job=target.job.id,
        role=target.role,
        size=target.size,
        why=target.why,
        model=target.model,
        moves=target.moves,
        because=cause,
    )


def _later(state: State, known: PoolState) -> tuple[ResizeProposed, ...] | None:
    """Growth that waited for others to shrink, once they have: the second half of one decision. None when void."""
    live = [state.kept.jobs[job] for job in state.live.get(known.pool.name, {})]
    if any(resizing.is_active(job) for job in live):
        return ()
    able = {job.id: job for job in live if job.state == JobState.RUNNING}
    waiting = tuple(
        proposal
        for job, proposal in sorted(known.later.items())
        if job in able and able[job].sizes.get(proposal.role, 0) < proposal.size
    )
    return waiting or None


def is_stirred(state: State, pool: str, now: int) -> bool:
    """True when something from outside happened since sizes were last proposed, or a job may change or move since."""
    known = state.kept.pools[pool]
    if state.kept.outside_seq > known.proposed_seq:
        return True
    live = (state.kept.jobs[job] for job in state.live.get(known.pool.name, {}))
    rested = (calm_until_ms(job) for job in live if has_rest(job))
    times = chain(rested, move_times(state, pool, after=known.proposed_at))
    return any(known.proposed_at < time <= now for time in times)


def next_move_ms(state: State, pool: str, now: int) -> int | None:
    """When the next running job may move to faster GPUs, though nothing else happens; None when none is ever to."""
    changes = state.kept.pools[pool].policy.elastic_growth
    return next(move_times(state, pool, after=now), None) if changes else None


def _by_policy(state: State, known: PoolState, now: int) -> tuple[list[Target], NodesWanted | None]:
    pool, policy = known.pool.name, known.policy
    jobs = tuple(resizable(state, pool, now))
    says_nodes = policy.elastic == "band"
    if not (jobs or policy.migration or says_nodes or may_move(state, pool)):
        return [], None
    table = Table(state, pool, now)
    honour_claims(table)
    open_to_growth(table)
    is_time = now >= known.proposed_at + policy.elastic_interval_s * 1000
    may_weigh = is_time and state.kept.outside_seq > known.proposed_seq
    view = View(state=state, pool=pool, now=now, jobs=jobs, table=table, may_weigh=may_weigh)
    said: NodesWanted | None = None
    targets: list[Target] = []
    try:
        said = nodes_wanted(view) if says_nodes else None
        targets = POLICIES[policy.elastic](view) if jobs else []
        targets = targets or faster(view) or (locality(view) if policy.migration else [])
    except FAILS:
        # What it booked of the table in vain is out of reach for this decision, and for no later one.
        targets = idle_fill(replace(view, jobs=tuple(replace(one, progress=None) for one in jobs)))
    return targets, said
