"""Why a job waited, from the log alone: every round it waited in, its place, its score, the reason, who went before.

The log is folded up to each round; the order and its terms stand in the round's first fact, the reason and who was
placed in its second. Who went before the job did so by one of the rules of `How`; a rule is only said where the log
shows it. Times on hold stand beside the rounds, which leave such a job alone, and what was done with it (see `life`).
"""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.door.array_record import array_text
from gangline_core.door.arrays import array_of, as_written, element_number, label
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.reasons import Reason, ReasonCode, sentence
from gangline_core.scoring.first_by_age import goes_first_on_a_part
from gangline_core.state import State
from gangline_lab.archive import Progress, read
from gangline_lab.life import Happening, happenings, where

OF_ROOM = frozenset(
    {
        *(ReasonCode.INSUFFICIENT_GPUS, ReasonCode.FRAGMENTED_GPUS, ReasonCode.INSUFFICIENT_GPU_MEMORY),
        *(ReasonCode.INSUFFICIENT_CPU, ReasonCode.INSUFFICIENT_MEMORY, ReasonCode.INSUFFICIENT_DEVICES),
        *(ReasonCode.INSUFFICIENT_SLICES, ReasonCode.INSUFFICIENT_PLACES, ReasonCode.SHAPE, ReasonCode.TOPOLOGY),
        *(ReasonCode.NO_ELIGIBLE_NODE, ReasonCode.NO_LABEL),
    }
)
"""Reasons that say that no room suits the job."""


CAME_LATE = "it came when this round had been put in order already"


class How(StrEnum):
    """By which rule another job was started while this one waited."""

    STARVING = "waited longer than the policy's starvation time"
    SCORE = "had a higher score"
    AGE = "had the same score and was older"
    ORDER = "stood before it in the order, which here is not made by the score alone"
    KEPT_OUT = "was in the order; this job was kept out of it"
    BARRED = "stood behind; what kept this job was not the room"
    BACKFILL = "stood behind, but fits beside what is reserved"
    FITS = "stood behind, but found room that this job cannot use"
    CLAIM = "room had been cleared for it before"


class Ahead(Struct, frozen=True):
    """Another job that was started in a round in which this one was not."""

    job: JobId
    score: int
    """In millionths; 0 when it was started by its claim and not in the order."""
    how: How
    own_score: int = 0
    """Of the job that waited, in the same round; 0 when it was not in the order."""
    terms: dict[str, int] = {}
    """Each term of the other's score, in millionths."""
    written: str = ""
    """Its number as people write it, such as "42_7"."""


class Stretch(Struct, frozen=True):
    """A time in which no round could start the job: on hold, or suspended."""

    state: str
    since_ms: int
    until_ms: int
    """0 when it had not ended."""


class RoundWaited(Struct, frozen=True):
    """One round that left the job waiting."""

    round: int
    seq: int
    """Log sequence of the decision."""
    at: int
    """When the round was opened, in ms."""
    place: int
    """Place in the order, from 1; 0 when the job was kept out of the round or out of view."""
    of: int
    """Jobs in the order."""
    score: int
    terms: dict[str, int]
    """Each term of the score, in millionths."""
    code: str
    reason: str
    """The recorded reason after the round, as a sentence."""
    ahead: tuple[Ahead, ...]
    passed: tuple[JobId, ...] = ()
    """Jobs that stood before it in the order and were not started either."""
    passed_written: tuple[str, ...] = ()
    """Their numbers as people write them."""


class Why(Struct, frozen=True):
    """A job's waiting, told."""

    job: JobId
    name: str
    state: str
    submitted_ms: int
    started_ms: int
    """0 when it never ran."""
    rounds: tuple[RoundWaited, ...]
    held: tuple[Stretch, ...] = ()
    life: tuple[Happening, ...] = ()
    """What was done with it: starts, moves, changes of size, pauses and stops."""
    ended_ms: int = 0
    """0 when it has not ended."""
    written: str = ""
    """Its number as people write it, such as "42_7"."""
    entered_ms: int = 0
    """When an element came into the queue, behind others of its array; 0 where it was there from the start."""
    at_most: int = 0
    """So many elements of its array may be in the queue or run at once; 0 says nothing."""


class UnknownJobError(Exception):
    """The archive has no such job."""


def why(path: Path, job: JobId, *, index: int | None = None, progress: Progress | None = None) -> Why:
    """Why this job of an archive waited, or this element of an array.

    Raises:
        ArchiveError: the archive is broken.
        UnknownJobError: it has no such job.
    """
    return why_of((entry.message for entry in read(path, progress=progress)), job, index)


def why_of(messages: Iterable[Message], job: JobId, index: int | None = None) -> Why:
    """The same of messages, a log from its beginning."""
    watcher = _Watcher(job, index)
    for message in messages:
        watcher.hear(message)
    return watcher.told()


class _Watcher:
    def __init__(self, job: JobId, index: int | None) -> None:
        self.job = job
        self.index = index
        """Of an element whose array has not come yet; None once its number is known."""
        self.state = State()
        self.last: Job | None = None
        self.rounds: list[RoundWaited] = []
        self.held: list[Stretch] = []
        self.life: list[Happening] = []
        self.entered_ms = 0
        self.waits_since = 0
        """Sequence of the message by which the job began to wait for room."""
        self.seen: dict[str, int] = {}
        """By pool, the state on which its open round was put in order."""
        self.started: dict[str, list[f.Placement]] = {}
        """By pool, whom its last round has started so far, in a share of it or in its decision."""

    def hear(self, message: Message) -> None:
        job = self.state.job(self.job) if self.index is None else None
        waits = job is not None and job.state == JobState.WAITING
        pool = self.state.kept.pools.get(job.spec.pool) if job is not None else None
        opened = pool.open_round if pool is not None else None
        for fact in message.facts:
            if isinstance(fact, f.RoundOpened):
                self.seen[fact.pool] = message.seq - 1 if message.seen < 0 else message.seen
                self.started[fact.pool] = []
        is_decision = any(isinstance(fact, f.RoundDecided) for fact in message.facts)
        stood = where(self.state, self.state.tasks_of(job)) if job is not None and is_decision else ""
        step = apply(self.state, message)
        starting = {moved.job for moved in step.moves if moved.after == JobState.STARTING}
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided | f.ShareDecided):
                # What no longer held when it was folded started nobody.
                booked = [placement for placement in fact.placements if placement.job in starting]
                self.started.setdefault(fact.pool, []).extend(booked)
        if self.index is not None:
            self._look_for_element(self.index)
        after = self.state.job(self.job) if self.index is None else None
        if after is not None:
            self.entered_ms = message.at if self.last is None else self.entered_ms
            self.last = after
            self._note_hold(after, message.at)
            self.life.extend(happenings(self.state, message, step, after, stood))
            if after.state == JobState.WAITING and not waits:
                self.waits_since = message.seq
        for fact in message.facts if waits and opened is not None else ():
            if isinstance(fact, f.RoundDecided) and after is not None and after.state == JobState.WAITING:
                assert opened is not None
                if fact.pool == opened.opened.pool:
                    self.rounds.append(self._round(opened.opened, message.seq, opened.at, after))

    def _look_for_element(self, index: int) -> None:
        """The element's own number, as soon as its array is there; none of its elements has waited before that."""
        element = element_number(self.state, self.job, index)
        if element is not None:
            self.job, self.index = element, None

    def _note_hold(self, job: Job, at: int) -> None:
        is_open = bool(self.held) and not self.held[-1].until_ms
        if is_open and self.held[-1].state != job.state:
            self.held[-1] = replace(self.held[-1], until_ms=at)
            is_open = False
        if not is_open and job.state in (JobState.HELD, JobState.SUSPENDED):
            self.held.append(Stretch(state=job.state, since_ms=at, until_ms=0))

    def _round(self, opened: f.RoundOpened, seq: int, at: int, job: Job) -> RoundWaited:
        places = {candidate.job: place for place, candidate in enumerate(opened.candidates)}
        place = places.get(self.job, -1)
        if place < 0 and self.waits_since > self.seen.get(opened.pool, 0):
            of = len(opened.candidates)
            return RoundWaited(opened.round, seq, at, 0, of, 0, {}, code="", reason=CAME_LATE, ahead=())
        own = opened.candidates[place] if place >= 0 else None
        # Started in a share, it may have lost its machine before the round was decided.
        placements = [placement for placement in self.started[opened.pool] if placement.job != self.job]
        started = {placement.job for placement in placements}
        before = opened.candidates[: max(0, place)]
        passed = tuple(one.job for one in before if one.job not in started)
        return RoundWaited(
            round=opened.round,
            seq=seq,
            at=at,
            place=place + 1,
            of=len(opened.candidates),
            score=own.score if own else 0,
            terms=dict(zip(opened.terms, own.terms, strict=True)) if own else {},
            code=job.reason.code if job.reason else "",
            reason=_sentence(self.state, job.reason),
            ahead=tuple(self._ahead(opened, job, places, one, at) for one in placements),
            passed=passed,
            passed_written=tuple(label(self.state, one) for one in passed),
        )

    def _ahead(
        self,
        opened: f.RoundOpened,
        job: Job,
        places: dict[JobId, int],
        placement: f.Placement,
        at: int,
    ) -> Ahead:
        place = places.get(placement.job, -1)
        if place < 0:
            return Ahead(job=placement.job, score=0, how=How.CLAIM, written=label(self.state, placement.job))
        other = opened.candidates[place]
        own = opened.candidates[places[job.id]] if job.id in places else None
        if own is None:
            how = How.KEPT_OUT
        elif place < places[job.id]:
            how = self._before(own, other, placement, opened.pool, at)
        elif placement.backfilled:
            how = How.BACKFILL
        else:
            how = How.FITS if job.reason is None or job.reason.code in OF_ROOM else How.BARRED
        terms = dict(zip(opened.terms, other.terms, strict=True))
        return Ahead(
            job=placement.job,
            score=other.score,
            how=how,
            own_score=own.score if own is not None else 0,
            terms=terms,
            written=label(self.state, placement.job),
        )

    def _before(self, own: f.Candidate, other: f.Candidate, placement: f.Placement, pool: str, at: int) -> How:
        if other.score > own.score:
            return How.SCORE
        policy, job = self.state.kept.pools[pool].policy, self.state.job(other.job)
        if other.score < own.score and job is not None and policy.starvation_s:
            is_old = at - job.submitted_ms >= 1000 * policy.starvation_s
            if placement.first_by_age or (is_old and not goes_first_on_a_part(policy)):
                return How.STARVING
        mine = self.state.job(own.job)
        is_older = job is not None and mine is not None and (job.queued_ms, job.id) < (mine.queued_ms, mine.id)
        return How.AGE if other.score == own.score and is_older else How.ORDER

    def told(self) -> Why:
        if self.last is None:
            raise UnknownJobError(self._unknown())
        job = self.last
        array = array_of(self.state, self.job)
        terms = array.spec.array if array is not None else None
        return Why(
            job=self.job,
            name=job.spec.name,
            state=job.state,
            submitted_ms=job.submitted_ms,
            entered_ms=self.entered_ms if self.entered_ms > job.submitted_ms else 0,
            at_most=terms.at_most if terms is not None else 0,
            started_ms=job.first_started_ms if job.state not in ENDS or job.attempt else 0,
            rounds=tuple(self.rounds),
            held=tuple(self.held),
            life=tuple(self.life),
            ended_ms=job.ended_ms if job.state in ENDS else 0,
            written=label(self.state, self.job),
        )

    def _unknown(self) -> str:
        array = self.state.kept.arrays.get(self.job)
        if array is not None and array.spec.array is not None:
            indexes = f"its indexes are {array_text(array.spec.array)}"
            if self.index is not None:
                return f"array {self.job} has no element {self.index}; {indexes}"
            first = f"{self.job}_{array.index(0)}"
            return f"job {self.job} is an array; ask for one of its elements, such as {first}; {indexes}"
        if self.index is not None:
            return f"the archive has no array {self.job}"
        if array_of(self.state, self.job) is not None:
            name = label(self.state, self.job)
            return f"job {name} is an element of an array that was never in the queue: it waited behind the others"
        return f"the archive has no job {self.job}"


def _sentence(state: State, reason: Reason | None) -> str:
    if reason is None:
        return "no reason was recorded; jobs of the same kind stand for it"
    return sentence(as_written(state, reason))
