"""What several schedulers do to a pool: each commits its share of a round, by compare-and-set on what it saw."""

from collections.abc import Callable
from typing import Any

from gangline_core import facts as f
from gangline_core.fold.jobs import add_placement
from gangline_core.fold.limits_elsewhere import keeps_others_out
from gangline_core.fold.not_lent import waits_for_lenders
from gangline_core.ids import JobId
from gangline_core.parsync import SMOOTHING_PERCENT
from gangline_core.room.holds import placement_fault
from gangline_core.state import State
from gangline_core.step import Step


def share_decided(state: State, fact: f.ShareDecided, step: Step) -> None:
    """Book every gang of a share whose nodes are what its scheduler saw; the others are conflicts and wait on.

    A share that comes after its round was decided books nothing. Whatever became of it, the scheduler knows these
    nodes now.
    """
    pool = state.kept.pools.get(fact.pool)
    scheduler = pool.schedulers.get(fact.scheduler) if pool is not None else None
    step.touched = True
    if pool is None or scheduler is None:
        return
    scheduler.answered = max(scheduler.answered, fact.round)
    if pool.open_round is None or pool.open_round.opened.round != fact.round:
        return
    opened, started = pool.open_round.opened, set[JobId]()
    stale = frozenset(scheduler.view)
    for placement in fact.placements:
        job = state.job(placement.job)
        is_conflict = any(place.node in stale for place in placement.tasks)
        if is_conflict or job is None or _fault(state, placement) is not None:
            scheduler.conflicts += 1
            continue
        waited_ms = step.at - job.queued_ms
        add_placement(state, placement, step)
        scheduler.commits += 1
        started.add(placement.job)
        scheduler.delay_ms += (waited_ms - scheduler.delay_ms) * SMOOTHING_PERCENT // 100
    for placement in fact.placements:
        for place in placement.tasks:
            scheduler.view.pop(place.node, None)
    if started:
        pool.shared_seq = step.seq
    if started and opened.waiting > len(opened.candidates) and (opened.is_cut or not started.isdisjoint(opened.edges)):
        # Others come into view where these were looked at.
        state.kept.changed_seq = step.seq
    if started and (waits_for_lenders(state, fact.pool) or keeps_others_out(state, fact.pool, started, step.at)):
        state.kept.changed_seq = step.seq


def _fault(state: State, placement: f.Placement) -> str | None:
    """What is wrong with booking this now, the port included: others give out ports at the same time."""
    fault = placement_fault(state, placement)
    if fault is not None:
        return fault
    address = state.kept.nodes[placement.tasks[0].node].address
    return "port is taken" if state.ports.is_taken(address, placement.port) else None


HANDLERS: dict[type[f.Fact], Callable[[State, Any, Step], None]] = {f.ShareDecided: share_decided}
"""The facts that this file folds."""
