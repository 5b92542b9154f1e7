"""All that must be remembered of the log: plain values that a snapshot holds, from which everything else is derived."""

from functools import cache
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from gangline_core.cluster import Load, Node, Policy, Pool
from gangline_core.door.array_record import ArrayRecord
from gangline_core.facts import (
    Claim,
    GangMoved,
    JobUsed,
    Reservation,
    ResizeProposed,
    RoundOpened,
    StragglersSeen,
    UsageCharged,
)
from gangline_core.facts.queue import Lease, LimitDate
from gangline_core.foresight.affinity import Affinities
from gangline_core.foresight.past_use import PastUse, UseRecord, note_use
from gangline_core.groups import ROOT, Group, Token, User, UserClass
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import Job, Task
from gangline_core.reserving.windows import Window
from gangline_core.room.seen import SchedulerState
from gangline_core.room.troubles import Troubles
from gangline_core.scoring.decay import Past
from gangline_core.setting_edit import SettingEdit
from gangline_core.sizes.news import Known
from gangline_core.sizes.progress import Point, Progress

ENDED_JOBS_KEPT = 20_000
"""Ended jobs the fold remembers; older ones are found in the archive."""
SUBMITS_KEPT = 100_000
"""Idempotency keys the fold remembers."""


class OpenRound(Struct, frozen=True):
    """A round that waits for its decision: at which sequence and time it was opened."""

    opened: RoundOpened
    seq: int
    at: int


class Pack(Struct, frozen=True, array_like=True):
    """Beside whom a job works on the same GPUs, each with an equal part of them, and since when."""

    host: JobId
    since_ms: int
    by_rule: bool = False
    """It started there by the pool's sharing rule; otherwise reports say whether it stays."""
    is_guest: bool = False
    """It has none of the time of these GPUs in the books, and works in what the host leaves."""


class PoolState(Struct):
    """What the fold knows of one pool's scheduling."""

    pool: Pool
    policy: Policy
    rounds: int = 0
    """Number of the last opened round."""
    open_round: OpenRound | None = None
    opened_seq: int = 0
    """What the last opened round was decided on: its opener had folded the log up to here, and no further."""
    looks_left: int = 0
    """So many more rounds are due although nothing happened: not all who ask for something else were looked at."""
    proposed_seq: int = 0
    """The same of the last proposed size."""
    decided_seq: int = 0
    decided_at: int = 0
    reservations: tuple[Reservation, ...] = ()
    proposals: dict[JobId, ResizeProposed] = {}
    past: Past = field(default_factory=Past)
    """What groups and users used of the pool lately."""
    services: tuple[int, ...] = ()
    """Service of recently ended jobs, as `Job.attained` counts it, oldest first."""
    foreseen: dict[JobId, tuple[int, int]] = {}
    """Written forecasts of jobs that still wait: when each was made, and the wait it foresaw in ms."""
    heads: dict[JobId, tuple[str, int]] = {}
    """Who stands in front of which strict level without finding room, and since when."""
    foreseen_at: int = 0
    """When forecasts were last written down."""
    start_scores: dict[str, dict[int, tuple[int, ...]]] = {}
    """True wait over forecast wait, in thousandths, by size of job ("" is all) and by the hour of the forecast."""
    turns: dict[str, int] = {}
    """Log sequence at which a group or user last had a job placed here."""
    proposed_at: int = 0
    """When sizes were last proposed."""
    later: dict[JobId, ResizeProposed] = {}
    """Growth that was proposed together with what makes room for it, and waits until that is gone."""
    leases: tuple[Lease, ...] = ()
    companies: tuple[tuple[JobId, ...], ...] = ()
    """Who of those is to share GPUs with whom."""
    """The order in which room was last lent."""
    leased_at: int = 0
    """When that was, in ms; 0 when it never was."""
    parts: dict[JobId, dict[str, int]] = {}
    """Per job and GPU model the part of its time, in millionths, that it should have."""
    parts_at: int = 0
    """When these were worked out, in ms."""
    had: dict[JobId, dict[str, int]] = {}
    """Per job and GPU model the ms that it had since then, up to the beginning of the present lease."""
    owed: dict[JobId, dict[str, int]] = {}
    """Per job and GPU model the ms by which it had less (or more, below 0) than its parts before that."""
    stated: dict[JobId, tuple[int, int]] = {}
    """The ranges of these forecasts that were stated, in ms after they were made."""
    tails: dict[str, tuple[int, int]] = {}
    """Per size of job, and of all: the millionths of the scores that ranges leave out below and above."""
    asked_seq: int = 0
    """As `proposed_seq`, of the last size that somebody asked for by hand."""
    nodes_wanted: int = 0
    """How many nodes its jobs would use well; 0 when no policy says so."""
    utility_permille: int = 0
    """How well they would use them."""
    schedulers: dict[int, SchedulerState] = {}
    """Those that decide shares of the pool's rounds, by number; empty where the leader decides alone."""
    ran_on: dict[JobId, dict[str, int]] = {}
    """Where parts of time are allocated: per job and GPU model the ms that it had until parts were last worked out."""
    shared_seq: int = 0
    """Log sequence of the last share of which anything was booked."""
    limit_dates: tuple[LimitDate, ...] = ()
    """Jobs for whom what comes back below their limits is kept, and from when on."""

    def forget_forecast(self, job: JobId) -> None:
        """The job no longer waits here."""
        self.foreseen.pop(job, None)
        self.stated.pop(job, None)


class Kept(Struct):
    """All that a snapshot must hold; plain dictionaries of frozen values."""

    seq: int = 0
    """Log sequence of the last applied message."""
    digest: str = ""
    """Head of the hash chain of all applied messages."""
    at: int = 0
    """Latest time seen in the log, in ms."""
    changed_seq: int = 0
    """Log sequence of the last message after which a round may come out differently."""
    outside_seq: int = 0
    """Log sequence of the last message that brought something from outside: no change of size of our own making."""
    next_job: int = 1
    jobs: dict[JobId, Job] = {}
    tasks: dict[TaskId, Task] = {}
    nodes: dict[NodeId, Node] = {}
    pools: dict[str, PoolState] = {}
    groups: dict[str, Group] = {}
    users: dict[str, User] = {}
    """By user_key."""
    tokens: dict[str, Token] = {}
    claims: dict[JobId, Claim] = {}
    submits: dict[str, tuple[JobId, ...]] = {}
    ended: dict[JobId, None] = {}
    """Ended jobs in the order they ended, oldest first."""
    epochs: dict[str, int] = {}
    """Highest epoch seen per lane."""
    lane_seqs: dict[str, int] = {}
    """Log sequence of the last message of each lane: the writer's expected sequence."""
    uncharged: dict[TaskId, UsageCharged] = {}
    charged: dict[str, int] = {}
    """gpu_milli_ms charged per group path and user_key, ancestors included."""
    exhausted: dict[str, None] = {}
    """Groups whose budget is used up."""
    recent_submits: dict[str, tuple[int, ...]] = {}
    """Admission times of the last minute per group and user_key, for submit rates."""
    utilisation: dict[NodeId, tuple[int, int]] = {}
    """Last summary per node: mean GPU percent (-1 when absent) and its time."""
    loads: dict[NodeId, Load] = {}
    """How busy each node was in its last summary, for placers that look at load."""
    progress: dict[JobId, Progress] = {}
    """What running jobs said of their own progress."""
    alone: dict[JobId, tuple[Point, ...]] = {}
    """Step times that running jobs reported while nobody worked beside them."""
    reported: dict[JobId, int] = {}
    """When running jobs last reported step times."""
    job_use: dict[JobId, JobUsed] = {}
    """How busy the GPUs of each live job were in its last summary."""
    proofs: dict[JobId, int] = {}
    """Log sequence of the cause by which the size of each unfinished job was last changed."""

    arrays: dict[JobId, ArrayRecord] = {}
    windows: dict[str, Window] = {}
    """Dated capacity that administrators keep, by name."""
    classes: dict[str, UserClass] = {}
    """Classes of users, by name."""
    prices: dict[str, int] = {}
    """What a GPU of each model (lower case) costs: thousandths of a GPU-hour of budget per GPU-hour used."""
    prices_version: int = 0
    surcharge: dict[str, int] = {}
    """What charged allocations cost beyond what they used, by the prices of their time; as `charged`."""
    renewed: dict[str, tuple[int, int]] = {}
    """Per group whose budget has periods: when the present one began, and what the group had cost until then."""
    history: dict[str, tuple[int, ...]] = {}
    """Run times in ms of recently ended jobs by class (see `gangline_core.foresight.history`)."""
    use_records: dict[JobId, UseRecord] = {}
    """What each live job used over its whole run so far."""
    use_history: dict[str, tuple[PastUse, ...]] = {}
    """What recently ended jobs used, by class (see `gangline_core.foresight.past_use`)."""
    affinities: Affinities = field(default_factory=Affinities)
    """On which GPU models jobs like others ran, and how long."""
    stragglers: dict[JobId, StragglersSeen] = {}
    """Members of live gangs that are slower than the others, of the attempt that is named."""
    movers: dict[JobId, GangMoved] = {}
    """Members of live gangs that were seen to work, of the attempt that is named."""
    known_news: dict[JobId, Known] = {}
    """What running jobs had said when a report of theirs last was a cause to weigh sizes anew."""
    troubles: Troubles = {}
    """What went wrong on each node before."""
    packs: dict[JobId, Pack] = {}
    """Jobs that went on beside others on the same GPUs (see `gangline_core.pauses.packing`)."""
    unpacked: dict[JobId, tuple[JobId, ...]] = {}
    """Beside whom jobs did not get on well."""
    last_versions: dict[str, int] = {}
    """Of groups and users (by user_key) that were removed: their last versions, so that no later one has the same."""
    sealed: dict[JobId, int] = {}
    """Unfinished jobs and arrays that were given values in secret, and the epoch of the door that let them in."""
    edits: dict[str, dict[str, tuple[SettingEdit, ...]]] = {}
    """By kind of setting and name, edited last at the end: its latest edits (see `gangline_core.fold.edits`)."""
    edits_counted: int = 0
    """How many edits of settings there were in all."""
    foreign_ports: dict[str, tuple[int, ...]] = {}
    """By address the ports on which something listened that is no gang's, found latest at the end."""

    def next_version(self, version: int, holder: str) -> int:
        """The version after this one; of a holder that is new (version 0) one that none of its name ever had."""
        return (version or self.last_versions.get(holder, 0)) + 1

    def let_go(self, job: Job) -> None:
        """A job has ended: what was said of it alone is forgotten, what it used is remembered with its like."""
        note_use(self.use_history, self.use_records, job)
        self.affinities.ended(job, is_shared=job.id in self.packs)
        said_of_it = (self.progress, self.alone, self.reported, self.job_use, self.proofs, self.stragglers, self.movers)
        for said in (*said_of_it, self.known_news, self.unpacked, self.sealed):
            said.pop(job.id, None)


def fresh() -> Kept:
    """The state before the first fact: one pool with the default policy, one group that holds everything."""
    return Kept(
        pools={"default": PoolState(pool=Pool(name="default"), policy=Policy())},
        groups={ROOT: Group(path=ROOT)},
    )


class Made(Struct, frozen=True):
    """The beginning of a snapshot: which build made it."""

    shape: str = ""


class Snapshot(Struct, frozen=True):
    """What is kept, and by which build: one that keeps other things folds the log instead."""

    shape: str
    kept: Kept


@cache
def shape() -> str:
    """Digest of all that this build keeps, names and types: equal for builds that can read each other's snapshots."""
    return blake2b(msgspec.json.encode(msgspec.json.schema(Snapshot), order="deterministic"), digest_size=8).hexdigest()
