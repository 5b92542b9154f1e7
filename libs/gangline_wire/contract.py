"""What a task and the platform say to each other while the job runs: its size, notices, progress (docs/elastic.md)."""

from msgspec import Struct

from gangline_core.job import Job, Task
from gangline_core.sizes.progress import BATCH_MOST, GATHERED_MOST, MILLION, Point, Progress
from gangline_core.spec import ResizeKind, is_beside

NOTHING_SAID = -1
WORD_BYTES_MAX = 16_384
"""Largest body a task may post."""
WAIT_S_MAX = 60.0
"""Longest wait of one question for news."""


class Sizing(Struct, frozen=True, omit_defaults=True):
    """How big the job is or is about to be, as one of its members reads it (size file, HTTP)."""

    job: int
    attempt: int
    task: str
    rank: int
    role: str
    size: int
    """Members of this role, without those that leave."""
    sizes: dict[str, int] = {}
    """The same for every role."""
    resize: int = 0
    """Number of the change of size, counted from 1 per job; 0 before the first."""
    stage: str = ""
    """Where that change stands: noticed, applying, confirming, settled, failed, overtaken."""
    leaves: bool = False
    """True when this member leaves: it should save what it must and say that it is safe."""
    leave_s: int = 0
    """Seconds it has for that before its stop signal, counted from the notice."""
    endpoint: str = ""
    """host:port of the gang's rank 0, which stays through every change."""
    gathered: tuple[int, ...] = ()
    """Ranks of the members that are there or are starting, leaving ones left out."""
    signals: bool = False
    """True when the member gets SIGUSR1 with each change."""
    pauses: bool = False
    """True when the member is told to stand still: it should move off its GPUs what does not stay, and say "safe"."""
    limits: dict[str, int] = {}
    """What an opportunistic job may use beside the guaranteed one, such as gpu_percent; empty is no limit."""

    @property
    def version(self) -> str:
        """A text that is another one whenever there is news."""
        limits = ".".join(f"{name}={value}" for name, value in sorted(self.limits.items()))
        turn = f"{int(self.leaves)}{'p' if self.pauses else ''}"
        return f"{self.attempt}.{self.resize}.{self.stage}.{self.size}.{turn}.{limits}".rstrip(".")

    @property
    def turns(self) -> tuple[int, bool, bool]:
        """What a job that adapts by itself is signalled about."""
        return self.resize, self.leaves, self.pauses


class Report(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a member posts of the job's progress; everything may be left out."""

    percent: float | None = None
    remaining_s: float | None = None
    step: int | None = None
    step_s: float | None = None
    """Seconds of the last step (or their mean since the last report)."""
    samples: int | None = None
    batch: int | None = None
    """Samples per member and step, for which the step time holds."""
    gathered: int = 0
    """Gradients gathered before each update, beyond the first."""
    grad_sqr: float | None = None
    grad_var: float | None = None
    checkpoint_step: int | None = None


COUNT_MOST = 1 << 53
"""Largest whole number that is one in every reader of JSON."""
BOUNDS: dict[str, tuple[float, float]] = {
    "percent": (0, 100),
    "remaining_s": (0, 1e9),
    "step": (0, COUNT_MOST),
    "step_s": (1e-6, 1e6),
    "samples": (0, COUNT_MOST),
    "batch": (1, BATCH_MOST),
    "gathered": (0, GATHERED_MOST),
    "grad_sqr": (0, COUNT_MOST // MILLION),
    "grad_var": (0, COUNT_MOST // MILLION),
    "checkpoint_step": (0, COUNT_MOST),
}
"""Least and largest value of each field of a report that makes sense; others are refused at the desk."""
HAIR = 1e-6
"""What sums of fractions may be beyond a bound."""


def out_of_bounds(report: Report) -> dict[str, str]:
    """Fields of a report that make no sense, each with a sentence that says what would."""
    found: dict[str, str] = {}
    for name, (least, most) in BOUNDS.items():
        value = getattr(report, name)
        if value is not None and not least - least * HAIR <= value <= most + HAIR:
            found[name] = f"`{name}` is {value}: it must be from {_plain(least)} to {_plain(most)}"
    return found


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else f"{bound:g}"


class Confirmed(Struct, frozen=True, forbid_unknown_fields=True):
    """The gang met and works at this size."""

    resize: int
    size: int


def sizing(job: Job, task: Task, members: list[Task]) -> Sizing:
    """What a member should know now."""
    resize = job.resize
    return Sizing(
        job=job.id,
        attempt=task.attempt,
        task=task.id,
        rank=task.rank,
        role=task.role,
        size=job.sizes.get(task.role, 0),
        sizes=job.sizes,
        resize=0 if resize is None else resize.number,
        stage="" if resize is None else resize.stage.value,
        leaves=task.leaves,
        leave_s=job.spec.elastic.notice_s if task.leaves else 0,
        endpoint=task.endpoint,
        pauses=task.pause,
        limits=_limits(job, task),
        signals=job.spec.elastic.kind == ResizeKind.SIGNAL,
        gathered=tuple(member.rank for member in members if not member.stop),
    )


def _limits(job: Job, task: Task) -> dict[str, int]:
    """What a member that works beside others may take of each of its GPUs."""
    is_guest = bool(task.gpus) and not any(share.milli or share.slots for share in task.gpus) and task.working is None
    if not is_beside(job.spec) and not is_guest:
        return {}
    return {"gpu_percent": max(0, job.limit_percent), "gpu_memory_mib": sum(share.memory_mib for share in task.gpus)}


def progress(report: Report, *, nodes: int, members: int) -> Progress:
    """A report in whole numbers, with the shape at which it was made."""
    points: tuple[Point, ...] = ()
    if report.step_s is not None and report.step_s > 0 and nodes and members:
        step_us = max(1, round(min(report.step_s, 1e6) * MILLION))
        batch = max(1, report.batch or 1)
        point = Point(nodes=nodes, members=members, batch=batch, gathered=max(0, report.gathered), step_us=step_us)
        points = (point,) if point.can_be else ()
    return Progress(
        permille=min(1000, _whole(report.percent, 10, most=101)),
        remaining_s=_whole(report.remaining_s, 1),
        step=_whole(report.step, 1),
        samples=_whole(report.samples, 1),
        points=points,
        grad_sqr=_whole(report.grad_sqr, MILLION),
        grad_var=_whole(report.grad_var, MILLION),
        checkpoint_step=_whole(report.checkpoint_step, 1),
    )


def _whole(value: float | None, times: int, most: int = COUNT_MOST) -> int:
    """A number that makes sense, in whole units; others were not said."""
    if value is None or not 0 <= value <= most:
        return NOTHING_SAID
    return min(COUNT_MOST, round(value * times))
