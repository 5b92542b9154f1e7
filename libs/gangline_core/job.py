"""A job's life: its states, the events that move it, and the one table of legal moves."""

from enum import StrEnum

from msgspec import Struct

from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.killed import Killed
from gangline_core.reasons import Reason
from gangline_core.spec import CPUS_PER_GPU, JobSpec, ServiceClass


class JobState(StrEnum):
    """Where a job stands."""

    HELD = "held"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESIZING = "resizing"
    PAUSED = "paused"
    """Its processes are stopped where they are and keep their memory; GPU time and CPU are free for others."""
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"


ENDS = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.TIMED_OUT, JobState.LOST})
LIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING, JobState.PAUSED, JobState.STOPPING})
"""States in which a job may hold resources."""
STATE_WORDS: dict[JobState, str] = {
    JobState.HELD: "Held",
    JobState.WAITING: "Waiting",
    JobState.STARTING: "Placed",
    JobState.RUNNING: "Running",
    JobState.RESIZING: "Resizing",
    JobState.PAUSED: "Paused",
    JobState.SUSPENDED: "Suspended",
    JobState.STOPPING: "Stopping",
    JobState.SUCCEEDED: "Succeeded",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
    JobState.TIMED_OUT: "TimedOut",
    JobState.LOST: "Lost",
}
"""The states as public events and conditions write them."""

SLURM_CODES = {
    JobState.HELD: "PD",
    JobState.WAITING: "PD",
    JobState.STARTING: "CF",
    JobState.RUNNING: "R",
    JobState.RESIZING: "RS",
    JobState.PAUSED: "S",
    JobState.SUSPENDED: "S",
    JobState.STOPPING: "CG",
    JobState.SUCCEEDED: "CD",
    JobState.FAILED: "F",
    JobState.CANCELLED: "CA",
    JobState.TIMED_OUT: "TO",
    JobState.LOST: "NF",
}
"""The two letters users of Slurm read."""

KUBERNETES_CONDITIONS = {
    JobState.HELD: "Suspended",
    JobState.WAITING: "QuotaReserved=False",
    JobState.STARTING: "Admitted",
    JobState.RUNNING: "PodsReady",
    JobState.RESIZING: "PodsReady",
    JobState.PAUSED: "Suspended",
    JobState.SUSPENDED: "Suspended",
    JobState.STOPPING: "Evicted",
    JobState.SUCCEEDED: "Complete",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Failed",
    JobState.TIMED_OUT: "Failed",
    JobState.LOST: "Failed",
}
"""The condition that a Kubernetes user would look for."""


class Move(StrEnum):
    """What can happen to a job, seen from its own life."""

    HOLD = "hold"
    RELEASE = "release"
    PLACE = "place"
    ALL_STARTED = "all_started"
    RESIZE = "resize"
    SETTLE = "settle"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    GONE_SUCCEEDED = "gone_succeeded"
    GONE_FAILED = "gone_failed"
    GONE_CANCELLED = "gone_cancelled"
    GONE_TIMED_OUT = "gone_timed_out"
    GONE_LOST = "gone_lost"
    GONE_REQUEUED = "gone_requeued"
    GONE_SUSPENDED = "gone_suspended"
    CANCEL_WAITING = "cancel_waiting"
    GIVE_UP = "give_up"


MOVES: dict[tuple[JobState, Move], JobState] = {
    (JobState.WAITING, Move.HOLD): JobState.HELD,
    (JobState.HELD, Move.RELEASE): JobState.WAITING,
    (JobState.SUSPENDED, Move.RELEASE): JobState.WAITING,
    (JobState.WAITING, Move.PLACE): JobState.STARTING,
    (JobState.STARTING, Move.ALL_STARTED): JobState.RUNNING,
    (JobState.RUNNING, Move.RESIZE): JobState.RESIZING,
    (JobState.RESIZING, Move.RESIZE): JobState.RESIZING,
    (JobState.RESIZING, Move.SETTLE): JobState.RUNNING,
    (JobState.RUNNING, Move.PAUSE): JobState.PAUSED,
    (JobState.PAUSED, Move.RESUME): JobState.RUNNING,
    (JobState.STARTING, Move.STOP): JobState.STOPPING,
    (JobState.RUNNING, Move.STOP): JobState.STOPPING,
    (JobState.RESIZING, Move.STOP): JobState.STOPPING,
    (JobState.PAUSED, Move.STOP): JobState.STOPPING,
    (JobState.STOPPING, Move.STOP): JobState.STOPPING,
    (JobState.STOPPING, Move.GONE_SUCCEEDED): JobState.SUCCEEDED,
    (JobState.STOPPING, Move.GONE_FAILED): JobState.FAILED,
    (JobState.STOPPING, Move.GONE_CANCELLED): JobState.CANCELLED,
    (JobState.STOPPING, Move.GONE_TIMED_OUT): JobState.TIMED_OUT,
    (JobState.STOPPING, Move.GONE_LOST): JobState.LOST,
    (JobState.STOPPING, Move.GONE_REQUEUED): JobState.WAITING,
    (JobState.STOPPING, Move.GONE_SUSPENDED): JobState.SUSPENDED,
    (JobState.WAITING, Move.CANCEL_WAITING): JobState.CANCELLED,
    (JobState.HELD, Move.CANCEL_WAITING): JobState.CANCELLED,
    (JobState.SUSPENDED, Move.CANCEL_WAITING): JobState.CANCELLED,
    **{(one, Move.GIVE_UP): JobState.FAILED for one in (JobState.WAITING, JobState.HELD, JobState.SUSPENDED)},
}
"""The only legal moves; `docs/states.md` is drawn from them."""


class Outcome(StrEnum):
    """What a stopping job becomes when its last task is gone."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    REQUEUED = "requeued"
    SUSPENDED = "suspended"

    @property
    def move(self) -> Move:
        """The move the job makes when its last task is gone."""
        return Move(f"gone_{self.value}")


OUTCOME_RANK = {
    Outcome.REQUEUED: 1,
    Outcome.SUSPENDED: 2,
    Outcome.SUCCEEDED: 3,
    Outcome.FAILED: 3,
    Outcome.LOST: 3,
    Outcome.TIMED_OUT: 3,
    Outcome.CANCELLED: 3,
}
"""A stronger wish replaces a weaker one while the job stops; the first final one stays."""


class ResizeStage(StrEnum):
    """How far one change of size has come; `gangline_core.sizes.resizing` has the table of legal moves."""

    NOTICED = "noticed"
    """Granted; leaving members were told and may still save their work."""
    APPLYING = "applying"
    """Members are starting or stopping."""
    CONFIRMING = "confirming"
    """All are where they should be; the gang has not yet confirmed that it met at the new size."""
    SETTLED = "settled"
    FAILED = "failed"
    """It took too long; what had begun was taken back, or the gang started anew."""
    OVERTAKEN = "overtaken"
    """Something stronger came: the job ended, was evicted, or lost a member."""


class Resize(Struct, frozen=True, omit_defaults=True, gc=False):
    """One change of a job's size, the present one or the last one."""

    number: int
    """Counts the changes of this job from 1."""
    before: dict[str, int]
    after: dict[str, int]
    stage: ResizeStage
    began_ms: int
    stage_ms: int
    why: str = ""
    failures: int = 0
    """Changes of the job that failed one after the other, until this one settles."""


class Pause(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why and since when a job is paused."""

    since_ms: int
    by: str = ""
    """The user who asked for it; empty when a round did it for another job."""
    beneficiary: JobId = JobId(0)
    wants: bool = False
    """True when it goes on as soon as its place is free again."""
    urgent: bool = False
    """True when those who work on its place are paused for it."""


class IllegalMoveError(Exception):
    """An event that does not belong to the job's state; raised in tests, parked with an alarm in production."""


def move(state: JobState, event: Move) -> JobState:
    """The state after the event.

    Raises:
        IllegalMoveError: the table has no such row.
    """
    try:
        return MOVES[state, event]
    except KeyError:
        raise IllegalMoveError(f"a job that is {state} cannot {event}") from None


class Job(Struct, frozen=True, omit_defaults=True, gc=False):
    """One job as the fold knows it."""

    id: JobId
    spec: JobSpec
    state: JobState
    submitted_ms: int
    queued_ms: int
    """Since when the job waits in its present turn; what it waited in earlier turns is in `waited_ms`."""
    submitted_by: str = ""
    attempt: int = 0
    """How often the job has been placed; the first run is 1."""
    tasks: tuple[TaskId, ...] = ()
    """Live tasks of the present attempt, which are also its allocations."""
    sizes: dict[str, int] = {}
    """Tasks per role that the job now has or is growing to; empty before the first placement."""
    next_index: dict[str, int] = {}
    """Per role the next task index of the present attempt; none is used again."""
    reason: Reason | None = None
    """Why the job is not running, or why it ended."""
    outcome: Outcome | None = None
    started_ms: int = 0
    """When all tasks of the present attempt had started; 0 before."""
    first_started_ms: int = 0
    ended_ms: int = 0
    exit_code: int | None = None
    retries_used: int = 0
    preemptions: int = 0
    yielded_to: tuple[JobId, ...] = ()
    """Jobs that it was evicted for, or that took that room over, the last few; it has none of them evicted in turn."""
    losses: int = 0
    silent: int = 0  # Tasks of the present attempt that ended without any output to wait for.
    waited_ms: int = 0
    """Sum of finished waits over all attempts, without what the job had to wait for itself: its time, other jobs."""
    trace: str = ""
    resize: Resize | None = None
    """The change of size under way, or how the last one ended."""
    resize_cost_ms: int = 0
    """What changes of this job took from grant to settled, the later ones weighing more; 0 before the first."""
    asked: dict[str, int] = {}
    """Sizes somebody asked for by hand; policies keep to them."""
    attained: int = 0
    """Service attained by tasks that are gone: GPU thousandths (64 CPUs count as one) times ms, over all attempts."""
    expected_ms: int = 0
    """How long a run without limit and estimate was expected to take when it was placed; 0 when nobody knew."""
    forgiven: int = 0  # Attained service that no longer counts, since the job waited so long that it was promoted.
    array: int = 0  # The array that the job is an element of; 0 when it is none.
    array_index: int = 0
    topped: int = 0
    """Log sequence at which somebody put it before the others of `topped_in`; 0 means nobody did."""
    topped_in: str = ""
    """Group path or user_key among whose jobs it goes first; empty is everybody."""
    winding_down: bool = False
    """A member of the present attempt ended well: the job comes to its end and grows no more."""
    lowered_for: int = 0
    """A job of its group that took over its cells; it runs on as an opportunistic one. 0 when nobody did."""
    lowered_ms: int = 0
    missing: dict[str, int] = {}
    """Members per role that were lost and are to be placed again, and since when the first of them is."""
    missing_ms: int = 0
    pause: Pause | None = None
    limit_percent: int = -1
    """How much of its GPUs' time a job beside others may take, and when that was said; -1 before anybody said."""
    limited_ms: int = 0
    resumed_ms: int = 0  # When it last went on after a pause of the present attempt; 0 when it never did.
    retimed: bool = False  # Its time limit or deadline changed after it was placed; its tasks are told.
    learnt_ms: tuple[int, ...] = ()
    """Its run time as the pool's model foretold it at submission, by quantile (`gangline_core.foresight.learnt`)."""
    cut_off_ms: int = 0  # How long it ran in runs that evictions cut off.
    shield_ms: int = 0  # So long priority leaves the present run to its work, as it was kept from it as long; else 0.
    first_by_age: bool = False  # It starved and went before everything younger when it was placed.
    edited: bool = False  # Its terms are not all as they were asked for.
    killed: Killed | None = None  # Supervisors of it that something on their machines ended, in a row.

    @property
    def service_class(self) -> ServiceClass:
        """How safe it is from being pushed away: as asked for, unless it gave up its cells."""
        return ServiceClass.OPPORTUNISTIC if self.lowered_for else self.spec.service_class


class TaskState(StrEnum):
    """Where one member of a gang stands."""

    PLACED = "placed"
    STARTED = "started"
    EXITED = "exited"
    LOST = "lost"
    """Its node was lost; it keeps the node's room until the node reports, but is no longer the job's."""


class GpuShare(Struct, frozen=True, omit_defaults=True, gc=False):
    """A part of one GPU of a node: index, thousandths, and memory."""

    index: int
    milli: int
    memory_mib: int
    slots: int = 0
    """MIG slots of the card, as a mask; 0 on a card that is not cut."""


class Working(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a paused task takes when it works."""

    cpu_milli: int = 0
    gpus: tuple[GpuShare, ...] = ()


class Task(Struct, frozen=True, omit_defaults=True, gc=False):
    """One member of a gang on one node: an allocation. It holds its room until the agent saw it empty."""

    id: TaskId
    job: JobId
    attempt: int
    role: str
    index: int
    rank: int
    node: NodeId
    group: str
    user: str
    state: TaskState
    placed_ms: int
    gpus: tuple[GpuShare, ...] = ()
    gpu_model: str = ""
    cpu_milli: int = 0
    memory_mib: int = 0
    devices: dict[str, int] = {}
    stop: bool = False
    stop_ms: int = 0
    """When the stop was ordered; 0 when it was not."""
    started_ms: int = 0
    exited_ms: int = 0
    exit_code: int | None = None
    endpoint: str = ""
    """host:port on which rank 0 of the gang is reachable, as its agent reported it."""
    leaves: bool = False
    """It leaves a gang that goes on: it gets its job's notice before the stop signal."""
    safe: bool = False
    """It leaves, and said that it has saved what it must."""
    cells: tuple[str, ...] = ()
    """Cells of its group in which its GPUs are (see gangline_core.room.cells)."""
    pause: bool = False
    """It is paused, or is being paused."""
    working: Working | None = None
    """What it takes when it works, while it is paused and takes less; None when it takes all of it."""
    span_ms: int = 0
    """Since when it takes what it takes now, if that changed since it was placed."""
    used: int = 0
    """GPU thousandths times ms of the time before."""
    served: int = 0
    """The same as service (see `service_milli`)."""
    paused_ms: int = 0
    """How long it has been paused so far, the present pause not counted."""
    pod: str = ""  # Its namespace, name and container, joined by slashes, where it runs in one.

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs held."""
        return sum([share.milli for share in self.gpus])

    @property
    def service_milli(self) -> int:
        """What a millisecond of this task counts as service: its GPU thousandths, or CPUs where 64 are a GPU."""
        return self.gpu_milli or max(1, self.cpu_milli // CPUS_PER_GPU)

    def used_until(self, at: int) -> int:
        """GPU thousandths times ms from its placement to this moment."""
        return self.used + self.gpu_milli * max(0, at - (self.span_ms or self.placed_ms))

    def served_until(self, at: int) -> int:
        """Service from its placement to this moment."""
        return self.served + self.service_milli * max(0, at - (self.span_ms or self.placed_ms))
