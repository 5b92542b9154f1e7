"""Every fact there is: past tense, frozen, each with exactly one writer (see gangline_wire.lanes)."""

from gangline_core.cluster import Policy, Pool
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
from gangline_core.facts.nodes import DrainSet, NodeAssigned, NodeForgotten
from gangline_core.facts.pause import HoldSet, TaskPaused
from gangline_core.facts.pause import JobPaused as JobPaused
from gangline_core.facts.queue import Candidate as Candidate
from gangline_core.facts.queue import Foreseen as Foreseen
from gangline_core.facts.queue import KeptOut as KeptOut
from gangline_core.facts.queue import LimitDate as LimitDate
from gangline_core.facts.queue import (
    RoundOpened,
)
from gangline_core.facts.rounds import Claim as Claim
from gangline_core.facts.rounds import Eviction as Eviction
from gangline_core.facts.rounds import Growth as Growth
from gangline_core.facts.rounds import Lowering as Lowering
from gangline_core.facts.rounds import Placement as Placement
from gangline_core.facts.rounds import Refusal as Refusal
from gangline_core.facts.rounds import Reservation as Reservation
from gangline_core.facts.rounds import Restart as Restart
from gangline_core.facts.rounds import RoundDecided, ShareDecided
from gangline_core.facts.rounds import Shrink as Shrink
from gangline_core.facts.rounds import TaskPlacement as TaskPlacement
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
from gangline_core.facts.tasks import ExitCause as ExitCause
from gangline_core.facts.tasks import GpusEmpty, NodeSeen, TaskExited, TaskStarted
from gangline_core.groups import Group, Token, User
from gangline_core.ids import JobId
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
    ask: str = ""
    """The very request, of which copies may come later; whoever repeats it with the same `submit_id` asks anew."""


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
    | NodeForgotten
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
