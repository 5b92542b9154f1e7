"""What a simulation came to, noted while it runs: every job's record, and each pool's use over time."""

from msgspec import Struct

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job
from gangline_core.scoring.ageing import waited_ms
from gangline_core.spec import gpu_milli_wanted
from gangline_core.state import State
from gangline_core.step import Step
from gangline_lab.sim.runs import Run
from gangline_lab.sim.usage import Usage, Use
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
    """The rest of what it held: while it started, stopped, or did what was lost."""
    deadline_ms: int
    """When it should have ended; 0 when nobody said."""
    contention: float
    """Jobs in the system, on average over its life: itself and all others, waiting and running."""

    @property
    def jct_ms(self) -> int:
        """From its arrival to its end; -1 when it has not ended."""
        return self.ended_ms - self.submitted_ms if self.ended_ms >= 0 else -1


class Collector:
    """Watches a simulation."""

    def __init__(self, state: State, begin_ms: int, sample_ms: int) -> None:
        """Times are told after `begin_ms`; a point lasts `sample_ms` or longer."""
        self._state = state
        self._begin = begin_ms
        self.usage = Usage(state, begin_ms, sample_ms)
        self.use: dict[str, Use] = {}
        """Sums of every pool from the first arrival to the last end."""
        self.records: list[JobRecord] = []
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
        self.usage.begin(now)
        self._count_system(now, 1)
        self._numbers[job] = (number, work, self._integral)

    def _count_system(self, now: int, change: int) -> None:
        self._integral += self._in_system * (now - self._integral_ms)
        self._integral_ms = now
        self._in_system += change

    def hear(self, facts: tuple[f.Fact, ...], step: Step, ended: dict[JobId, Run | None]) -> None:
        """One message was folded; `ended` are the works of jobs that are over with it."""
        self.usage.note(facts, step)
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
        if ended:
            self.use = self.usage.uses()

    def finish(self, runs: dict[JobId, Run], now: int) -> None:
        """The run is over: note the jobs that are not."""
        self._count_system(now, 0)
        self.usage.move_on(now)
        if self._numbers:
            self.use = self.usage.uses()
        for job_id in sorted(self._numbers):
            job = self._state.job(job_id)
            if job is not None and job.state not in ENDS:
                self.records.append(self._record(job, runs.get(job_id), now))
        self.records.sort(key=lambda record: record.number)

    def _record(self, job: Job, run: Run | None, now: int) -> JobRecord:
        number, work, before = self._numbers.pop(job.id)
        life = max(1, now - job.submitted_ms)
        has_ended = job.state in ENDS
        useful = run.useful_gpu_ms if run else 0
        self.usage.work(job.spec.pool, run.stretches if run else ())
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
            useful_gpu_ms=useful,
            overhead_gpu_ms=max(0, self.usage.held_by(job) - useful),
            deadline_ms=job.submitted_ms - self._begin + work.deadline_ms if work.deadline_ms else 0,
            contention=max(1.0, (self._integral - before) / life),
        )
