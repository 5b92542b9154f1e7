"""How one change of a job's size goes: its stages, what moves it on, and what it cost in the end.

A change begins when a round grants it. What came before it, the proposal, is of the pool; what follows is of the job:

    noticed     leaving members were told and may save; over when all said "safe" or are gone
    applying    members start and stop; room comes back only as they are seen gone
    confirming  all are where they should be, and the gang has to say that it met at its new size
    settled     the change is over; what it took is remembered as its cost

From every stage it may fail (it took too long) or be overtaken (the job stopped, or changed its size again).
"""

from enum import StrEnum

from msgspec.structs import replace

from gangline_core.job import IllegalMoveError, Job, Resize, ResizeStage


class ResizeEvent(StrEnum):
    """What can happen to a change of size."""

    SAFE = "safe"
    """Nobody who leaves has anything left to save."""
    ARRIVED = "arrived"
    """All members are where they should be, and no word of the gang is asked for."""
    MET = "met"
    """All members are where they should be; the gang's word is awaited."""
    CONFIRMED = "confirmed"
    STUCK = "stuck"
    OVERTAKEN = "overtaken"


STAGES: dict[tuple[ResizeStage, ResizeEvent], ResizeStage] = {
    (ResizeStage.NOTICED, ResizeEvent.SAFE): ResizeStage.APPLYING,
    (ResizeStage.NOTICED, ResizeEvent.ARRIVED): ResizeStage.SETTLED,
    (ResizeStage.NOTICED, ResizeEvent.MET): ResizeStage.CONFIRMING,
    (ResizeStage.NOTICED, ResizeEvent.CONFIRMED): ResizeStage.NOTICED,
    (ResizeStage.NOTICED, ResizeEvent.OVERTAKEN): ResizeStage.OVERTAKEN,
    (ResizeStage.NOTICED, ResizeEvent.STUCK): ResizeStage.FAILED,
    (ResizeStage.APPLYING, ResizeEvent.SAFE): ResizeStage.APPLYING,
    (ResizeStage.APPLYING, ResizeEvent.ARRIVED): ResizeStage.SETTLED,
    (ResizeStage.APPLYING, ResizeEvent.MET): ResizeStage.CONFIRMING,
    (ResizeStage.APPLYING, ResizeEvent.CONFIRMED): ResizeStage.APPLYING,
    (ResizeStage.APPLYING, ResizeEvent.STUCK): ResizeStage.FAILED,
    (ResizeStage.APPLYING, ResizeEvent.OVERTAKEN): ResizeStage.OVERTAKEN,
    (ResizeStage.CONFIRMING, ResizeEvent.CONFIRMED): ResizeStage.SETTLED,
    (ResizeStage.CONFIRMING, ResizeEvent.MET): ResizeStage.CONFIRMING,
    (ResizeStage.CONFIRMING, ResizeEvent.STUCK): ResizeStage.FAILED,
    (ResizeStage.CONFIRMING, ResizeEvent.OVERTAKEN): ResizeStage.OVERTAKEN,
}
"""The only legal moves. `docs/states.md` is drawn from this table."""

OVER = frozenset({ResizeStage.SETTLED, ResizeStage.FAILED, ResizeStage.OVERTAKEN})


def is_active(job: Job) -> bool:
    """True while a change of the job's size is under way."""
    return job.resize is not None and job.resize.stage not in OVER


def begun(job: Job, after: dict[str, int], *, noticed: bool, why: str, at: int) -> Job:
    """The job with a new change of size; one that was under way is part of it from now on."""
    last = job.resize
    resize = Resize(
        number=(last.number if last is not None else 0) + 1,
        before=last.before if last is not None and is_active(job) else job.sizes,
        after=after,
        stage=ResizeStage.NOTICED if noticed else ResizeStage.APPLYING,
        began_ms=at,
        stage_ms=at,
        why=why,
        failures=last.failures if last is not None else 0,
    )
    return replace(job, resize=resize)


def advanced(job: Job, event: ResizeEvent, at: int) -> Job:
    """The job with its change moved on; as it was when no change is under way.

    Raises:
        IllegalMoveError: the table has no such row.
    """
    resize = job.resize
    if resize is None or resize.stage in OVER:
        return job
    try:
        stage = STAGES[resize.stage, event]
    except KeyError:
        raise IllegalMoveError(f"a resize that is {resize.stage} cannot be {event}") from None
    if stage == resize.stage:
        return job
    failed = resize.failures + 1 if stage == ResizeStage.FAILED else resize.failures
    failures = 0 if stage == ResizeStage.SETTLED else failed
    job = replace(job, resize=replace(resize, stage=stage, stage_ms=at, failures=failures))
    return replace(job, resize_cost_ms=_cost(job, at)) if stage == ResizeStage.SETTLED else job


def awaits_word(job: Job) -> bool:
    """True when the gang has to confirm each change."""
    return job.spec.elastic.confirm_s > 0


def is_size_of(job: Job, size: int) -> bool:
    """True when this is how many members the job has, in one of its roles or in all of them together."""
    return size in job.sizes.values() or size == sum(job.sizes.values())


def _cost(job: Job, at: int) -> int:
    """The mean of what changes took, each new one weighing as much as all before."""
    assert job.resize is not None
    taken = max(0, at - job.resize.began_ms)
    return (job.resize_cost_ms + taken) // 2 if job.resize_cost_ms else taken
