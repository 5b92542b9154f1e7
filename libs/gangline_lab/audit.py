"""Everything a preemption was decided on: victim, beneficiary, rule, who else could have gone, and what came of it.

The log is folded up to the state on which the round was decided (`seq_seen`, as a replay does), the round is decided
again, and the eviction that was written is looked for in what comes out. Who else could have gone is asked of the same
code on the same state, as it stood before anything of the round was decided.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.door.arrays import label
from gangline_core.fold import Message, apply
from gangline_core.groups import holders, user_of
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import effective_priority, is_protected, is_shielded
from gangline_core.making_room.trial import missing
from gangline_core.making_room.victims import Victims
from gangline_core.making_room.yielding import is_patient, live_queue, passes_above, yields_in
from gangline_core.pauses.packing import packed_note
from gangline_core.redecide import redecide
from gangline_core.scoring.attained import GPU_SECOND, attained
from gangline_core.scoring.yield_queue import BY_YIELD, patience_ms, share
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.state import State
from gangline_core.table import Table
from gangline_lab.archive import Progress, part_of, read

OTHERS_SHOWN = 20
"""Other possible victims that are shown, and as many of those that could not go."""


class Other(Struct, frozen=True):
    """Another live job of the pool: by which rule it could have gone, or why it could not."""

    party: "Party"
    rule: str
    """Empty when none allowed it."""
    lost_ms: int
    """Run time that its eviction would have thrown away."""
    why_not: str
    nodes: tuple[str, ...]
    """Where it ran."""


class Party(Struct, frozen=True):
    """One job of a preemption, as it stood when the round was decided."""

    job: JobId
    name: str
    group: str
    user: str
    service_class: str
    level: str
    priority: int
    """Its level's band included."""
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
    attempts: int = 0
    own_priority: int = 0
    """Without its level's band."""
    had_gpu_s: int = 0
    """GPU-seconds of service so far, as far as they count."""
    waited_ms: int = 0
    """All its earlier waits."""
    checkpoints: bool = False
    shares: str = ""
    """Who works on the same GPUs, as a sentence; empty when nobody does."""
    written: str = ""
    """The job's number as people write it, such as "42_7"."""

    @property
    def named(self) -> str:
        """The same, or the plain number where nobody wrote it."""
        return self.written or str(self.job)


class Yielding(Struct, frozen=True):
    """What the pool's policy says of jobs that make way since they had their share, and how two of them stood to it."""

    after_gpu_s: int
    run_s: int
    patience_s: int
    """After so long a wait in all nobody takes a job's room that way."""
    victim_queue: int = 0
    """By what it was taken to need still; 0 is less than a share, and each doubling of that is one more."""
    beneficiary_queue: int = 0
    """The same; 0 also of one that had not had its share, or had waited for long."""


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
    others: tuple[Other, ...]
    """Other live jobs: those that could have gone, in the order in which they would, then those that could not."""
    decided_again: bool
    """True when deciding again gives the same eviction."""
    yielding: Yielding | None = None
    """Of an eviction by the rule `yield`."""
    victim_gone_ms: int = 0
    """When the victim had stopped; 0 when it never had."""
    beneficiary_started_ms: int = 0
    victim_started_again_ms: int = 0
    together_written: tuple[str, ...] = ()
    """Numbers of `together` as people write them."""


def preemptions(path: Path, *, progress: Progress | None = None) -> list[Preemption]:
    """Every preemption of an archive, in order.

    Raises:
        ArchiveError: the archive is broken.
    """
    # Decisions are kept from a first reading: the states on which they were made lie before them.
    decided = [entry.message for entry in read(path, progress=part_of(progress, 0, 2)) if _evicts(entry.message)]
    return preemptions_of((entry.message for entry in read(path, progress=part_of(progress, 1, 2))), decided)


def _evicts(message: Message) -> bool:
    return any(isinstance(fact, f.RoundDecided) and fact.evictions for fact in message.facts)


def preemptions_of(messages: Iterable[Message], decided: Iterable[Message]) -> list[Preemption]:
    """The same of messages, a log from its beginning, and of those of them that decided preemptions."""
    state = State()
    found: list[Preemption] = []
    pending: dict[int, list[Message]] = {}
    for message in decided:
        pending.setdefault(_seen(message), []).append(message)
    found += _all_audited(state, pending.pop(0, []))
    for message in messages:
        apply(state, message)
        found = [_followed(one, state, message) for one in found]
        found += _all_audited(state, pending.pop(message.seq, []))
    found.sort(key=lambda one: one.seq)
    return [replace(one, number=number) for number, one in enumerate(found, start=1)]


def _seen(message: Message) -> int:
    return message.seq - 1 if message.seen < 0 else message.seen


def _all_audited(state: State, decided: Iterable[Message]) -> list[Preemption]:
    """Everything that was decided on this state."""
    found: list[Preemption] = []
    for message in decided:
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided) and fact.evictions:
                found += _audited(state, message, fact)
    return found


def _is_open(one: Preemption) -> bool:
    return not (one.victim_gone_ms and one.beneficiary_started_ms and one.victim_started_again_ms)


def _followed(one: Preemption, state: State, message: Message) -> Preemption:
    """What has come of it by now."""
    at = message.at
    if one.seq > message.seq or not _is_open(one):
        return one
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


def _audited(state: State, message: Message, fact: f.RoundDecided) -> list[Preemption]:
    pool = state.kept.pools.get(fact.pool)
    if pool is None:
        return []
    opened = pool.open_round.opened if pool.open_round is not None else None
    again = redecide(state, message.lane, (fact,), message.at) or ()
    evicted = [one for other in again if isinstance(other, f.RoundDecided) for one in other.evictions]
    found = []
    decided_at = pool.open_round.at if pool.open_round is not None else message.at
    others: dict[JobId, tuple[Other, ...]] = {}
    known = (one for one in fact.evictions if {one.job, one.beneficiary} <= state.kept.jobs.keys())
    for eviction in known:
        candidates = opened.candidates if opened is not None else ()
        place = next((k for k, one in enumerate(candidates) if one.job == eviction.beneficiary), -1)
        terms = opened.terms if opened is not None else ()
        together = tuple(one.job for one in fact.evictions if one.beneficiary == eviction.beneficiary)
        claim = next((one for one in fact.claims if one.job == eviction.beneficiary), None)
        if eviction.beneficiary not in others:
            others[eviction.beneficiary] = _others(state, fact, eviction.beneficiary, decided_at)
        found.append(
            Preemption(
                number=0,
                seq=message.seq,
                seq_seen=_seen(message),
                at=message.at,
                round=fact.round,
                pool=fact.pool,
                rule=eviction.rule,
                lost_ms=eviction.lost_ms,
                victim=_party(state, state.kept.jobs[eviction.job], decided_at),
                beneficiary=_party(state, state.kept.jobs[eviction.beneficiary], decided_at),
                place=place + 1,
                score=candidates[place].score if place >= 0 else 0,
                terms=dict(zip(terms, candidates[place].terms, strict=True)) if place >= 0 else {},
                nodes=tuple(sorted({task.node for task in claim.placement.tasks})) if claim else (),
                together=together,
                together_written=tuple(label(state, job) for job in together),
                others=others[eviction.beneficiary],
                decided_again=eviction in evicted,
                yielding=_yielding(state, eviction, decided_at) if eviction.rule == BY_YIELD else None,
            )
        )
    return found


def _others(state: State, fact: f.RoundDecided, name: JobId, at: int) -> tuple[Other, ...]:
    """Who else was live: those who could have gone for this job in the order in which they would, then the rest."""
    table = Table(state, fact.pool, at)
    beneficiary = state.kept.jobs[name]
    evicted = {one.job for one in fact.evictions}
    allowed = Victims(table).allowed(beneficiary, is_owed=table.is_owed(beneficiary), everybody=True)
    lacks = [holder for holder, _, _ in missing(table, beneficiary)]
    counting = [(one.job, holders(one.job.spec.group, one.job.spec.user)) for one, _ in allowed]
    idle = [job for job, above in counting if lacks and set(lacks).isdisjoint(above)]
    of_no_help = {job.id for job in idle}
    able = [
        Other(_party(state, victim.job, at), rule, victim.lost_ms, "", _nodes(state, victim.job))
        for victim, rule in allowed
        if victim.job.id not in evicted | of_no_help
    ]
    known = {victim.job.id for victim, _ in allowed} | evicted
    rest = (state.kept.jobs[job] for job in sorted(state.live.get(fact.pool, {})) if job not in known)
    unable = [
        Other(_party(state, job, at), "", 0, _why_not(table, job, beneficiary), _nodes(state, job)) for job in rest
    ]
    why = f"what it counts gives nothing back below {_told_holder(lacks[0])}, which keeps that job out" if lacks else ""
    unable += [Other(_party(state, job, at), "", 0, why, _nodes(state, job)) for job in idle if job.id not in evicted]
    return (*able[:OTHERS_SHOWN], *unable[:OTHERS_SHOWN])


def _told_holder(holder: str) -> str:
    """Whose limit it is, as people call it."""
    group, user = user_of(holder)
    return f"the limit of user {user} of group {group}" if user else f"the limit of group {group or '(all)'}"


def _nodes(state: State, job: Job) -> tuple[str, ...]:
    return tuple(sorted({task.node for task in state.tasks_of(job)}))


def _why_not(table: Table, job: Job, beneficiary: Job) -> str:
    """Why none of the rules let a live job go."""
    state, pool, policy, at = table.state, table.pool.pool, table.policy, table.now
    theirs, mine = effective_priority(pool, job.spec), effective_priority(pool, beneficiary.spec)
    if job.state == JobState.STOPPING:
        return "it was stopping already"
    if not job.spec.preemptible:
        return "it is not preemptible"
    if is_protected(job, at, against=mine):
        return "it was in its protected time"
    if is_shielded(job, at) and theirs < mine:
        return "it had been kept from its work for long, and was left to it"
    if job.id in beneficiary.yielded_to:
        return "it had this job evicted for itself before"
    if theirs == mine and job.spec.checkpoints and (above := passes_above(table, beneficiary)) is not None:
        return _why_it_keeps_its_room(state, job, policy, at=at, above=above)
    if theirs < mine or job.service_class == "opportunistic":
        return "its group is guaranteed what it held, it held nothing that helps, or it is sheltered"
    return f"its priority {theirs} is not below {mine}, and no other rule applied"


def _why_it_keeps_its_room(state: State, job: Job, policy: Policy, *, at: int, above: int) -> str:
    """Why a job that checkpoints does not make way, at that time, for one in this queue that is as important."""
    had = attained(state, job, at)
    if had < share(policy):
        return f"it had not had its share of {policy.yield_after_gpu_s} GPU-seconds"
    if (queue := live_queue(state, job, policy, at)) <= above:
        return f"it was in queue {queue} of those that make way, and the other in queue {above}"
    if not is_patient(job, policy, at):
        return f"it had waited {patience_ms(policy) // 1000} s in all, and makes way no more"
    if not yields_in(state, job, policy, at):
        return f"its run had not lasted {policy.yield_run_s} s"
    return "its group is guaranteed what it held, or it held nothing that helps"


def _yielding(state: State, eviction: f.Eviction, at: int) -> Yielding:
    victim, gains = state.kept.jobs[eviction.job], state.kept.jobs[eviction.beneficiary]
    table = Table(state, victim.spec.pool, at)
    policy = table.policy
    return Yielding(
        policy.yield_after_gpu_s,
        policy.yield_run_s,
        patience_ms(policy) // 1000,
        victim_queue=live_queue(state, victim, policy, at),
        beneficiary_queue=passes_above(table, gains) or 0,
    )


def _party(state: State, job: Job, at: int) -> Party:
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
        attempts=job.attempt,
        own_priority=job.spec.priority,
        had_gpu_s=attained(state, job, at) // GPU_SECOND,
        waited_ms=job.waited_ms,
        checkpoints=job.spec.checkpoints,
        shares=packed_note(state, job) or "",
        written=label(state, job.id),
    )
