"""What rounds do to pools and jobs: opened, decided, and each part of a decision applied if it still holds."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.fold import pack as fold_pack
from gangline_core.fold import pause as fold_pause
from gangline_core.fold.arrays import give_up_elements
from gangline_core.fold.jobs import (
    add_growth,
    add_placement,
    evict,
    give_up,
    keep_claim,
    lower,
    set_reason,
)
from gangline_core.fold.life import give_up_start
from gangline_core.fold.limits_elsewhere import keeps_others_out
from gangline_core.fold.not_lent import waits_for_lenders
from gangline_core.fold.owed import is_asked_back
from gangline_core.fold.repair import give_up_repair
from gangline_core.fold.resize import shrink, shrink_fault, start_again, waiting_growth
from gangline_core.fold.taken_over import pass_on
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.parsync import note_asked, schedulers_of, synchronise
from gangline_core.pauses import leases
from gangline_core.reasons import ReasonCode
from gangline_core.room.clearing import Clearing
from gangline_core.scoring.levels import remembered
from gangline_core.sizes.causes import use_up
from gangline_core.spec import ServiceClass
from gangline_core.state import OpenRound, State
from gangline_core.step import Step


def round_opened(state: State, fact: f.RoundOpened, step: Step) -> None:
    """A pool's round is open: reasons of those kept out, ends of those given up."""
    pool = state.kept.pools[fact.pool]
    pool.rounds = fact.round
    # Whatever happened since, all have their turn again.
    is_stirred = state.kept.changed_seq > pool.opened_seq
    pool.looks_left = fact.looks - 1 if is_stirred else min(fact.looks, pool.looks_left) - 1
    pool.looks_left = max(0, pool.looks_left)
    pool.opened_seq = step.seen
    pool.open_round = OpenRound(opened=fact, seq=step.seq, at=step.at)
    leases.note(state, fact, step.at)
    if schedulers_of(pool.policy) or pool.schedulers:
        synchronise(pool)
        note_asked(state, pool)
    for foreseen in fact.foreseen:
        pool.foreseen[foreseen.job] = (step.at, foreseen.wait_ms)
        if foreseen.high_ms >= 0:
            pool.stated[foreseen.job] = (foreseen.low_ms, foreseen.high_ms)
        pool.foreseen_at = step.at
    for kept_out in fact.kept_out:
        for job in kept_out.jobs:
            set_reason(state, job, kept_out.reason, step)
    for ended in fact.given_up:
        for job in ended.jobs:
            if not give_up_elements(state, job, ended.reason, step):
                give_up(state, job, ended.reason, step)
    step.rounds.append(fact.pool)


def round_decided(state: State, fact: f.RoundDecided, step: Step) -> None:
    """Everything one round came to, as far as it still holds."""
    pool = state.kept.pools[fact.pool]
    opened = pool.open_round.opened if pool.open_round is not None else None
    if opened is not None and opened.round != fact.round:
        step.alarms.append(f"round {fact.round} of pool {fact.pool} was decided while {opened.round} is open")
        return
    pool.open_round = None
    pool.decided_seq, pool.decided_at = step.seq, step.at
    dated = {date.job for date in fact.limit_dates}
    # A date that was over is another one now: who ends before it passes in another pool, too.
    moved = any(date.job not in dated or date.start_ms <= step.at for date in pool.limit_dates)
    step.undated = len(state.kept.pools) > 1 and (moved or bool(fact.claims_dropped))
    pool.reservations, pool.limit_dates = fact.reservations, fact.limit_dates
    pool.heads = remembered(pool.heads, fact.heads, step.at)
    pool.later = waiting_growth(state, pool, fact)
    use_up(state, fact, pool.proposals)
    proposals, pool.proposals = pool.proposals, {}
    pass_on(state, fact)
    for dropped in fact.claims_dropped:
        state.drop_claim(dropped)
        lost = state.job(dropped)
        if lost is not None and lost.state == JobState.WAITING and _waits_for_victims(lost):
            # A round that has no place for it in view says nothing else about it.
            state.put_reason(lost, None)
    for refusal in fact.refusals:
        for job in refusal.jobs:
            set_reason(state, job, refusal.reason, step)
    for placement in fact.placements:
        add_placement(state, placement, step)
    for lowering in fact.lowerings:
        lower(state, lowering, step)
    for growth in fact.growths:
        add_growth(state, growth, step)
    # Where a share was booked that the leader had not seen, who goes on or makes way is decided anew.
    is_overtaken = pool.shared_seq > step.seen
    if not is_overtaken:
        _go_on(state, fact, step)
    _give_up_late(state, fact, step)
    if is_overtaken:
        state.kept.changed_seq = step.seq
    else:
        _clear_room(state, fact, step)
    _say_why(state, fact, proposals, step)
    step.decided.append(fact.pool)
    if _calls_for_another(state, opened, fact) or keeps_others_out(state, fact.pool, _at_work(fact), step.at):
        state.kept.changed_seq = step.seq


def _at_work(fact: f.RoundDecided) -> list[JobId]:
    """Who holds more from this round on than before."""
    began = [*(placement.job for placement in fact.placements), *(growth.job for growth in fact.growths)]
    return [*began, *(job for job, _ in fact.packings), *fact.resumes]


def _calls_for_another(state: State, opened: f.RoundOpened | None, fact: f.RoundDecided) -> bool:
    """True when the next round has something to decide because of what this one came to."""
    if (fact.placements or fact.growths or fact.resumes) and waits_for_lenders(state, fact.pool):
        return True
    if is_asked_back(state, fact):
        return True
    return opened is not None and (_brings_into_view(opened, fact) or _goes_on_before_others(state, opened, fact))


def _say_why(state: State, fact: f.RoundDecided, proposals: Mapping[JobId, f.ResizeProposed], step: Step) -> None:
    """A change that somebody proposed has the proposal's reason: the policy asks later what it tried."""
    changed = {growth.job for growth in fact.growths} | {less.job for less in fact.shrinks if not less.beneficiary}
    for name in sorted(changed & proposals.keys()):
        job = state.job(name)
        if job is not None and job.resize is not None and job.resize.began_ms == step.at:
            state.put_job(replace(job, resize=replace(job.resize, why=proposals[name].why or job.resize.why)))


def _waits_for_victims(job: Job) -> bool:
    return job.reason is not None and job.reason.code == ReasonCode.WAITING_FOR_VICTIMS


def _go_on(state: State, fact: f.RoundDecided, step: Step) -> None:
    """Gangs that start again at another size, and paused jobs that go on, alone or beside others."""
    start_again(state, fact.restarts, step)
    for job, host in fact.packings:
        fold_pack.pack(state, job, host, step)
    for resumed in fact.resumes:
        fold_pause.resume(state, resumed, step)


def _give_up_late(state: State, fact: f.RoundDecided, step: Step) -> None:
    """Members that were not placed again in time, and gangs that did not start in time."""
    for job in fact.late_repairs:
        give_up_repair(state, job, step)
    for job in fact.late_starts:
        give_up_start(state, job, step)


def _brings_into_view(opened: f.RoundOpened, fact: f.RoundDecided) -> bool:
    """True when jobs that the round did not look at may fare better than those it looked at and left waiting."""
    if opened.waiting <= len(opened.candidates) - fact.unseen or not fact.placements:
        return False
    if fact.unseen or not fact.calls_for_more:
        return fact.unseen > 0
    if opened.is_cut:
        return True
    started = {placement.job for placement in fact.placements}
    return any(edge in started for edge in opened.edges)


def _goes_on_before_others(state: State, opened: f.RoundOpened, fact: f.RoundDecided) -> bool:
    """True when an opportunistic job went on that had been paused: whoever waits may have it paused again at once.

    Others wait for the next event: where queues lend to each other, jobs that go on and are paused again at once cost
    everybody more than that wait.
    """
    served = len(fact.placements) + len(fact.claims)
    if not fact.resumes or opened.waiting <= served:
        return False
    jobs = map(state.job, fact.resumes)
    return any(job is not None and job.service_class == ServiceClass.OPPORTUNISTIC for job in jobs)


def _clear_room(state: State, fact: f.RoundDecided, step: Step) -> None:
    """Claims whose job could still start make their victims stop; the victims of the others are left alone."""
    stale = {less.beneficiary: fault for less in fact.shrinks if (fault := shrink_fault(state, less))}
    clearing = Clearing(state, {eviction.job for eviction in fact.evictions})
    void = {
        claim.job for claim in fact.claims if not keep_claim(state, claim, clearing, step, fault=stale.get(claim.job))
    }
    for eviction in fact.evictions:
        if eviction.beneficiary not in void:
            evict(state, eviction, step)
    for paused in fact.pauses:
        if paused.beneficiary not in void:
            fold_pause.pause_for(state, paused, step)
    for less in fact.shrinks:
        if less.beneficiary not in void:
            shrink(state, less, step)


HANDLERS: dict[type[f.Fact], Callable[[State, Any, Step], None]] = {
    f.RoundOpened: round_opened,
    f.RoundDecided: round_decided,
}
"""The facts that this file folds."""
