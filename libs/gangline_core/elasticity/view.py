"""What a policy looks at: the elastic jobs of a pool that may change now, the sizes they may have, and the room."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.door.terms import may_begin_again
from gangline_core.groups import ancestors
from gangline_core.job import Job, JobState
from gangline_core.scoring.attained import attained
from gangline_core.seating import allowed_sizes
from gangline_core.sizes import resizing
from gangline_core.sizes.causes import is_new
from gangline_core.sizes.progress import Progress
from gangline_core.spec import Role, costs_gpu_time, least_size
from gangline_core.state import State
from gangline_core.table import Table

FAILED_CALM_S = 60
"""A job whose change of size failed is left alone for so long, and twice as long after each further one."""
DOUBLINGS_MAX = 8


class Elastic(Struct, frozen=True):
    """One role of a running job, and the sizes it may have."""

    job: Job
    role: Role
    size: int
    sizes: tuple[int, ...]
    """Ascending; the present one is among them or between."""
    progress: Progress | None = None

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs of one member; 1 for a member without, so that members can be compared."""
        return max(1, self.role.resources.gpu_milli)

    def above(self, size: int) -> int | None:
        """The next larger allowed size."""
        return next((allowed for allowed in self.sizes if allowed > size), None)

    def below(self, size: int) -> int | None:
        """The next smaller allowed size."""
        return next((allowed for allowed in reversed(self.sizes) if allowed < size), None)


class Target(Struct, frozen=True):
    """The size a role should have, and why."""

    job: Job
    role: str
    size: int
    why: str
    model: str = ""
    """The GPU model it should move to by starting again; empty stays on the one it has."""
    moves: bool = False
    """The whole gang should start again closer together."""


class View(Struct, frozen=True):
    """Everything a policy may look at; `table.room` is what growth may take."""

    state: State
    pool: str
    now: int
    jobs: tuple[Elastic, ...]
    """By job id; one role per job."""
    table: Table
    may_weigh: bool = True
    """True when all jobs may be weighed against each other now: the interval is over and something happened outside."""


def resizable(state: State, pool: str, now: int) -> Iterator[Elastic]:
    """Roles that a policy may resize now: of running jobs at rest, one role each, none that is sized by hand."""
    if not any(sort.elastic for sort in state.live_sorts.get(pool, {})):
        return
    for job_id in sorted(state.live.get(pool, {})):
        job = state.kept.jobs[job_id]
        if job.state != JobState.RUNNING or job.winding_down or resizing.is_active(job) or now < calm_until_ms(job):
            continue
        if job.missing or not is_new(state, job.id):
            continue
        able = [role for role in job.spec.roles if role.is_elastic and role.name not in job.asked]
        growing = (role for role in able if job.sizes.get(role.name, 0) < role.max_count)
        role = next(growing, able[0] if able else None)
        if role is not None:
            yield elastic(state, job, role)


def elastic(state: State, job: Job, role: Role) -> Elastic:
    """One role as policies see it."""
    size, tasks = job.sizes.get(role.name, 0), sum(job.sizes.values())
    least = least_size(job.spec, role, size=size, tasks=tasks) if job.spec.stays else 0
    return Elastic(
        job=job,
        role=role,
        size=size,
        sizes=tuple(allowed for allowed in allowed_sizes(role) if allowed >= least),
        progress=_believed(state.kept.progress.get(job.id)),
    )


def _believed(said: Progress | None) -> Progress | None:
    """What a job said, without step times whose numbers no training can have."""
    if said is None or all(point.can_be for point in said.points):
        return said
    return replace(said, points=tuple(point for point in said.points if point.can_be))


def begins_again(state: State, job: Job, now: int) -> bool:
    """True when a job that is told to stop now may start once more: its deadline lets it, and its budget."""
    spent = costs_gpu_time(job.spec) and any(path in state.kept.exhausted for path in ancestors(job.spec.group))
    had = attained(state, job, now) + job.forgiven if job.spec.deadline_ms else 0
    return not spent and may_begin_again(job.spec, now, had=had)


def calm_until_ms(job: Job) -> int:
    """Until when the job is left alone after its last change: as it asks, and ever longer when its changes fail."""
    if job.resize is None:
        return 0
    fails = job.resize.failures
    failed_s = FAILED_CALM_S << min(fails - 1, DOUBLINGS_MAX) if fails else 0
    return job.resize.stage_ms + max(job.spec.elastic.cooldown_s, failed_s) * 1000


def has_rest(job: Job) -> bool:
    """True when time alone ends something that kept its size as it is."""
    return bool(job.spec.elastic.cooldown_s or (job.resize is not None and job.resize.failures))
