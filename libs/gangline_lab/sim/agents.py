"""The simulated machines: they start what is placed on them, end it when its work is done, and stop what is told to.

They see what real agents see, the folded state and its steps, and say the same facts.
"""

from collections.abc import Iterable

from gangline_core import facts as f
from gangline_core.facts import ExitCause
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.reasons import ReasonCode
from gangline_core.state import State
from gangline_core.step import Step
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.courses import Courses
from gangline_lab.sim.events import End, Events, Start, Still, Stop
from gangline_lab.sim.runs import Run, held_by, neighbours_leave
from gangline_lab.sim.workload import Work

BREAKDOWNS = frozenset({ReasonCode.NODE_LOST, ReasonCode.GPU_FAILED, ReasonCode.PROCESS_LOST})
"""Stops that leave no time for a checkpoint."""
_ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})
_FOLLOWED = frozenset({JobState.RUNNING, JobState.RESIZING, JobState.PAUSED, JobState.STOPPING})


class Agents:
    """All machines together."""

    def __init__(self, state: State, events: Events, conditions: Conditions, courses: Courses) -> None:
        """Nothing runs yet."""
        self._state = state
        self._events = events
        self._conditions = conditions
        self._courses = courses
        self.runs: dict[JobId, Run] = {}
        """Work of every job that has started and not ended."""
        self._works: dict[JobId, Work] = {}
        together = conditions.colocation
        self._minds_neighbours = together.shared_gpu != 1.0 or together.distributed != 1.0
        self._minds_neighbours |= together.stages or together.contended
        self._stopping: set[TaskId] = set()
        """Tasks whose stop is under way."""
        self._left: set[NodeId] = set()
        """Nodes that tasks left since somebody last looked at the neighbours."""

    def expect(self, job: JobId, work: Work) -> None:
        """This job, when it starts, has to do this."""
        self._works[job] = work

    # --- what the log tells --------------------------------------------------------------------------------

    def note(self, step: Step) -> None:
        """See what one message changed."""
        now = step.at
        for name in step.tasks:
            task = self._state.kept.tasks.get(name)
            if task is None:
                self._stopping.discard(name)
            elif task.state == TaskState.PLACED and not task.stop:
                self._events.enter(now, Start(name))
            elif task.stop and task.state in (TaskState.PLACED, TaskState.STARTED) and name not in self._stopping:
                self._stopping.add(name)
                self._events.enter(now + round(1000 * self._conditions.stop_s), Stop(name))
            elif task.pause and task.working is None and not task.stop:
                self._events.enter(now, Still(name))
        for moved in step.moves:
            if moved.after in _FOLLOWED or moved.before in _ACTIVE:
                self._follow(moved.job, moved.before, moved.after, now)
        if self._minds_neighbours and step.tasks:
            self._look_around(step.tasks, now)

    def _follow(self, job_id: JobId, before: JobState | None, after: JobState, now: int) -> None:
        job = self._state.kept.jobs[job_id]
        if after == JobState.RUNNING:
            self._go(job, now, before=before)
            return
        run = self.runs.get(job_id)
        if run is None:
            return
        if after == JobState.RESIZING:
            run.count(now)
        elif after == JobState.PAUSED:
            run.stop(now, keeps=True, checkpoint_ms=0)
        elif after == JobState.STOPPING or before in _ACTIVE:
            is_broken = job.reason is not None and job.reason.code in BREAKDOWNS
            keeps = (self._conditions.checkpoint_at_stop or job.spec.checkpoints) and not is_broken
            if run.held is not None:
                run.count(now)
                # Who stops because its work is done has nothing left to lose.
                keeps = keeps or run.done >= run.course.total
                run.stop(now, keeps=keeps, checkpoint_ms=1000 * self._conditions.checkpoint_s)

    def _go(self, job: Job, now: int, *, before: JobState | None) -> None:
        run = self.runs.get(job.id)
        if run is None:
            work = self._works[job.id]
            run = self.runs[job.id] = Run(self._courses.course(job.spec, work), work)
        tasks = self._state.tasks_of(job)
        held = held_by(self._state, tasks)
        run.count(now)
        if before == JobState.RESIZING and held == run.held:
            return
        cost_s = self._conditions.restart_s if run.starts else self._conditions.start_s
        if before == JobState.PAUSED:
            cost_s = self._conditions.resume_s
        if self._minds_neighbours:
            run.part_milli = neighbours_leave(self._state, job, self._conditions)
        if self._conditions.free_start_s and run.left_ms(held) < 1000 * self._conditions.free_start_s:
            cost_s = 0.0
        run.start(held, sum(task.gpu_milli for task in tasks), now=now, cost_ms=round(1000 * cost_s))
        self.foresee(job, run)

    def foresee(self, job: Job, run: Run) -> None:
        """Enter the end of a job's work as it is to be expected now; what was foreseen of an older version is void."""
        ends = run.ends_ms()
        limit_ms = job.started_ms + 1000 * job.spec.time_limit_s
        if job.spec.time_limit_s and limit_ms < ends:
            self._events.enter(limit_ms, End(job.id, run.version, ExitCause.TIME_LIMIT))
        else:
            self._events.enter(ends, End(job.id, run.version, ExitCause.EXITED))

    def _look_around(self, tasks: Iterable[TaskId], now: int) -> None:
        """Neighbours came or went: everybody on those nodes may go faster or slower now."""
        nodes: set[NodeId] = set()
        for name in tasks:
            task = self._state.kept.tasks.get(name)
            if task is not None:
                nodes.add(task.node)
        gone = self._left
        near = {self._state.kept.tasks[name].job for node in nodes | gone for name in self._state.node_tasks[node]}
        gone.clear()
        for job_id in sorted(near):
            run = self.runs.get(job_id)
            job = self._state.job(job_id)
            if run is None or run.held is None or job is None:
                continue
            part = neighbours_leave(self._state, job, self._conditions)
            held = sum(task.gpu_milli for task in self._state.tasks_of(job))
            if (part, held) != (run.part_milli, run.gpu_milli):
                run.count(now)
                run.part_milli, run.gpu_milli = part, held
                run.version += 1
                self.foresee(job, run)

    # --- what the machines say ------------------------------------------------------------------------------

    def started(self, names: Iterable[TaskId]) -> list[f.Fact]:
        """Those of these tasks that still have to start are running now."""
        tasks = (self._state.kept.tasks.get(name) for name in names)
        return [f.TaskStarted(task=t.id) for t in tasks if t is not None and t.state == TaskState.PLACED and not t.stop]

    def stand_still(self, names: Iterable[TaskId]) -> list[f.Fact]:
        """Those of these tasks that were paused and not let go on since stand still now."""
        tasks = (self._state.kept.tasks.get(name) for name in names)
        told = (t for t in tasks if t is not None and t.pause and t.working is None and not t.stop)
        return [f.TaskPaused(task=task.id) for task in told]

    def stopped(self, names: Iterable[TaskId]) -> list[f.Fact]:
        """Those of these tasks that are still there are gone now."""
        tasks = [task for name in names if (task := self._state.kept.tasks.get(name)) is not None]
        return self._gone([t for t in tasks if t.state != TaskState.LOST], ExitCause.STOPPED, None)

    def ended(self, end: End) -> list[f.Fact]:
        """The job's work is done (or its time is up), unless something changed since that was foreseen."""
        run = self.runs.get(end.job)
        job = self._state.job(end.job)
        if run is None or job is None or run.version != end.version or run.held is None:
            return []
        code = run.work.exit_code if end.cause == ExitCause.EXITED else None
        return self._gone(self._state.tasks_of(job), end.cause, code)

    def _gone(self, tasks: list[Task], cause: ExitCause, code: int | None) -> list[f.Fact]:
        if self._minds_neighbours:
            self._left.update(task.node for task in tasks)
        exits: list[f.Fact] = [f.TaskExited(task=task.id, cause=cause, exit_code=code, silent=True) for task in tasks]
        return [*exits, f.GpusEmpty(tasks=tuple(task.id for task in tasks))] if tasks else []

    def settle(self, job: JobId) -> Run | None:
        """The job is over; what its work came to."""
        self._works.pop(job, None)
        return self.runs.pop(job, None)
