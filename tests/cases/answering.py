"""Random scenes whose members answer: they stand still once paused, say that they are safe, confirm sizes.

What machines notice is told, too: nodes on which starts fail, GPUs and gangs that are suspected, what jobs use. All of
this is drawn from a source of its own, so a plain scene of the same seed is what it was.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from msgspec.structs import replace
from tests.cases.drive import Ask
from tests.cases.scenes import Scene
from tests.make import T0

from gangline_core import facts as f
from gangline_core.elasticity import POLICIES
from gangline_core.fold import Message
from gangline_core.ids import JobId, TaskId
from gangline_core.job import ENDS, JobState, Task, TaskState
from gangline_core.settings import check_policy
from gangline_core.spec import Elastic, Pausing, ResizeKind
from gangline_core.step import Step

GOES_ON_S = 7
"""So long after it should have ended a job that stands still is looked at again."""


class Answering(Scene):
    """A scene in which pauses are real, and changes of size take their notices and confirmations."""

    def __init__(self, seed: int, *, restarts: bool = False, ordering: str = "") -> None:
        """Draw the scene, and what its machines notice."""
        self.own = Random(f"{seed} answers")
        self.stood_still: set[TaskId] = set()
        self.said_safe: set[TaskId] = set()
        self.confirmed: set[JobId] = set()
        super().__init__(seed, restarts=restarts, ordering=ordering)
        self._draw_more_policy()
        for _ in range(self.own.randint(2, 8)):
            self._notice()

    def _draw_more_policy(self) -> None:
        """Pools change sizes more often than in other scenes, and let jobs take turns by pausing them."""
        own = self.own
        more: list[dict[str, Any]] = [{"preemption": True, "shrink": True}]
        if own.random() < 0.6:
            more.append({"elastic": own.choice(sorted(POLICIES)), "elastic_interval_s": own.choice([1, 10, 60])})
        if own.random() < 0.5:
            more.append({"time_slice_s": own.choice([30, 150]), "packing": own.random() < 0.5, "lease_s": 0})
        for pool in self.state.kept.pools:
            for fields in more:
                if check_policy(self.state, replace(self.state.kept.pools[pool].policy, **fields), pool) is None:
                    self.set_policy(pool, **fields)

    def fields_of_job(self) -> dict[str, Any]:
        """As in any scene; more of them may be paused, and change their size in every way that there is."""
        fields, own = super().fields_of_job(), self.own
        if own.random() < 0.7 and "roles" not in fields and "array" not in fields:
            fields["elastic"] = Elastic(
                kind=own.choice(list(ResizeKind)),
                notice_s=own.choice([0, 5, 20]),
                confirm_s=own.choice([0, 0, 10, 40]),
                start_s=own.choice([0, 0, 15]),
                cooldown_s=own.choice([0, 0, 30, 200]),
                cost_s=own.choice([0, 5]),
            )
            if fields.get("gpus") in (1, 2) and "minimum" not in fields and not fields.get("gpu_models"):
                fields |= {"tasks": 2, "minimum": 1, "maximum": 4}
        if own.random() < 0.5:
            kept, notice_s = own.choice([0, 0, 1000, 20_000]), own.choice([0, 0, 3, 15])
            fields["pausing"] = Pausing(gpu_memory_mib=kept, notice_s=notice_s)
        return fields

    # --- what members say -------------------------------------------------------------------------------

    def tell(self, lane: str, *facts: f.Fact, at: int | None = None) -> Step:
        """Fold a message; the machines act on it, and members answer."""
        step = super().tell(lane, *facts, at=at)
        for name in dict.fromkeys(step.tasks):
            task = self.state.kept.tasks.get(name)
            if task is not None and _is_being_paused(task):
                self._answer(self._notice_of(task), lambda name=name: self._stand_still(name))
        for job_id in dict.fromkeys(step.sized):
            job = self.state.job(job_id)
            if job is not None and job.resize is not None and self.own.random() < 0.7:
                number = job.resize.number
                self.later(
                    self.now + self.own.choice([0, 1, 5, 20]),
                    lambda job_id=job_id, number=number: self._confirm(job_id, number),
                )
        return step

    def _act(self, task: Task, ask: Ask) -> None:
        """Who leaves gets its notice, unless it says that it is safe; then it is stopped as anybody."""
        if not (task.stop and task.leaves) or task.state in (TaskState.LOST, TaskState.EXITED):
            super()._act(task, ask)
            return
        notice_s = 0 if task.safe else ask.spec.elastic.notice_s
        if self.own.random() < 0.5:
            self._once("safe", task.id, self.own.randint(0, 4), lambda: self._be_safe(task.id))
        gone = "stop safe" if task.safe else "stop"
        self._once(gone, task.id, notice_s + ask.stop, lambda: self._gone(task.id, f.ExitCause.STOPPED, 143))

    def _answer(self, notice_s: int, act: Callable[[], object]) -> None:
        self.later(self.now + self.own.choice([0, notice_s, notice_s + 1]), act)

    def _notice_of(self, task: Task) -> int:
        job = self.state.job(task.job)
        return job.spec.pausing.notice_s if job is not None and job.spec.pausing is not None else 0

    def _stand_still(self, name: TaskId) -> None:
        task = self.state.kept.tasks.get(name)
        if task is not None and _is_being_paused(task):
            self.stood_still.add(name)
            self.tell(self._agent(task), f.TaskPaused(task=name))

    def _be_safe(self, name: TaskId) -> None:
        task = self.state.kept.tasks.get(name)
        if task is not None and task.leaves and not task.safe and task.state == TaskState.STARTED:
            self.said_safe.add(name)
            self.tell(self._agent(task), f.MemberSafe(task=name))

    def _confirm(self, job_id: JobId, number: int) -> None:
        job = self.state.job(job_id)
        if job is not None and job.resize is not None and job.resize.number == number and (tasks := self.tasks(job_id)):
            self.confirmed.add(job_id)
            size = sum(job.sizes.values())
            self.tell(self._agent(tasks[0]), f.ResizeConfirmed(job=job_id, number=number, size=size))

    def prove_evictions(self) -> None:
        """Everyone for whom somebody had to go was placed then, unless it was cancelled before it could be."""
        placed = {(one.job, message.at) for message, one in self._placements()}
        for eviction in self.evicted:
            at = T0 + round(eviction.at * 1000)
            was_cancelled = self.job(eviction.beneficiary).state == JobState.CANCELLED
            assert was_cancelled or any(job == eviction.beneficiary and then >= at for job, then in placed), eviction

    def _placements(self) -> Iterator[tuple[Message, f.Placement]]:
        for message in self.log:
            for fact in message.facts:
                for placement in fact.placements if isinstance(fact, f.RoundDecided) else ():
                    yield message, placement

    def _end(self, job_id: JobId, attempt: int, cause: f.ExitCause, code: int) -> None:
        """Nobody ends while it stands still."""
        job = self.state.job(job_id)
        if job is not None and job.state not in ENDS and any(task.working is not None for task in self.tasks(job_id)):
            self.later(self.now + GOES_ON_S, lambda: self._end(job_id, attempt, cause, code))
            return
        super()._end(job_id, attempt, cause, code)

    # --- what machines notice ---------------------------------------------------------------------------

    def _notice(self) -> None:
        own = self.own
        machine = own.choice(self.machines)
        at = own.randint(5, 300)
        end = at + own.randint(1, 120)
        few = replace(machine, tasks_max=own.choice([1, 2]))
        kinds: list[tuple[Callable[[], object], Callable[[], object]]] = [
            (
                lambda: self._say(f.NodeQuarantined(node=machine.id, problem="starts fail")),
                lambda: self._say(f.NodeQuarantined(node=machine.id, problem="")),
            ),
            (
                lambda: self._say(f.GpuSuspected(node=machine.id, gpu=0, problem="ecc")),
                lambda: self._say(f.GpuSuspected(node=machine.id, gpu=0, problem="")),
            ),
            (lambda: self.see(few), lambda: self.see(machine)),
            (self._hang, self._use),
            (self._use, self._reclaim),
            (self._pause, self._pause),
            (self._resize, self._pause),
            (self._resize, self._resize),
        ]
        first, then = own.choice(kinds)
        self.later(at, first)
        self.later(end, then)

    def _pause(self) -> None:
        """Somebody pauses a job, and lets it go on later."""
        if running := self.in_state(JobState.RUNNING):
            job, urgent = self.own.choice(running), self.own.random() < 0.5
            self.tell("admission", f.HoldSet(job=job, held=True, by="ada", pause=True))
            self.later(self.now + self.own.choice([5, 30, 100]), lambda: self._let_go_on(job, urgent=urgent))

    def _let_go_on(self, job_id: JobId, *, urgent: bool) -> None:
        job = self.state.job(job_id)
        if job is not None and job.state not in ENDS:
            self.tell("admission", f.HoldSet(job=job_id, held=False, by="ada", urgent=urgent))

    def _resize(self) -> None:
        """Somebody asks for another size of every job that has one."""
        for job in map(self.job, self.in_state(JobState.RUNNING)):
            role = job.spec.roles[-1]
            sizes = [size for size in range(role.min_count, role.max_count + 1) if role.allows(size)]
            if role.is_elastic and job.sizes.get(role.name, 0) in sizes:
                asked = f.ResizeAsked(job=job.id, role=role.name, size=self.own.choice(sizes), by="ada")
                self.tell("admission", asked)

    def _say(self, fact: f.Fact) -> None:
        self.tell("telemetry", fact)

    def _hang(self) -> None:
        if running := self.in_state(JobState.RUNNING):
            job = self.job(self.own.choice(running))
            task = self.tasks(job.id)[0].id
            self._say(f.GangHung(job=job.id, attempt=job.attempt, task=task, silent_s=100))

    def _use(self) -> None:
        for job in self.in_state(JobState.RUNNING)[:5]:
            percent, memory_mib = self.own.choice([-1, 0, 30, 99]), self.own.choice([-1, 1000, 39_000])
            self._say(f.JobUsed(job=job, gpu_percent=percent, window_s=60, memory_mib_max=memory_mib))

    def _reclaim(self) -> None:
        if running := self.in_state(JobState.RUNNING):
            self._say(f.JobReclaimed(job=self.own.choice(running), percent=1, window_s=60, least=10))


def _is_being_paused(task: Task) -> bool:
    """True for a member that was told to stand still and does not yet."""
    return task.pause and task.working is None and not task.stop and task.state == TaskState.STARTED
