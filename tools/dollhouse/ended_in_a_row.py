"""Whether nobody begins for ever whose supervisors are ended, told a second time by what agents said and who begins.

A job that was ended so five times in a row begins no sixth time before somebody releases it or a node where that was is
closed; nobody is held for it that had fewer. All that goes before anything of the job began again is one time.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gangline_core import facts as f
from gangline_core.fold import Message
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import LIVE, Job, JobState, Task
from gangline_core.reasons import ReasonCode
from gangline_core.state import State
from gangline_core.step import Step

MOST = 5
LASTED_MS = 3_600_000


class EndedInARow:
    """Looks on at one run, message by message."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.met = 0
        """How often somebody was held."""
        self._row: dict[JobId, dict[int, NodeId]] = defaultdict(dict)
        """Per job when it was ended so, and where."""
        self._held: set[JobId] = set()
        """Whom somebody holds or suspends: that a supervisor was ended is only what the job was told last."""

    def faults(
        self, state: State, message: Message, step: Step, jobs: Mapping[JobId, Job], tasks: Mapping[TaskId, Task]
    ) -> Iterator[str]:
        """What this message broke; `jobs` and `tasks` are those before it."""
        ended = dict[JobId, None]()
        for fact in message.facts:
            if isinstance(fact, f.TaskExited):
                task = tasks.get(fact.task)
                if task is not None and not task.stop and task.job not in ended:
                    ended[task.job] = None
                    self._note(state, message, fact, jobs, task)
            elif isinstance(fact, f.HoldSet):
                named = [job.id for job in jobs.values() if fact.job in (job.id, job.array)]
                if fact.held:
                    self._held.update(named)
                    continue
                self._held.difference_update(named)
                for job_id in named:
                    self._row.pop(job_id, None)
            elif isinstance(fact, f.NodeQuarantined) and fact.problem:
                for row in self._row.values():
                    for at in [at for at, node in row.items() if node == fact.node]:
                        del row[at]
        yield from self._moved(state, step)

    def _moved(self, state: State, step: Step) -> Iterator[str]:
        for moved in step.moves:
            job, often = state.kept.jobs[moved.job], len(self._row[moved.job])
            is_for_that = job.reason is not None and job.reason.code == ReasonCode.KILLED and job.pause is None
            if moved.after == JobState.SUSPENDED and is_for_that:
                self.met += 1
                if often < MOST and job.id not in self._held:
                    yield f"job {job.id} is held though its supervisors were ended {often} times only"
            elif moved.after == JobState.STARTING and often >= MOST:
                yield f"job {job.id} begins though its supervisors were ended {often} times in a row"

    def _note(self, state: State, message: Message, fact: f.TaskExited, jobs: Mapping[JobId, Job], task: Task) -> None:
        job, now = jobs.get(task.job), state.kept.jobs.get(task.job)
        if not fact.witnessed or job is None or job.outcome is not None or now is None:
            return
        if message.at - (task.started_ms or task.placed_ms) >= LASTED_MS:
            self._row.pop(job.id, None)
        is_over = now.outcome is not None or now.state not in LIVE
        if (is_over or job.spec.repair_s) and task.placed_ms >= max(self._row[job.id], default=0):
            # Else the others go on without it, or it is what went before.
            self._row[job.id][message.at] = task.node
