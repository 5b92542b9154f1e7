"""What happened, told from a log: every job's story, the use of every pool over time, and how much was decided."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gangline_core import facts as f
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import ENDS, Job, JobState
from gangline_core.reasons import Reason
from gangline_core.scoring.ageing import waited_ms
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted, task_count
from gangline_core.state import State
from gangline_core.step import Step
from gangline_lab.archive import Progress, read
from gangline_lab.pool_use import Moment, PoolUse


class TimedReason(Struct, frozen=True):
    """Why a job waited from this time on."""

    at: int
    reason: Reason


class JobStory(Struct, frozen=True):
    """One job from its submission to its end, or to the end of the log."""

    job: JobId
    name: str
    group: str
    user: str
    pool: str
    gpu_milli: int
    """GPU thousandths wanted, over all tasks."""
    tasks: int
    state: JobState
    submitted_ms: int
    waited_ms: int
    """Time in the queue over all attempts, up to the end of the log."""
    first_started_ms: int
    """When all tasks of the first attempt ran; 0 when that never was."""
    ended_ms: int
    """0 when it has not ended."""
    attempts: int
    preemptions: int
    losses: int
    exit_code: int | None
    reason: Reason | None
    """Why it ended, or why it waits."""
    waiting_reasons: tuple[TimedReason, ...]
    """Every reason recorded while it waited, in order."""
    placed_at_once: bool
    """True when it never waited for a reason, its own terms included: the first round that saw it placed it."""


class Chronicle(Struct, frozen=True):
    """A whole log, told."""

    messages: int
    first_ms: int
    last_ms: int
    """Time of the last message."""
    jobs: tuple[JobStory, ...]
    """By id."""
    rejected: int
    pools: dict[str, tuple[Moment, ...]]
    uses: dict[str, float]
    """Share of each pool's GPUs that was held, on average from the first job's submission to the last job's end."""
    models: dict[str, dict[str, int]]
    """GPUs per pool and model at the end of the log."""
    nodes: dict[str, int]
    decided: dict[int, int]
    """Verdicts on jobs per second (ms // 1000): admitted, refused, kept out, placed, evicted, resized."""
    rounds: int
    grown: int
    """How often a running elastic job was given further tasks."""
    shrunk: int
    """How often one gave some up."""
    starts: dict[TaskId, int]
    """How often each task was reported started; more than once means a process ran twice."""
    busy: dict[str, tuple[tuple[int, int, int], ...]] = {}
    """By pool when GPUs of a node were measured, from and until, and how many thousandths of them worked on average."""


def tell(path: Path, *, progress: Progress | None = None) -> Chronicle:
    """The chronicle of the archive in this folder.

    Raises:
        ArchiveError: the archive is broken.
    """
    return chronicle(entry.message for entry in read(path, progress=progress))


def chronicle(messages: Iterable[Message]) -> Chronicle:
    """The chronicle of these messages, a log from its beginning."""
    teller = _Teller()
    for message in messages:
        teller.hear(message)
    return teller.told()


class _Teller:
    """Folds the log and notes what a story needs."""

    def __init__(self) -> None:
        self.state = State()
        self.use = PoolUse(self.state)
        self.messages = 0
        self.first_ms = 0
        self.rejected = 0
        self.rounds = self.grown = self.shrunk = 0
        self.ended: dict[JobId, Job] = {}
        self.reasons: dict[JobId, list[TimedReason]] = {}
        self.decided: dict[int, int] = {}
        self.starts: dict[TaskId, int] = {}
        self.busy: dict[str, list[tuple[int, int, int]]] = {}
        self.measured_ms: dict[NodeId, int] = {}

    def hear(self, message: Message) -> None:
        self.first_ms = self.first_ms or message.at
        self.messages += 1
        step = apply(self.state, message)
        for fact in message.facts:
            self._note(fact, step)
        for job in step.voided:
            self._note_reason(job, step.at)
        for moved in step.moves:
            if moved.after in ENDS:
                self.ended[moved.job] = self.state.kept.jobs[moved.job]
        self.use.note(step)

    def _note(self, fact: f.Fact, step: Step) -> None:
        match fact:
            case f.JobAdmitted():
                self._count(step.at, 1)
            case f.JobRejected():
                self.rejected += 1
                self._count(step.at, 1)
            case f.RoundOpened():
                self._note_shared(fact.kept_out, step.at)
                self._count(step.at, sum(len(out.jobs) for out in (*fact.kept_out, *fact.given_up)))
            case f.RoundDecided():
                self.rounds += 1
                self.grown += len(fact.growths)
                self.shrunk += len(fact.shrinks)
                self._note_shared(fact.refusals, step.at)
                self._note_shared(fact.claims, step.at)
                self._count(step.at, _verdicts(fact))
            case f.ShareDecided():
                self._count(step.at, len(fact.placements))
            case f.TaskStarted():
                self.starts[fact.task] = self.starts.get(fact.task, 0) + 1
            case f.UtilisationSummary():
                self._note_busy(fact, step.at)
            case _:
                pass

    def _note_busy(self, fact: f.UtilisationSummary, at: int) -> None:
        """The summary is of the time since the one before it; of the first nobody knows since when."""
        since = self.measured_ms.get(fact.node)
        self.measured_ms[fact.node] = at
        node = self.state.kept.nodes.get(fact.node)
        if node is not None and since is not None and fact.gpu_percent is not None:
            milli = GPU_MILLI * len(node.gpus) * fact.gpu_percent // 100
            self.busy.setdefault(node.pool, []).append((since, at, milli))

    def _note_shared(self, noted: Iterable[f.KeptOut | f.Refusal | f.Claim], at: int) -> None:
        for one in noted:
            for job in (one.job,) if isinstance(one, f.Claim) else one.jobs:
                self._note_reason(job, at)

    def _note_reason(self, job_id: JobId, at: int) -> None:
        job = self.state.job(job_id)
        if job is not None and job.state == JobState.WAITING and job.reason is not None:
            self.reasons.setdefault(job_id, []).append(TimedReason(at=at, reason=job.reason))

    def _count(self, at: int, verdicts: int) -> None:
        if verdicts:
            self.decided[at // 1000] = self.decided.get(at // 1000, 0) + verdicts

    def told(self) -> Chronicle:
        kept = self.state.kept
        jobs = {**self.ended, **{job.id: job for job in kept.jobs.values() if job.id not in self.ended}}
        stories = tuple(self._story(job) for _, job in sorted(jobs.items()))
        begin = min((story.submitted_ms for story in stories), default=self.first_ms)
        end = max((story.ended_ms or kept.at for story in stories), default=kept.at)
        return Chronicle(
            messages=self.messages,
            first_ms=self.first_ms,
            last_ms=kept.at,
            jobs=stories,
            rejected=self.rejected,
            pools=self.use.moments(),
            uses=self.use.shares(begin, end),
            models=self.use.models(),
            nodes=self.use.nodes(),
            decided=self.decided,
            rounds=self.rounds,
            grown=self.grown,
            shrunk=self.shrunk,
            starts=self.starts,
            busy={pool: tuple(measured) for pool, measured in sorted(self.busy.items())},
        )

    def _story(self, job: Job) -> JobStory:
        reasons = tuple(self.reasons.get(job.id, ()))
        return JobStory(
            job=job.id,
            name=job.spec.name,
            group=job.spec.group,
            user=job.spec.user,
            pool=job.spec.pool,
            gpu_milli=gpu_milli_wanted(job.spec),
            tasks=task_count(job.spec),
            state=job.state,
            submitted_ms=job.submitted_ms,
            waited_ms=waited_ms(self.state, job, self.state.kept.at),
            first_started_ms=job.first_started_ms,
            ended_ms=job.ended_ms if job.state in ENDS else 0,
            attempts=job.attempt,
            preemptions=job.preemptions,
            losses=job.losses,
            exit_code=job.exit_code,
            reason=job.reason,
            waiting_reasons=reasons,
            placed_at_once=job.attempt > 0 and not reasons and not _waits_by_its_terms(job),
        )


def _waits_by_its_terms(job: Job) -> bool:
    """True when it asked to be looked at later, or was not in the queue at first, as elements behind a cap."""
    spec = job.spec
    is_later = bool(spec.hold or spec.after or spec.singleton or spec.not_before_ms)
    return is_later or (job.attempt == 1 and job.queued_ms > job.submitted_ms)


def _verdicts(fact: f.RoundDecided) -> int:
    refused = sum(len(refusal.jobs) for refusal in fact.refusals)
    moved = len(fact.growths) + len(fact.evictions) + len(fact.shrinks) + len(fact.claims)
    return len(fact.placements) + refused + moved
