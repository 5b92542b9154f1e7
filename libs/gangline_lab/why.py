"""Why a job waited, from the log alone: every round it waited in, its place, its score, the reason, who went before.

The log is folded up to each round; the order and its terms stand in the round's first fact, the reason and who was
placed in its second. Who went before the job did so by one of the rules of `How`.
"""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from gangline_core import facts as f
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.reasons import Reason, sentence
from gangline_core.state import State
from gangline_lab.archive import Progress, read


class How(StrEnum):
    """By which rule another job was started while this one waited."""

    STARVING = "waited longer than the policy's starvation time"
    SCORE = "had a higher score"
    AGE = "had the same score and was older"
    BACKFILL = "stood behind, but fits beside what is reserved"
    FITS = "stood behind, but found room that this job cannot use"
    CLAIM = "room had been cleared for it before"


class Ahead(Struct, frozen=True):
    """Another job that was started in a round in which this one was not."""

    job: JobId
    score: int
    """In millionths; 0 when it was started by its claim and not in the order."""
    how: How


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


class Why(Struct, frozen=True):
    """A job's waiting, told."""

    job: JobId
    name: str
    state: str
    submitted_ms: int
    started_ms: int
    """0 when it never ran."""
    rounds: tuple[RoundWaited, ...]


class UnknownJobError(Exception):
    """The archive has no such job."""


def why(path: Path, job: JobId, *, progress: Progress | None = None) -> Why:
    """Why this job of an archive waited.

    Raises:
        ArchiveError: the archive is broken.
        UnknownJobError: it has no such job.
    """
    return why_of((entry.message for entry in read(path, progress=progress)), job)


def why_of(messages: Iterable[Message], job: JobId) -> Why:
    """The same of messages, a log from its beginning."""
    watcher = _Watcher(job)
    for message in messages:
        watcher.hear(message)
    return watcher.told()


class _Watcher:
    def __init__(self, job: JobId) -> None:
        self.job = job
        self.state = State()
        self.last: Job | None = None
        self.rounds: list[RoundWaited] = []

    def hear(self, message: Message) -> None:
        job = self.state.job(self.job)
        waits = job is not None and job.state == JobState.WAITING
        pool = self.state.kept.pools.get(job.spec.pool) if job is not None else None
        opened = pool.open_round if pool is not None else None
        apply(self.state, message)
        after = self.state.job(self.job)
        if after is not None:
            self.last = after
        for fact in message.facts if waits and opened is not None else ():
            if isinstance(fact, f.RoundDecided) and after is not None and after.state == JobState.WAITING:
                assert opened is not None
                if fact.pool == opened.opened.pool:
                    self.rounds.append(self._round(opened.opened, fact, message.seq, opened.at, after))

    def _round(self, opened: f.RoundOpened, decided: f.RoundDecided, seq: int, at: int, job: Job) -> RoundWaited:
        places = {candidate.job: place for place, candidate in enumerate(opened.candidates)}
        place = places.get(self.job, -1)
        own = opened.candidates[place] if place >= 0 else None
        return RoundWaited(
            round=opened.round,
            seq=seq,
            at=at,
            place=place + 1,
            of=len(opened.candidates),
            score=own.score if own else 0,
            terms=dict(zip(opened.terms, own.terms, strict=True)) if own else {},
            code=job.reason.code if job.reason else "",
            reason=_sentence(job.reason),
            ahead=tuple(self._ahead(opened, own, places, one, at) for one in decided.placements),
        )

    def _ahead(
        self,
        opened: f.RoundOpened,
        own: f.Candidate | None,
        places: dict[JobId, int],
        placement: f.Placement,
        at: int,
    ) -> Ahead:
        place = places.get(placement.job, -1)
        if place < 0:
            return Ahead(job=placement.job, score=0, how=How.CLAIM)
        other = opened.candidates[place]
        if own is None or place < places[own.job]:
            how = self._before(own, other, opened.pool, at)
        else:
            how = How.BACKFILL if placement.backfilled else How.FITS
        return Ahead(job=placement.job, score=other.score, how=how)

    def _before(self, own: f.Candidate | None, other: f.Candidate, pool: str, at: int) -> How:
        if own is None or other.score > own.score:
            return How.SCORE
        starves_ms = 1000 * self.state.kept.pools[pool].policy.starvation_s
        job = self.state.job(other.job)
        if other.score < own.score and job is not None and starves_ms and at - job.submitted_ms >= starves_ms:
            return How.STARVING
        return How.AGE

    def told(self) -> Why:
        if self.last is None:
            raise UnknownJobError(f"the archive has no job {self.job}")
        job = self.last
        return Why(
            job=self.job,
            name=job.spec.name,
            state=job.state,
            submitted_ms=job.submitted_ms,
            started_ms=job.first_started_ms if job.state not in ENDS or job.attempt else 0,
            rounds=tuple(self.rounds),
        )


def _sentence(reason: Reason | None) -> str:
    return sentence(reason) if reason is not None else "no reason was recorded; jobs of the same kind stand for it"
