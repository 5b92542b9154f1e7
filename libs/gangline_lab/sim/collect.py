"""What a simulation came to, noted while it runs: every job's record, and each pool's use over time."""

import numpy as np
from msgspec import Struct

from gangline_core import columns as c
from gangline_core import facts as f
from gangline_core.ageing import waited_ms
from gangline_core.ids import JobId
from gangline_core.job import ENDS, LIVE, Job, JobState
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.state import State
from gangline_core.step import Step
from gangline_lab.sim.runs import Run
from gangline_lab.sim.workload import Work


class JobRecord(Struct, frozen=True, gc=False):
    """One job of a run, from its arrival to its end or the end of the run. Times in ms after the trace began."""

    number: int
    """Place in the trace, from 0."""
    name: str
    group: str
    user: str
    gpu_milli: int
    """GPU thousandths asked for."""
    state: str
    submitted_ms: int
    first_started_ms: int
    """-1 when it never ran."""
    ended_ms: int
    """-1 when it has not ended."""
    waited_ms: int
    run_ms: int
    """Run time alone and undisturbed: what its trace says, or what its table gives on the best it may ask for."""
    attempts: int
    preemptions: int
    losses: int
    costs_ms: int
    """Time paid for starts and restarts."""
    lost_ms: int
    """Run time whose work was lost and done again."""
    useful_gpu_ms: int
    """GPU thousandths times ms in which work went on."""
    overhead_gpu_ms: int
    deadline_ms: int
    """When it should have ended; 0 when nobody said."""
    contention: float
    """Jobs in the system, on average over its life: itself and all others, waiting and running."""

    @property
    def jct_ms(self) -> int:
        """From its arrival to its end; -1 when it has not ended."""
        return self.ended_ms - self.submitted_ms if self.ended_ms >= 0 else -1


class Point(Struct, frozen=True, array_like=True, gc=False):
    """A pool from this time on, until the next point."""

    at: int
    held_milli: int
    there_milli: int
    scattered_milli: int
    """Free GPU thousandths on nodes that somebody holds a part of."""
    running: int
    waiting: int
    waiting_milli: int
    """GPU thousandths that waiting jobs ask for."""
    fairness: float
    """Jain's index over groups that want anything: what each holds over what equal shares would give it."""


class Collector:
    """Watches a simulation."""

    def __init__(self, state: State, begin_ms: int, sample_ms: int) -> None:
        """Times are told after `begin_ms`; a point at most every `sample_ms`."""
        self._state = state
        self._begin = begin_ms
        self._sample_ms = sample_ms
        self.records: list[JobRecord] = []
        self.points: dict[str, list[Point]] = {}
        self._sampled: dict[str, int] = {}
        self._numbers: dict[JobId, tuple[int, Work, float]] = {}
        self._in_system = 0
        self._integral = 0.0
        """Jobs in the system, times ms, up to `_integral_ms`."""
        self._integral_ms = begin_ms
        self.rounds = 0
        self.verdicts = 0
        self.preemptions = 0

    # --- noting ---------------------------------------------------------------------------------------------

    def expect(self, job: JobId, number: int, work: Work, now: int) -> None:
        """This job of the log is that one of the trace."""
        self._count_system(now, 1)
        self._numbers[job] = (number, work, self._integral)

    def _count_system(self, now: int, change: int) -> None:
        self._integral += self._in_system * (now - self._integral_ms)
        self._integral_ms = now
        self._in_system += change

    def hear(self, facts: tuple[f.Fact, ...], step: Step, ended: dict[JobId, Run | None]) -> None:
        """One message was folded; `ended` are the works of jobs that are over with it."""
        for fact in facts:
            if isinstance(fact, f.RoundDecided):
                self.rounds += 1
                self.verdicts += len(fact.placements) + sum(len(refusal.jobs) for refusal in fact.refusals)
                self.preemptions += len(fact.evictions)
            elif isinstance(fact, f.ShareDecided):
                self.verdicts += len(fact.placements)
        for job_id, run in ended.items():
            self._count_system(step.at, -1)
            self.records.append(self._record(self._state.kept.jobs[job_id], run, step.at))

    def finish(self, runs: dict[JobId, Run], now: int) -> None:
        """The run is over: note the jobs that are not."""
        self._count_system(now, 0)
        for job_id in sorted(self._numbers):
            job = self._state.job(job_id)
            if job is not None and job.state not in ENDS:
                self.records.append(self._record(job, runs.get(job_id), now))
        self.records.sort(key=lambda record: record.number)

    def _record(self, job: Job, run: Run | None, now: int) -> JobRecord:
        number, work, before = self._numbers.pop(job.id)
        life = max(1, now - job.submitted_ms)
        has_ended = job.state in ENDS
        return JobRecord(
            number=number,
            name=job.spec.name,
            group=job.spec.group,
            user=job.spec.user,
            gpu_milli=gpu_milli_wanted(job.spec),
            state=job.state,
            submitted_ms=job.submitted_ms - self._begin,
            first_started_ms=job.first_started_ms - self._begin if job.first_started_ms else -1,
            ended_ms=now - self._begin if has_ended else -1,
            waited_ms=waited_ms(self._state, job, now),
            run_ms=work.run_ms,
            attempts=job.attempt,
            preemptions=job.preemptions,
            losses=job.losses,
            costs_ms=run.costs_ms if run else 0,
            lost_ms=run.lost_ms if run else 0,
            useful_gpu_ms=run.useful_gpu_ms if run else 0,
            overhead_gpu_ms=run.overhead_gpu_ms if run else 0,
            deadline_ms=job.submitted_ms - self._begin + work.deadline_ms if work.deadline_ms else 0,
            contention=max(1.0, (self._integral - before) / life),
        )

    # --- sampling -------------------------------------------------------------------------------------------

    def sample(self, pool: str, now: int, *, exact: bool = False) -> None:
        """Note how full the pool is, unless it was noted just before."""
        if not exact and now < self._sampled.get(pool, -(10**18)) + self._sample_ms:
            return
        self._sampled[pool] = now
        self.points.setdefault(pool, []).append(self._point(pool, now))

    def _point(self, pool: str, now: int) -> Point:
        state = self._state
        room = state.room(pool)
        there = GPU_MILLI * int((room.layout.memory > 0).sum(axis=1)[room.layout.works].sum())
        free_by_node = room.milli.clip(min=0).sum(axis=1)
        total_by_node = GPU_MILLI * (room.layout.memory > 0).sum(axis=1)
        partly = (free_by_node > 0) & (free_by_node < total_by_node) & room.layout.works
        held: dict[str, int] = {}
        wanted = _wanted(state, pool)
        for job_id in state.live.get(pool, {}):
            job = state.kept.jobs[job_id]
            amount = sum(state.kept.tasks[task].gpu_milli for task in job.tasks)
            held[job.spec.group] = held.get(job.spec.group, 0) + amount
        return Point(
            at=now - self._begin,
            held_milli=sum(held.values()),
            there_milli=there,
            scattered_milli=int(free_by_node[partly].sum()),
            running=sum(state.kept.jobs[j].state in LIVE for j in state.live.get(pool, {})),
            waiting=sum(state.kept.jobs[j].state == JobState.WAITING for j in state.waiting.get(pool, {})),
            waiting_milli=sum(wanted.values()),
            fairness=equal_share_fairness(held, wanted, there),
        )


def _wanted(state: State, pool: str) -> dict[str, int]:
    """GPU thousandths that waiting jobs want, by group."""
    columns = state.columns.get(pool)
    if columns is None:
        return {}
    slots = columns.slots()
    groups, milli = columns.field(slots, c.GROUP), columns.field(slots, c.GPU_MILLI)
    sums = np.bincount(groups, weights=milli)
    return {columns.groups.names[k]: int(sums[k]) for k in np.flatnonzero(sums).tolist()}


def equal_share_fairness(held: dict[str, int], wanted: dict[str, int], there: int) -> float:
    """Jain's index over the groups that hold or want anything: what each holds, over its part in a fair division.

    The fair division fills all groups evenly up to what each asks for (max-min). 1 is perfectly fair.
    """
    asked = {group: held.get(group, 0) + wanted.get(group, 0) for group in held.keys() | wanted.keys()}
    asked = {group: amount for group, amount in sorted(asked.items()) if amount}
    if len(asked) < 2 or not there:
        return 1.0
    fair = max_min(asked, there)
    return jain([held.get(group, 0) / fair[group] for group in asked if fair[group]])


def max_min(asked: dict[str, int], there: int) -> dict[str, float]:
    """The even division of what is there, none getting more than asked."""
    left, fair = float(there), dict[str, float]()
    order = sorted(asked, key=lambda group: (asked[group], group))
    for place, group in enumerate(order):
        fair[group] = min(float(asked[group]), left / (len(order) - place))
        left -= fair[group]
    return fair


def jain(values: list[float]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything; 1 of nothing."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
