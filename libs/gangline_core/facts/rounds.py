"""What a round came to: where gangs go, who waits on, who makes way, and which room is kept for whom."""

from msgspec import Struct

from gangline_core.facts.form import FactBase
from gangline_core.facts.pause import JobPaused
from gangline_core.facts.queue import LimitDate
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare
from gangline_core.reasons import Reason


class TaskPlacement(Struct, frozen=True, omit_defaults=True, gc=False):
    """Where one member goes and what it holds there."""

    role: str
    index: int
    node: NodeId
    gpus: tuple[GpuShare, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    devices: dict[str, int] = {}
    cells: tuple[str, ...] = ()
    """Cells of its group in which its GPUs are (see gangline_core.room.cells)."""


class Placement(Struct, frozen=True, omit_defaults=True, gc=False):
    """A whole gang's places in rank order: member k of the tuple has rank k."""

    job: JobId
    attempt: int
    tasks: tuple[TaskPlacement, ...]
    port: int = 0
    """Port on rank 0's node that the gang meets on; free among live gangs of that address."""
    level: str = ""
    """Smallest topology level that holds the whole gang."""
    backfilled: bool = False
    """It starts before others who wait for room that is reserved for them, and is in nobody's way."""
    aged: bool = False
    """Kept from work for long, it passed higher priority or had been evicted, so it is left to work for as long."""
    first_by_age: bool = False
    """It starved and went first; while it runs it counts for the part of the pool that such jobs may hold."""
    beside: JobId = JobId(0)
    """On the GPUs of this job, an equal part of them each; 0 is on GPUs of its own."""


class Growth(Struct, frozen=True, omit_defaults=True, gc=False):
    """Further members of a running elastic job; their ranks follow the existing ones."""

    job: JobId
    attempt: int
    tasks: tuple[TaskPlacement, ...]


class Refusal(Struct, frozen=True, omit_defaults=True, gc=False):
    """Candidates that could not be placed, with the reason they share."""

    reason: Reason
    jobs: tuple[JobId, ...]


class Eviction(Struct, frozen=True, omit_defaults=True, gc=False):
    """A whole victim, the job it makes room for, and the rule that allows it."""

    job: JobId
    beneficiary: JobId
    rule: str
    lost_ms: int = 0
    """Run time thrown away, whatever the number of its GPUs: its age in this run, or 0 if it checkpoints."""


class Shrink(Struct, frozen=True, omit_defaults=True, gc=False):
    """Members an elastic job gives up, and the job they make room for."""

    job: JobId
    tasks: tuple[TaskId, ...]
    beneficiary: JobId


class Restart(Struct, frozen=True, omit_defaults=True, gc=False):
    """A gang that stops whole and starts again at another size; its room, old and new, is kept for it."""

    job: JobId
    placement: Placement
    why: str = ""
    after: tuple[TaskId, ...] = ()
    """Members of others that start again by the same decision, and leave room that it may need."""


class Claim(Struct, frozen=True, omit_defaults=True, gc=False):
    """Exact room kept for a job while its victims stop; nobody else may take it."""

    job: JobId
    placement: Placement
    victims: tuple[TaskId, ...]
    """Tasks whose room the placement needs; it starts when all of them are gone."""
    made_ms: int


class Lowering(Struct, frozen=True, omit_defaults=True, gc=False):
    """A job that runs on without its cells, as an opportunistic one, and the job of its group that they are for."""

    job: JobId
    beneficiary: JobId


class Reservation(Struct, frozen=True, omit_defaults=True, gc=False):
    """Dated room for the oldest job that cannot start: it fits on these nodes from `start_ms` on."""

    job: JobId
    start_ms: int
    tasks: tuple[TaskPlacement, ...]


class RoundDecided(FactBase, frozen=True, tag=True):
    """What one round came to."""

    pool: str
    round: int
    placements: tuple[Placement, ...] = ()
    growths: tuple[Growth, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    """Only jobs whose reason changed since it was last recorded."""
    evictions: tuple[Eviction, ...] = ()
    shrinks: tuple[Shrink, ...] = ()
    claims: tuple[Claim, ...] = ()
    claims_dropped: tuple[JobId, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    """All reservations that now hold; those not listed are gone."""
    unplaced: int = 0
    """Candidates that did not start in this round."""
    unseen: int = 0
    """Those of them that were not looked at, because the round was full; the next round follows at once."""
    digest: str = ""
    """Digest of the state the decision was made on."""
    restarts: tuple[Restart, ...] = ()
    """Gangs that start again at another size."""
    late_starts: tuple[JobId, ...] = ()
    """Gangs that had room but did not start wholly in time; they give it back."""
    heads: tuple[tuple[str, JobId], ...] = ()
    """Who stood in front of each strict level and found no room."""
    lowerings: tuple[Lowering, ...] = ()
    """Jobs that give up their cells and run on."""
    late_repairs: tuple[JobId, ...] = ()
    """Jobs whose lost members found no room in time: they go on smaller, or start anew."""
    pauses: tuple[JobPaused, ...] = ()
    """Jobs that are paused for others."""
    resumes: tuple[JobId, ...] = ()
    """Paused jobs whose place is free again: they go on."""
    limit_dates: tuple[LimitDate, ...] = ()
    """All dates on limits that now hold; those not listed are gone."""
    packings: tuple[tuple[JobId, JobId], ...] = ()
    """Paused jobs that go on, and beside whom on their GPUs."""
    calls_for_more: bool = True
    """False when all kinds of jobs that the round did not look at lack what those lack that it looked at."""


class ShareDecided(FactBase, frozen=True, tag=True):
    """What one of several schedulers placed of its share of a round; each gang is booked if its nodes are unchanged."""

    pool: str
    round: int
    scheduler: int
    placements: tuple[Placement, ...] = ()
    digest: str = ""
    """Digest of the state the decision was made on."""
