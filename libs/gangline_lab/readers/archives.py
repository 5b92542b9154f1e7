"""Our own archive as a trace: recorded arrivals, true durations, and everything else that came from outside.

A job's true duration is the run time of its last run without pauses, at each time by its size over the size asked for
when it was elastic; of who says `checkpoints` earlier runs count as well, for it went on from there. Jobs that were
cancelled while they ran, or had not ended when the archive did, ran at least that long; they are counted as
`censored`. Jobs that never ran are taken back by their users after the time they were recorded to wait. Elements of
an array are jobs from the time the array came; those that were never in the queue are counted as left out.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.door.array_record import array_size
from gangline_core.fold import Message, apply
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.spec import JobSpec, task_count
from gangline_core.state import State
from gangline_lab.archive import ArchiveError, Progress, read
from gangline_lab.rows import TraceError
from gangline_lab.sim.workload import Arrival, Input, Work, Workload, workload

INPUTS = (
    *(f.GroupSet, f.GroupRemoved, f.UserSet, f.UserRemoved, f.ClassSet, f.PricesSet, f.WindowSet, f.WindowRemoved),
    *(f.PoolSet, f.PolicySet, f.DrainSet, f.NodeAssigned, f.NodeSeen, f.NodeLost, f.NodeQuarantined),
    *(f.GpuFailed, f.GpuHealthy, f.GpuSuspected),
    *(f.HoldSet, f.JobEdited, f.JobTopped, f.ResizeAsked),
)
"""Facts that come from outside and do not follow from how a run went."""
LEFT_OUT = {
    f.JobReclaimed: "jobs taken back for their low use",
    f.GangHung: "gangs that hung",
    f.GpuTrespassed: "tasks on GPUs of others",
    f.LimitSet: "limits of jobs beside others",
    f.ProgressReported: "reports of progress",
    f.JobUsed: "measured use",
}
"""Facts that decisions looked at and that a simulation does not live again, in words."""


class Past(Struct, frozen=True):
    """What became of a job when it really ran."""

    job: JobId
    group: str
    submitted_ms: int
    ended_ms: int
    """-1 when it had not ended."""
    waited_ms: int
    censored: bool
    """Its true duration is only known to be at least what was recorded."""


class History(Struct, frozen=True):
    """An archive, as a simulation can live it again."""

    trace: Workload
    inputs: tuple[Input, ...]
    past: tuple[Past, ...]
    """By place in the trace."""
    policies: dict[str, Policy]
    """The last policy of each pool."""
    groups: tuple[Group, ...]
    """Groups as they were at the end."""
    begin_ms: int
    end_ms: int
    left_out: dict[str, int] = {}
    """What the log tells and a simulation does not live again: in words, how often."""


def read_archive(path: Path) -> Workload:
    """The jobs of an archive as a trace.

    Raises:
        TraceError: the archive is broken or none is there.
    """
    try:
        return read_history(path).trace
    except ArchiveError as error:
        raise TraceError(error.fault.problem, file=error.fault.segment, line=error.fault.line) from error


def read_history(path: Path, *, progress: Progress | None = None) -> History:
    """Everything from outside that an archive holds.

    Raises:
        ArchiveError: the archive is broken or none is there.
    """
    return history(path.name, (entry.message for entry in read(path, progress=progress)))


def history(name: str, messages: Iterable[Message]) -> History:
    """The same of messages, a log from its beginning."""
    reader = _Reader()
    for message in messages:
        reader.hear(message)
    return reader.told(name)


class Ran(Struct, frozen=True):
    """How long a job ran, in ms of one task: of so many at once they pass so many times as fast."""

    before: int = 0
    """In earlier runs that it went on from."""
    now: int = 0
    """In its present or last run, pauses left out."""
    leaving: int = 0
    """While that run stopped: part of it when it thereby ends for good."""
    since: int = 0
    tasks: int = 0
    """So many have been at work since then."""
    is_leaving: bool = False

    @property
    def whole(self) -> int:
        """All that it did."""
        return self.before + self.now + self.leaving


def _went_on(ran: Ran, job: Job, at: int) -> Ran:
    """The same up to this time, when the job came into the state in which it is."""
    passed = max(0, at - ran.since) * ran.tasks
    ran = replace(
        ran,
        now=ran.now + (0 if ran.is_leaving else passed),
        leaving=ran.leaving + (passed if ran.is_leaving else 0),
        since=at,
        tasks=len(job.tasks) or ran.tasks,
        is_leaving=job.state == JobState.STOPPING,
    )
    match job.state:
        case JobState.RUNNING | JobState.RESIZING:
            return ran
        case JobState.STOPPING:
            return ran if ran.now else replace(ran, tasks=0)
        case JobState.WAITING | JobState.HELD | JobState.SUSPENDED:
            return Ran(before=ran.before + (ran.now if job.spec.checkpoints else 0))
        case _:
            return replace(ran, tasks=0)


class _Reader:
    def __init__(self) -> None:
        self.state = State()
        self.begin = -1
        self.inputs: list[Input] = []
        self.specs: dict[JobId, tuple[int, JobSpec]] = {}
        self.ended: dict[JobId, Job] = {}
        self.runs: dict[JobId, Ran] = {}
        self.elements: dict[JobId, list[JobId]] = {}
        """Elements by array, as far as they were in the queue."""
        self.left_out: Counter[str] = Counter()

    def hear(self, message: Message) -> None:
        if self.begin < 0:
            self.begin = message.at
        kind = message.lane.partition(".")[0]
        for fact in message.facts:
            if isinstance(fact, f.JobAdmitted):
                self.specs[fact.job] = (message.at - self.begin, fact.spec)
            elif type(fact) in LEFT_OUT:
                self.left_out[LEFT_OUT[type(fact)]] += 1
            elif isinstance(fact, INPUTS) and not self._is_known(fact):
                self.inputs.append(Input(at_ms=message.at - self.begin, kind=kind, fact=fact))
        step = apply(self.state, message)
        for moved in step.moves:
            job = self.state.kept.jobs[moved.job]
            if moved.before is None and job.array:
                self._enter_element(job)
            self.runs[job.id] = _went_on(self.runs.get(job.id, Ran()), job, message.at)
            if moved.after in ENDS:
                self.ended[job.id] = job

    def _enter_element(self, job: Job) -> None:
        name = f"{job.spec.name}-{job.array_index}"
        spec = replace(job.spec, array=None, name=name, hold=False)
        self.specs[job.id] = (job.submitted_ms - self.begin, spec)
        self.elements.setdefault(JobId(job.array), []).append(job.id)

    def _is_known(self, fact: f.Fact) -> bool:
        """An agent repeats what it carries at each of its starts."""
        if not isinstance(fact, f.NodeSeen):
            return False
        known = self.state.kept.nodes.get(fact.node.id)
        same = known is not None and (known.gpus, known.cpu_milli, known.memory_mib, known.labels, known.pool) == (
            fact.node.gpus,
            fact.node.cpu_milli,
            fact.node.memory_mib,
            fact.node.labels,
            fact.node.pool,
        )
        return same and known is not None and not known.lost

    def told(self, name: str) -> History:
        kept = self.state.kept
        arrivals, past = [], []
        for job_id, (at_ms, spec) in sorted(self.specs.items(), key=lambda item: (item[1][0], item[0])):
            job = self.ended.get(job_id) or kept.jobs.get(job_id)
            if spec.array is not None:
                # Its elements stand for it.
                self._count_array(job_id, array_size(spec.array), capped=spec.array.at_most)
                continue
            if job is None:
                continue
            work, censored = self._work(job)
            if spec.deadline_ms:
                work = replace(work, deadline_ms=max(1, spec.deadline_ms - self.begin - at_ms))
            arrivals.append(Arrival(at_ms=at_ms, spec=self._tied(spec), work=work, job=job_id))
            past.append(
                Past(
                    job=job_id,
                    group=spec.group,
                    submitted_ms=at_ms,
                    ended_ms=job.ended_ms - self.begin if job.state in ENDS else -1,
                    waited_ms=self._waited(job),
                    censored=censored,
                )
            )
        return History(
            trace=workload(name, arrivals),
            inputs=tuple(one for told in self.inputs for one in self._of_elements(told)),
            past=tuple(past),
            policies={pool: known.policy for pool, known in sorted(kept.pools.items())},
            groups=tuple(kept.groups[path] for path in sorted(kept.groups)),
            begin_ms=self.begin,
            end_ms=kept.at,
            left_out=dict(sorted(self.left_out.items())),
        )

    def _count_array(self, array: JobId, size: int, *, capped: int) -> None:
        never = size - len(self.elements.get(array, ()))
        if never:
            self.left_out["elements of arrays that never were in the queue"] += never
        if capped:
            self.left_out["caps of arrays on elements at once"] += 1

    def _tied(self, spec: JobSpec) -> JobSpec:
        """Who waits for a whole array waits for all of its elements."""
        after = tuple(
            replace(one, job=element) for one in spec.after for element in self.elements.get(JobId(one.job), [one.job])
        )
        return replace(spec, after=after) if after else spec

    def _of_elements(self, told: Input) -> list[Input]:
        """What was said of an array is said of its elements."""
        fact = told.fact
        if not isinstance(fact, f.HoldSet | f.JobEdited | f.JobTopped) or fact.job not in self.elements:
            return [told]
        if isinstance(fact, f.JobEdited):
            fact = replace(fact, edit=replace(fact.edit, at_most=None))
        return [replace(told, fact=replace(fact, job=element)) for element in self.elements[fact.job]]

    def _waited(self, job: Job) -> int:
        if job.state in ENDS and not job.attempt:
            return max(0, job.ended_ms - job.submitted_ms)
        return job.waited_ms

    def _work(self, job: Job) -> tuple[Work, bool]:
        end = job.ended_ms if job.state in ENDS else self.state.kept.at
        ran = _went_on(self.runs[job.id], job, end).whole // max(1, task_count(job.spec))
        if not job.started_ms and not ran:
            # It never ran: its user would take it back at that time if it still waited then.
            known = int(job.spec.attributes.get("run_time_s", 0) or job.spec.estimate_s or 60)
            cancel = max(1, end - job.submitted_ms) if job.state in ENDS else 0
            return Work(run_ms=1000 * known, cancel_ms=cancel), True
        censored = job.state not in ENDS or job.state in (JobState.CANCELLED, JobState.TIMED_OUT)
        failed = job.state == JobState.FAILED and bool(job.exit_code)
        return Work(run_ms=max(1, ran), exit_code=(job.exit_code or 0) if failed else 0), censored
