"""Everything a preemption was decided on: victim, beneficiary, rule, who else could have gone, and what came of it.

The log is folded up to the state on which the round was decided, the round is decided again, and the eviction that was
written is looked for in what comes out.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.losses import effective_priority
from gangline_core.redecide import redecide
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.state import State
from gangline_lab.archive import Progress, read

OTHERS_SHOWN = 20
"""Other possible victims that are shown."""


class Party(Struct, frozen=True):
    """One job of a preemption, as it stood when the round was decided."""

    job: JobId
    name: str
    group: str
    user: str
    service_class: str
    level: str
    priority: int
    """On top of its level's band."""
    gpus: float
    submitted_ms: int
    started_ms: int
    """0 while it does not run."""
    preemptions: int
    protected_s: int
    group_gpus: float
    """GPUs its group held."""
    group_guaranteed: float
    """GPUs guaranteed to its group itself; 0 when none are."""


class Preemption(Struct, frozen=True):
    """One eviction, audited. Times in ms."""

    number: int
    """Which preemption of the archive it is, from 1."""
    seq: int
    """Log sequence of the decision."""
    seq_seen: int
    """What had been folded when it was decided."""
    at: int
    round: int
    pool: str
    rule: str
    lost_ms: int
    """Run time that the decision counted as thrown away."""
    victim: Party
    beneficiary: Party
    place: int
    """The beneficiary's place in the order, from 1; 0 when it was not in it."""
    score: int
    terms: dict[str, int]
    nodes: tuple[str, ...]
    """Where the beneficiary's room was cleared."""
    together: tuple[JobId, ...]
    """All jobs evicted for the same beneficiary."""
    others: tuple[Party, ...]
    """Other preemptible live jobs, those that cost least first: opportunistic, low priority, little work lost."""
    decided_again: bool
    """True when deciding again gives the same eviction."""
    victim_gone_ms: int = 0
    """When the victim had stopped; 0 when it never had."""
    beneficiary_started_ms: int = 0
    victim_started_again_ms: int = 0


def preemptions(path: Path, *, progress: Progress | None = None) -> list[Preemption]:
    """Every preemption of an archive, in order.

    Raises:
        ArchiveError: the archive is broken.
    """
    return preemptions_of(entry.message for entry in read(path, progress=progress))


def preemptions_of(messages: Iterable[Message]) -> list[Preemption]:
    """The same of messages, a log from its beginning."""
    state = State()
    found: list[Preemption] = []
    for message in messages:
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided) and fact.evictions:
                found += _audited(state, message, fact, first=len(found) + 1)
        apply(state, message)
        found = [_followed(one, state, message.at) if _is_open(one) else one for one in found]
    return found


def _is_open(one: Preemption) -> bool:
    return not (one.victim_gone_ms and one.beneficiary_started_ms and one.victim_started_again_ms)


def _followed(one: Preemption, state: State, at: int) -> Preemption:
    """What has come of it by now."""
    victim, beneficiary = state.job(one.victim.job), state.job(one.beneficiary.job)
    gone, started, again = one.victim_gone_ms, one.beneficiary_started_ms, one.victim_started_again_ms
    if not gone and victim is not None and victim.preemptions > one.victim.preemptions:
        gone = at
    if not started and beneficiary is not None and beneficiary.started_ms >= one.at:
        started = beneficiary.started_ms
    if gone and not again and victim is not None and victim.started_ms >= gone:
        again = victim.started_ms
    if (gone, started, again) == (one.victim_gone_ms, one.beneficiary_started_ms, one.victim_started_again_ms):
        return one
    return replace(one, victim_gone_ms=gone, beneficiary_started_ms=started, victim_started_again_ms=again)


def _audited(state: State, message: Message, fact: f.RoundDecided, *, first: int) -> list[Preemption]:
    pool = state.kept.pools[fact.pool]
    opened = pool.open_round.opened if pool.open_round is not None else None
    again = redecide(state, message.lane, (fact,), message.at) or ()
    evicted = [one for other in again if isinstance(other, f.RoundDecided) for one in other.evictions]
    found = []
    for number, eviction in enumerate(fact.evictions, start=first):
        candidates = opened.candidates if opened is not None else ()
        place = next((k for k, one in enumerate(candidates) if one.job == eviction.beneficiary), -1)
        terms = opened.terms if opened is not None else ()
        claim = next((one for one in fact.claims if one.job == eviction.beneficiary), None)
        found.append(
            Preemption(
                number=number,
                seq=message.seq,
                seq_seen=state.kept.seq if message.seen < 0 else message.seen,
                at=message.at,
                round=fact.round,
                pool=fact.pool,
                rule=eviction.rule,
                lost_ms=eviction.lost_ms,
                victim=_party(state, state.kept.jobs[eviction.job]),
                beneficiary=_party(state, state.kept.jobs[eviction.beneficiary]),
                place=place + 1,
                score=candidates[place].score if place >= 0 else 0,
                terms=dict(zip(terms, candidates[place].terms, strict=True)) if place >= 0 else {},
                nodes=tuple(sorted({task.node for task in claim.placement.tasks})) if claim else (),
                together=tuple(one.job for one in fact.evictions if one.beneficiary == eviction.beneficiary),
                others=_others(state, fact, message.at),
                decided_again=eviction in evicted,
            )
        )
    return found


def _others(state: State, fact: f.RoundDecided, at: int) -> tuple[Party, ...]:
    evicted = {one.job for one in fact.evictions}
    live = (state.kept.jobs[job] for job in state.live.get(fact.pool, {}) if job not in evicted)
    able = [job for job in live if job.spec.preemptible and job.state != JobState.STOPPING]
    able.sort(key=lambda job: _cost(state, job, at))
    return tuple(_party(state, job) for job in able[:OTHERS_SHOWN])


def _cost(state: State, job: Job, at: int) -> tuple[bool, int, int, int]:
    pool = state.kept.pools[job.spec.pool].pool
    ran_ms = max(0, at - job.started_ms) if job.started_ms else 0
    is_firm = job.spec.service_class != "opportunistic"
    return (is_firm, effective_priority(pool, job.spec), ran_ms * max(1, gpu_milli_wanted(job.spec)), -job.id)


def _party(state: State, job: Job) -> Party:
    group = state.kept.groups.get(job.spec.group)
    pool = state.kept.pools[job.spec.pool].pool
    return Party(
        job=job.id,
        name=job.spec.name,
        group=job.spec.group,
        user=job.spec.user,
        service_class=job.spec.service_class,
        level=job.spec.level,
        priority=effective_priority(pool, job.spec),
        gpus=gpu_milli_wanted(job.spec) / GPU_MILLI,
        submitted_ms=job.submitted_ms,
        started_ms=job.started_ms,
        preemptions=job.preemptions,
        protected_s=job.spec.protected_s,
        group_gpus=state.usage.get(job.spec.group, {}).get("gpu_milli", 0) / GPU_MILLI,
        group_guaranteed=(group.guaranteed.get("gpu_milli", 0) if group else 0) / GPU_MILLI,
    )
