"""What the HTTP API answers about jobs, and how it says no.

Times are integer milliseconds since the Unix epoch (UTC), quantities integers in the unit their name ends in,
GPUs in thousandths. A field that is absent has its default; a client ignores fields it does not know.
"""

from msgspec import Struct

from gangline_core.spec import JobSpec
from gangline_wire.requests import EventLine


class View(Struct, frozen=True, omit_defaults=True):
    """What all answers share."""


# --- errors ------------------------------------------------------------------------------------------------


class FieldErrorView(View, frozen=True):
    """One wrong field of the request."""

    path: str
    """Where in the body or query, such as "roles[0].memory"."""
    message: str


class ReasonView(View, frozen=True):
    """Why a job waits, was refused or ended: the closed code, its numbers, one sentence, and what to do."""

    code: str
    sentence: str
    numbers: dict[str, int | str] = {}
    hint: str = ""


class RefusalView(View, frozen=True):
    """Why one job of a submit was refused; `index` counts from 0."""

    index: int
    reason: ReasonView


class ProblemView(View, frozen=True):
    """Problem details as of RFC 9457, media type application/problem+json."""

    type: str
    """A relative address of the problem's documentation: "/problems#<code>"."""
    title: str
    status: int
    code: str
    """The same for machines; the codes are listed in the gateway's README."""
    detail: str = ""
    instance: str = ""
    request_id: str = ""
    errors: tuple[FieldErrorView, ...] = ()
    refusals: tuple[RefusalView, ...] = ()
    retry_after_s: float | None = None


# --- jobs --------------------------------------------------------------------------------------------------


class TaskView(View, frozen=True):
    """One live member of a job."""

    id: str
    role: str
    index: int
    rank: int
    node: str
    state: str
    gpus: tuple[int, ...] = ()
    """Indices of its GPUs on the node."""
    gpu_milli: int = 0
    gpu_model: str = ""
    gpu_fence: str = ""
    """What keeps it to its GPUs: "container", or "not enforced" where it only is told which; empty without GPUs."""
    cpu_milli: int = 0
    memory_mib: int = 0
    stop: bool = False
    """It was told to stop and is not gone yet."""
    started_ms: int = 0
    exit_code: int | None = None


class ArrayView(View, frozen=True):
    """What there is to say of an array as a whole."""

    indexes: str
    """As it was asked for, such as "0-999%10"."""
    size: int
    at_most: int = 0
    """Elements that may be unfinished at once; 0 means no cap."""
    counts: dict[str, int] = {}
    """Elements by state."""
    elements: dict[str, str] = {}
    """Indexes by state, as ranges: {"running": "42-51"}; only in the answer to one job."""


class UseView(View, frozen=True):
    """How busy a job's whole GPUs were in its last summary; absent values were left out."""

    gpu_percent: int | None
    """Time in which some kernel ran; not how much of the GPU it used. None when no GPU of it was measured."""
    window_s: int
    memory_mib_max: int | None = None
    """Most memory in use on one of its GPUs."""
    is_low: bool = False
    """True when the pool asks for more and will take the GPUs back."""
    advice: str = ""
    """What it might have asked for instead."""
    tensor_percent: int | None = None
    """How busy the tensor cores were, where cards measure that."""
    cpu_milli: int | None = None
    """Thousandths of a CPU that its processes used, all members together."""
    cpu_milli_held: int = 0
    memory_mib: int | None = None
    """Most memory that its processes had, all members together."""
    memory_mib_held: int = 0


class ResizeView(View, frozen=True):
    """The change of a job's size under way, or how the last one ended."""

    number: int
    stage: str
    """noticed, applying, confirming, settled, failed or overtaken."""
    before: dict[str, int]
    after: dict[str, int]
    why: str = ""
    began_ms: int = 0
    cost_ms: int = 0
    """What changes of this job took, on a mean that favours the last ones."""


class ProgressView(View, frozen=True):
    """What a job said of its own progress; None is what it did not say."""

    percent: float | None = None
    remaining_s: int | None = None
    step: int | None = None
    checkpoint_step: int | None = None
    told_ms: int = 0
    """When it said so; reports that tell nothing new are not written down at once."""


class EffectView(View, frozen=True):
    """One limit, guarantee or budget as it would stand with the job; amounts are integers as in group settings.

    Those of the dimension "budget" are GPU thousandths times milliseconds at their price.
    """

    holder: str
    """A group path, or `group:user`."""
    dimension: str
    used: int
    needed: int
    limit: int | None = None
    guaranteed: int | None = None


class ForetoldView(View, frozen=True):
    """What would become of a job that comes now and alone; only in the answer to a dry run."""

    has_room: bool
    """There is room for it at this moment."""
    reason: ReasonView | None
    """What it would wait for."""
    position: int
    waiting: int
    """How many would wait, this one included."""
    effects: tuple[EffectView, ...] = ()
    nodes: tuple[str, ...] = ()
    """Where it would go now, or else some nodes that it may go to."""
    nodes_suitable: int = 0
    start_from_ms: int | None = None
    start_to_ms: int | None = None
    confidence: str = ""
    start_note: str = ""
    cost_milli: int | None = None
    """The most that one run costs, in thousandths of a GPU-hour by the price list; None without a time limit."""
    advice: tuple[str, ...] = ()
    """What jobs like it used of what they had, where that was far less."""


class JobView(View, frozen=True):
    """One job as it stands now."""

    id: int
    name: str
    state: str
    slurm: str
    """The two letters users of Slurm read."""
    group: str
    user: str
    pool: str
    level: str = "normal"
    priority: int = 0
    service_class: str = "burstable"
    gpu_milli: int = 0
    """Thousandths of GPUs asked for at start, over all roles."""
    size: int = 0
    """Tasks asked for at start, over all roles."""
    submitted_ms: int = 0
    queued_ms: int = 0
    """Since when it waits in its present turn."""
    started_ms: int = 0
    """When all tasks of the present attempt had started; 0 before."""
    first_started_ms: int = 0
    ended_ms: int = 0
    exit_code: int | None = None
    attempt: int = 0
    retries_used: int = 0
    preemptions: int = 0
    losses: int = 0
    waited_ms: int = 0
    sizes: dict[str, int] = {}
    """Tasks per role that it now has or is growing to."""
    labels: dict[str, str] = {}
    reason: ReasonView | None = None
    """Why it does not run (in lists, with the numbers of now where at most 2,000 wait in the pool), or why it ended."""
    tasks: tuple[TaskView, ...] = ()
    """Live tasks in rank order; only in the answer to one job."""
    spec: JobSpec | None = None
    """As asked for, secrets sealed; only in the answer to one job."""
    array: ArrayView | None = None
    """Set for an array; its elements are jobs of their own, written 42_7."""
    array_job: int = 0
    """The array that this job is an element of; 0 for a job of its own."""
    array_index: int = 0
    not_before_ms: int = 0
    deadline_ms: int = 0
    time_limit_s: int = 0
    use: UseView | None = None
    resize: ResizeView | None = None
    progress: ProgressView | None = None
    foretold: ForetoldView | None = None
    """What would become of it; only in the answer to a dry run."""
    missing: dict[str, int] = {}
    """Members per role that were lost and that the next rounds place again, beside those that still run."""
    missing_ms: int = 0
    """Since when the first of them is missing."""
    stragglers: dict[str, int] = {}
    """Members that need longer for a step than the others, in percent of the median."""
    lowered_for: int = 0
    """A job of its group that took over its cells; it runs on as an opportunistic one. 0 when nobody did."""
    gpu_milli_held: int = 0
    """Thousandths of GPUs that its tasks hold now: more than asked for at start where an elastic job has grown."""


class JobPage(View, frozen=True):
    """Some jobs in id order; `next` is the cursor of the following page, empty at the end."""

    jobs: tuple[JobView, ...]
    next: str = ""


class SubmittedView(View, frozen=True):
    """One job of a batch that was admitted (id 0 in a dry run)."""

    id: int
    name: str
    state: str
    foretold: ForetoldView | None = None
    """What would become of it if it came alone; only in the answer to a dry run, and of the first jobs of it."""


class BatchView(View, frozen=True):
    """All jobs of a batch, in the order they were given."""

    jobs: tuple[SubmittedView, ...]
    repeated: bool = False
    """True when the same Idempotency-Key had been answered before."""


class TermView(View, frozen=True):
    """One term of a score, in millionths."""

    name: str
    value: int


class ExcludedView(View, frozen=True):
    """Nodes that can take none of the job's tasks, for one cause."""

    cause: str
    nodes: int
    gpus: int


class MoveView(View, frozen=True):
    """A running job that could go on elsewhere; its number is 0 when the caller may not see it."""

    job: int
    from_nodes: tuple[str, ...]
    to_nodes: tuple[str, ...]
    lost_gpu_ms: int
    """GPU time that is lost unless it checkpoints."""
    tasks: int = 0
    """Tasks that move; the others of the job run on meanwhile."""
    of_tasks: int = 0
    """Tasks that the job has."""


class ShortfallView(View, frozen=True):
    """What stands between a waiting job and its room."""

    verdict: str
    """"never" when no empty pool could hold the job, else "not now"."""
    excluded: tuple[ExcludedView, ...] = ()
    able_nodes: int = 0
    """Nodes that could take at least one of its tasks now."""
    best: str = ""
    """The best place that exists."""
    missing: str = ""
    """What would have to come free."""
    moves: tuple[MoveView, ...] = ()
    """A proposal: running jobs that could move so that it starts. Nothing is moved by itself."""
    moves_note: str = ""


class ExplanationView(View, frozen=True):
    """Why the job is where it is, and what is known about its start."""

    job: int
    state: str
    slurm: str
    sentence: str
    code: str = ""
    """Reason code; empty for a job that runs."""
    numbers: dict[str, int | str] = {}
    hint: str = ""
    pool: str = ""
    position: int = 0
    """1 is next; 0 when it does not wait in a queue."""
    waiting: int = 0
    """Jobs waiting in the pool."""
    score: int | None = None
    """In millionths; None before the first round that looked at it."""
    terms: tuple[TermView, ...] = ()
    rejected: dict[str, int] = {}
    """Nodes that cannot take it now, counted by cause."""
    start_from_ms: int | None = None
    start_to_ms: int | None = None
    """Expected start as a range; None when nobody can honestly say."""
    confidence: str = ""
    start_note: str = ""
    """What the estimate rests on, or why there is none."""
    notes: tuple[str, ...] = ()
    """Further facts a user can act on, such as earlier preemptions."""
    also: tuple[ReasonView, ...] = ()
    """What else would keep it back if the reason were gone."""
    level_position: int = 0
    """1 is next among the jobs of its queue level."""
    level_waiting: int = 0
    shortfall: ShortfallView | None = None
    """What it lacks of room; absent when it does not wait for room."""


class HistoryView(View, frozen=True):
    """A job's story, oldest first."""

    job: int
    events: tuple[EventLine, ...]
    left_out: int = 0
    """Events beyond what an answer may hold, which has the first ones and the newest; `GET /v1/events?job=` sends them,
    with `Last-Event-ID` of the last one that stands before them.
    """
    left_out_after: int = 0
    """How many of `events` stand before those that are left out."""
