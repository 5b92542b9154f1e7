"""Every fact there is: past tense, frozen, each with exactly one writer (see gangline_wire.lanes)."""

from enum import StrEnum

from msgspec import Struct

from gangline_core.cluster import Node, Policy, Pool
from gangline_core.facts.charges import BudgetExhausted, UsageCharged
from gangline_core.facts.door import (
    ClassSet as ClassSet,
)
from gangline_core.facts.door import (
    GroupRemoved,
    JobEdited,
    JobTopped,
    PricesSet,
    UserRemoved,
    WindowRemoved,
    WindowSet,
)
from gangline_core.facts.form import FactBase
from gangline_core.facts.health import (
    GangHung,
    GangMoved,
    GpuFailed,
    GpuHealthy,
    GpuSuspected,
    GpuTrespassed,
    JobReclaimed,
    JobUsed,
    NodeLost,
    NodeQuarantined,
    StragglersSeen,
    UtilisationSummary,
)
from gangline_core.facts.nodes import DrainSet, NodeAssigned
from gangline_core.facts.pause import HoldSet, JobPaused, TaskPaused
from gangline_core.facts.queue import Candidate as Candidate
from gangline_core.facts.queue import Foreseen as Foreseen
from gangline_core.facts.queue import KeptOut as KeptOut
from gangline_core.facts.queue import LimitDate as LimitDate
from gangline_core.facts.queue import (
    RoundOpened,
)
from gangline_core.facts.size import (
    LimitSet,
    MemberSafe,
    NodesWanted,
    ProgressReported,
    ResizeAsked,
    ResizeConfirmed,
    ResizeFailed,
    ResizeProposed,
)
from gangline_core.groups import Group, Token, User
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare
from gangline_core.reasons import Reason
from gangline_core.spec import JobSpec


class LeadershipTaken(FactBase, frozen=True, tag=True):
    """A new leader begins to write this lane; from here on an older epoch cannot."""

    holder: str


class JobAdmitted(FactBase, frozen=True, tag=True):
    """A job passed the door and waits (or is held)."""

    job: JobId
    spec: JobSpec
    submit_id: str
    """The client's idempotency key, or one made by the gateway; a repeat gives the same answer."""
    by: str
    trace: str = ""


class JobRejected(FactBase, frozen=True, tag=True):
    """A job was refused at the door; nothing was charged."""

    spec: JobSpec
    submit_id: str
    by: str
    reason: Reason
    of: int = 1
    """Jobs in the request, which was refused as a whole; only the ones that were wrong are written."""


class CancelRequested(FactBase, frozen=True, tag=True):
    """Somebody with the right to do so wants the job to end."""

    job: JobId
    by: str
    why: str = ""


class GroupSet(FactBase, frozen=True, tag=True):
    """A group was made or changed as a whole."""

    group: Group
    by: str
    why: str = ""


class UserSet(FactBase, frozen=True, tag=True):
    """A user was made a member of a group, or changed."""

    user: User
    by: str
    why: str = ""


class PoolSet(FactBase, frozen=True, tag=True):
    """A pool was made or changed."""

    pool: Pool
    by: str
    why: str = ""


class PolicySet(FactBase, frozen=True, tag=True):
    """A pool's policy was changed; it holds from the next round on."""

    pool: str
    policy: Policy
    by: str
    why: str = ""


class TokenIssued(FactBase, frozen=True, tag=True):
    """A bearer token exists; only its hash is written."""

    token: Token
    by: str


class TokenRevoked(FactBase, frozen=True, tag=True):
    """A bearer token no longer opens anything."""

    digest: str
    by: str


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
    aged: bool = False
    """Kept from work for long, it passed higher priority or had been evicted, so it is left to work for as long."""
    beside: JobId = JobId(0)  # On the GPUs of this job, an equal part of them each; 0 is on GPUs of its own.


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
    """Run time thrown away, times nothing: the victim's age in this run."""


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


class ShareDecided(FactBase, frozen=True, tag=True):
    """What one of several schedulers placed of its share of a round; each gang is booked if its nodes are unchanged."""

    pool: str
    round: int
    scheduler: int
    placements: tuple[Placement, ...] = ()
    digest: str = ""
    """Digest of the state the decision was made on."""


class ExitCause(StrEnum):
    """Why a task's process is no more."""

    EXITED = "exited"
    STOPPED = "stopped"
    """It was asked to stop and did."""
    TIME_LIMIT = "time_limit"
    START_FAILED = "start_failed"
    PROCESS_LOST = "process_lost"
    """The agent restarted and did not find it again."""
    BUS_LOST = "bus_lost"
    """The agent was cut off for longer than its lease and stopped it itself."""
    GPU_FAILED = "gpu_failed"
    PLACE_REFUSED = "place_refused"
    """The node or its cluster did not take it; nothing of it ever ran."""


class NodeSeen(FactBase, frozen=True, tag=True):
    """An agent describes its node: at its start, after a loss, and whenever the description changes."""

    node: Node
    alive: tuple[TaskId, ...] = ()
    """Tasks whose processes the agent has."""


class TaskStarted(FactBase, frozen=True, tag=True):
    """A task's process runs."""

    task: TaskId
    pid: int = 0
    pod: str = ""
    """Namespace, name and container of its pod, joined by slashes; empty where it runs in none."""


class TaskExited(FactBase, frozen=True, tag=True):
    """A task's process is no more; its room is free only after GpusEmpty."""

    task: TaskId
    cause: ExitCause
    exit_code: int | None = None
    """As a shell would say it: 128 + signal for signals; None when it never ran or is unknown."""
    error: str = ""
    silent: bool = False
    """True when it can have written nothing, so that nobody waits for the end of its output."""


class GpusEmpty(FactBase, frozen=True, tag=True):
    """Nothing of these tasks is left on the node: their room is free."""

    tasks: tuple[TaskId, ...]


Fact = (
    LeadershipTaken
    | JobAdmitted
    | JobRejected
    | CancelRequested
    | HoldSet
    | JobEdited
    | JobTopped
    | WindowSet
    | WindowRemoved
    | PricesSet
    | ClassSet
    | GroupSet
    | UserSet
    | GroupRemoved
    | UserRemoved
    | PoolSet
    | PolicySet
    | DrainSet
    | NodeAssigned
    | TokenIssued
    | TokenRevoked
    | RoundOpened
    | RoundDecided
    | ShareDecided
    | ResizeProposed
    | ResizeAsked
    | ResizeFailed
    | LimitSet
    | NodesWanted
    | MemberSafe
    | ResizeConfirmed
    | ProgressReported
    | NodeSeen
    | TaskStarted
    | TaskExited
    | TaskPaused
    | GpusEmpty
    | NodeLost
    | GpuFailed
    | GpuHealthy
    | UtilisationSummary
    | GpuSuspected
    | NodeQuarantined
    | JobUsed
    | JobReclaimed
    | GangHung
    | StragglersSeen
    | GangMoved
    | GpuTrespassed
    | UsageCharged
    | BudgetExhausted
)
"""The closed union of all facts."""
