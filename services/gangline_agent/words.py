"""What tasks said to their agent and the log or the listeners do not know yet: gangs that met, progress."""

from gangline_core.facts import Fact, ResizeConfirmed
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, ResizeStage
from gangline_core.sizes.progress import Progress, merged
from gangline_core.sizes.resizing import OVER, is_size_of
from gangline_core.state import State
from gangline_wire.contract import Confirmed, Report, progress
from gangline_wire.samples import JobReport

EARLY_MS = 5_000
"""A word that a gang met counts when it came at most so long before the log knew that all members had started."""
REPORTS_MAX = 4096
"""Jobs whose reports wait for the next beat; of more, the oldest are dropped."""


class Words:
    """Words by job, each kept until it is told or no longer matters."""

    def __init__(self) -> None:
        """Nobody has said anything."""
        self._met: dict[JobId, tuple[Confirmed, int]] = {}
        """The word, and when it was said, in ms."""
        self._said: dict[tuple[JobId, TaskId], JobReport] = {}

    def confirm(self, state: State, task: TaskId, word: Confirmed, *, at: int) -> str:
        """A member says that its gang met; why that cannot be, in a sentence, or an empty text."""
        job = _job(state, task)
        if job is None:
            return "this task is not here"
        number = 0 if job.resize is None else job.resize.number
        if word.resize != number:
            return f"the job's last change of size is number {number}, not {word.resize}"
        if not is_size_of(job, word.size):
            sizes = ", ".join(f"{role} {size}" for role, size in sorted(job.sizes.items()))
            return f"after change {number} the job has {sizes}, not {word.size}"
        self._met[job.id] = word, at
        return ""

    def report(self, state: State, name: TaskId, said: Report) -> None:
        """A member says how far the job is."""
        job, task = _job(state, name), state.kept.tasks.get(name)
        if job is None or task is None:
            return
        members = [member for member in state.tasks_of(job) if not member.stop]
        nodes = len({member.node for member in members})
        new = progress(said, nodes=nodes, members=len(members))
        before = self._said.pop((job.id, name), None)
        whole: Progress = new if before is None else merged(before.progress, new)
        self._said[job.id, name] = JobReport(job=job.id, attempt=task.attempt, task=name, progress=whole)
        while len(self._said) > REPORTS_MAX:
            del self._said[next(iter(self._said))]

    def take_reports(self) -> tuple[JobReport, ...]:
        """What was said since the last time."""
        said, self._said = tuple(self._said.values()), {}
        return said

    def facts(self, state: State) -> tuple[Fact, ...]:
        """Gangs that met at the size the log waits to hear of; a word that came a little early waits.

        The log hears of started members after they met; who says much earlier that it met did so without them.
        """
        facts: list[Fact] = []
        for job_id, (word, at) in list(self._met.items()):
            job = state.job(job_id)
            resize = job.resize if job is not None else None
            if resize is None or resize.number > word.resize or resize.stage in OVER:
                del self._met[job_id]
            elif resize.number == word.resize and resize.stage == ResizeStage.CONFIRMING:
                if at < resize.stage_ms - EARLY_MS:
                    del self._met[job_id]
                    continue
                facts.append(ResizeConfirmed(job=job_id, number=word.resize, size=word.size))
        return tuple(facts)

    @property
    def waits(self) -> bool:
        """True when a word may become a fact."""
        return bool(self._met)


def _job(state: State, name: TaskId) -> Job | None:
    task = state.kept.tasks.get(name)
    return None if task is None else state.job(task.job)
