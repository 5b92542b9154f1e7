"""What may be lost to make room: tasks that go together, what that gives back, and what a live job is worth."""

from collections.abc import Iterator

from msgspec import Struct

from gangline_core.cluster import Pool
from gangline_core.foresight.forecast import held_by, used_by
from gangline_core.ids import TaskId
from gangline_core.job import Job, Task
from gangline_core.limits.amounts import count, task_amounts
from gangline_core.pauses.packing import guests_of
from gangline_core.pauses.pausing import given_up
from gangline_core.spec import JobSpec, ServiceClass
from gangline_core.table import Table

WAIT, SHRINK, EVICT, PAUSE = "wait", "shrink", "evict", "pause"
BY_CLASS, BY_PRIORITY, BY_GUARANTEE, BY_SERVICE, BY_SLICE = "opportunistic", "priority", "reclaim", "service", "slice"
"""The rules that allow an eviction."""


class Loss(Struct, frozen=True):
    """Tasks that would go together, and what that gives back."""

    kind: str
    job: Job
    tasks: tuple[Task, ...]
    amounts: dict[str, int]
    rule: str = ""
    lost_ms: int = 0
    """Run time thrown away, the most of any who go together."""
    also: tuple[Task, ...] = ()
    """Further tasks of an evicted job that other losses of the same list stand for."""
    guests: tuple[Job, ...] = ()
    """Whoever is packed with the job and goes as it does: their tasks are among these."""


def work_lost(loss: Loss) -> int:
    """What an eviction throws away: GPU thousandths times ms, over all of the job's tasks; CPUs alone count as one."""
    milli = loss.amounts.get("gpu_milli", 0) + sum(share.milli for task in loss.also for share in task.gpus)
    return loss.lost_ms * max(1, milli)


class LiveJob(Struct, frozen=True):
    """A job that could be evicted, and what it is worth."""

    job: Job
    tasks: tuple[Task, ...]
    amounts: dict[str, int]
    priority: int
    lost_ms: int
    guests: tuple[Job, ...] = ()
    """Whoever is packed with it: their tasks are among these."""

    @property
    def cost(self) -> tuple[int, int, int, int, int]:
        """Sorts those that should go first: class, priority, work lost, youngest, newest id."""
        is_firm = self.job.service_class != ServiceClass.OPPORTUNISTIC
        work = self.lost_ms * max(1, self.amounts.get("gpu_milli", 0))
        return (int(is_firm), self.priority, work, -self.job.started_ms, -self.job.id)


def ran_ms(job: Job, now: int) -> int:
    """How long its present run lasts already."""
    return now - job.started_ms if job.started_ms else 0


def thrown_away_ms(job: Job, now: int) -> int:
    """Run time that an eviction now costs this job: none where it goes on from its checkpoint."""
    return 0 if job.spec.checkpoints else ran_ms(job, now)


def effective_priority(pool: Pool, spec: JobSpec) -> int:
    """The job's priority on top of the band of its queue level."""
    return pool.levels.get(spec.level, 0) + spec.priority


def is_protected(job: Job, now: int, against: int | None = None) -> bool:
    """True inside the first seconds of a run in which the job is never preempted, here by whoever has this priority.

    As the preemption toleration of Kubernetes's scheduler plugins; without a priority, protected by anything at all.
    """
    spec = job.spec
    if not spec.protected_s or (
        against is not None and spec.protected_below is not None and against >= spec.protected_below
    ):
        return False
    return spec.protected_s < 0 or not job.started_ms or now - job.started_ms < spec.protected_s * 1000


def is_sealed(job: Job, now: int) -> bool:
    """True while nobody at all may preempt the job, whatever his priority."""
    return bool(job.spec.protected_s) and job.spec.protected_below is None and is_protected(job, now)


def makes_up_ms(job: Job) -> int:
    """Until when a run goes on whose lease is over, since it would be lost and earlier ones were; 0 where none was.

    It lasts at least as long as all that was cut off before. So each one that a lease still cuts off doubles that time,
    and of a run of R there are at most log2(R / the first of them) + 1, however short leases are.
    """
    return 0 if job.spec.checkpoints or not job.started_ms else job.started_ms + job.cut_off_ms


def shield_ends_ms(job: Job) -> int:
    """Until when priority leaves a run to its work (see `shields`); 0 where it does not, or where it has not begun."""
    return job.started_ms + job.shield_ms if job.shield_ms and job.started_ms else 0


def is_shielded(job: Job, now: int) -> bool:
    """True while no higher priority may have the job evicted, since it was kept from its work for long."""
    return bool(job.shield_ms) and (not job.started_ms or now < shield_ends_ms(job))


def is_left_to_work(table: Table, job: Job) -> bool:
    """True while no higher priority has the job go, for its own sake or for that of whoever would go with it."""
    if not job.shield_ms and not table.state.kept.packs:
        return False
    return any(is_shielded(one, table.now) for one in (job, *guests_of(table.state, job.id)))


def as_eviction(victim: LiveJob, rule: str, counted: set[TaskId]) -> Loss:
    """The whole job goes; of its tasks those already `counted` elsewhere free nothing more."""
    tasks = tuple(task for task in victim.tasks if task.id not in counted)
    return Loss(
        kind=EVICT,
        job=victim.job,
        tasks=tasks,
        amounts=victim.amounts if len(tasks) == len(victim.tasks) else used_by(tasks),
        rule=rule,
        lost_ms=victim.lost_ms,
        also=tuple(task for task in victim.tasks if task.id in counted),
        guests=victim.guests,
    )


def as_pause(victim: LiveJob, rule: str) -> Loss:
    """The job as one that stands still and gives up only what pausing gives up."""
    specs = {one.id: one.spec for one in (victim.job, *victim.guests)}
    parts = tuple(given_up(task, specs[task.job]) for task in victim.tasks)
    amounts: dict[str, int] = {}
    for part in parts:
        for dimension, amount in task_amounts(part).items():
            count(amounts, dimension, amount)
    return Loss(kind=PAUSE, job=victim.job, tasks=parts, amounts=amounts, rule=rule, guests=victim.guests)


def live_job(table: Table, job: Job) -> LiveJob:
    """What the job holds, and what it is worth; where others are packed with it, these give their parts as well."""
    guests = guests_of(table.state, job.id)
    tasks = tuple(task for one in (job, *guests) for task in table.state.tasks_of(one))
    return LiveJob(
        job=job,
        tasks=tasks,
        amounts=held_by(table.state, job).used,
        priority=effective_priority(table.pool.pool, job.spec),
        lost_ms=max(thrown_away_ms(one, table.now) for one in (job, *guests)),
        guests=guests,
    )


def shrunk_or_paused(shrinks: list[Loss], pauses: list[Loss]) -> Iterator[list[Loss]]:
    """Losses in which no job is both shrunk and paused, for a member gives its room once; shrunk if that is enough."""
    may_shrink = {loss.job.id for loss in shrinks}
    yield [*shrinks, *(loss for loss in pauses if loss.job.id not in may_shrink)]
    paused = {loss.job.id for loss in pauses}
    if not may_shrink.isdisjoint(paused):
        yield [*(loss for loss in shrinks if loss.job.id not in paused), *pauses]
