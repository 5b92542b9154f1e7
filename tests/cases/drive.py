"""Plays a scenario on the production core: virtual time, whole rounds, agents that behave as told, and the oracles.

Jobs arrive at given seconds and pass the door; what the rounds decide is carried out: tasks start after `start`, run
for `run` seconds, and are gone `stop` seconds after they were told to stop. The oracles hold after every instant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct
from tests.make import T0, group, spec
from tests.watched import Watched

from dollhouse.oracles import prove
from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.groups import ROOT, Group, User
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import ENDS, JobState, Task, TaskState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import Reason, ReasonCode, sentence
from gangline_core.spec import JobSpec
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.step import Step
from gangline_core.telling import explain
from gangline_core.wake import next_wake_ms

ROUNDS_MAX = 100
"""Rounds of one instant; more mean that changes do not end."""
FOREVER = None


class Ask:
    """A job of the scenario: how it behaves, and what became of it at the door."""

    def __init__(self, asked: JobSpec, *, run: float | None, start: float, stop: float, code: int) -> None:
        """Nothing has arrived yet."""
        self.spec = asked
        self.run, self.start, self.stop, self.code = run, start, stop, code
        self.id = JobId(0)
        self.refused: Reason | None = None
        self.starts: list[float] = []
        """Seconds at which all members of an attempt had started."""
        self.ended: float | None = None


class Evicted(Struct, frozen=True):
    """One eviction as it was decided."""

    at: float
    victim: JobId
    beneficiary: JobId
    rule: str


class Drive(Watched):
    """A world in which time passes and jobs live; `now` is in seconds from the start of the scenario."""

    def __init__(
        self, *nodes: Node, groups: Iterable[Group] = (), users: Iterable[User] = (), policy: Mapping[str, Any] = {}
    ) -> None:
        """A cluster at rest; every pool has this policy."""
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._number = 0
        self._known: dict[tuple[str, TaskId], None] = {}
        self.asks: dict[JobId, Ask] = {}
        self.evicted: list[Evicted] = []
        self.shrunk: list[f.Shrink] = []
        self.decided: list[f.RoundDecided] = []
        self.seen_seq: list[int] = []
        """Per message of the log, what its writer had seen."""
        super().__init__(*nodes, groups=[group(ROOT), *groups], users=users)
        for pool in self.state.kept.pools if policy else ():
            self.set_policy(pool, **policy)

    # --- the scenario -----------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return (self.at - T0) / 1000

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Something happens at this second."""
        self._number += 1
        heappush(self._events, (T0 + round(seconds * 1000), self._number, act))

    def ask(
        self,
        at: float = 0,
        *,
        run: float | None = FOREVER,
        start: float = 0,
        stop: float = 0,
        code: int = 0,
        limit: int = 0,
        **fields: Any,
    ) -> Ask:
        """A job that arrives at this second; `fields` are the arguments of `spec`."""
        ask = Ask(spec(time_limit_s=limit, **fields), run=run, start=start, stop=stop, code=code)
        self.later(at, lambda: self.knock(ask))
        return ask

    def asks_of(self, count: int, at: float = 0, **fields: Any) -> list[Ask]:
        """So many equal jobs."""
        return [self.ask(at, **fields) for _ in range(count)]

    def knock(self, *asks: Ask) -> None:
        """Jobs come to the door, each as its own request."""
        draft, facts = Draft(), []
        for ask in asks:
            submit_id = f"submit-{len(self.log)}-{len(facts)}"
            judged = judge_submit(
                self.state, draft, specs=[ask.spec], submit_id=submit_id, by=ask.spec.user, trace="", at=self.at
            )
            facts.extend(judged.facts)
            if judged.refusals:
                ask.refused = judged.refusals[0][1]
            else:
                ask.id = judged.jobs[0]
                self.asks[ask.id] = ask
        self.tell("admission", *facts)

    def until(self, seconds: float) -> "Drive":
        """Let time pass up to and including this second."""
        end = T0 + round(seconds * 1000)
        self._settle()
        while self._events and self._events[0][0] <= end:
            self.at = max(self.at, self._events[0][0])
            while self._events and self._events[0][0] <= self.at:
                heappop(self._events)[2]()
            self._settle()
        self.at = max(self.at, end)
        return self

    def finish_all(self, seconds: float = 1_000_000) -> "Drive":
        """Let time pass until nothing more happens; everything that could end has ended, and the log replays."""
        self.until(seconds)
        assert all(act is look_again for _, _, act in self._events), "something still happens"
        self.prove_evictions()
        self.close()
        return self

    def restart(self) -> "Drive":
        """All processes forget what is not in the log."""
        self.state = decode_snapshot(encode_snapshot(self.state))
        return self

    def set_group(self, path: str, **fields: Any) -> None:
        """Change a group."""
        self.tell("admission", f.GroupSet(group=group(path, **fields), by="admin"))

    def drain(self, node: str, *, drained: bool = True) -> None:
        """Close a node for new work, or open it again."""
        self.tell("admission", f.DrainSet(node=NodeId(node), drained=drained, by="admin"))

    def lose(self, node: str) -> None:
        """A node is gone."""
        self.tell("telemetry", f.NodeLost(node=NodeId(node), silent_ms=30_000))

    def fail(self, ask: Ask, index: int = 0, *, code: int = 1) -> None:
        """One member of a job ends with an error."""
        self._gone(self.tasks(ask.id)[index].id, f.ExitCause.EXITED, code)

    def drop(self, ask: Ask) -> None:
        """Cancel a job."""
        self.cancel(ask.id)

    # --- what became of it ------------------------------------------------------------------------------

    def is_running(self, *asks: Ask) -> list[bool]:
        """Which of these jobs run now."""
        return [self._is(ask, JobState.RUNNING, JobState.RESIZING) for ask in asks]

    def is_waiting(self, *asks: Ask) -> list[bool]:
        """Which of these jobs wait now."""
        return [self._is(ask, JobState.WAITING) for ask in asks]

    def why(self, ask: Ask) -> str:
        """What a user is told about the job."""
        if ask.refused is not None:
            return sentence(ask.refused)
        told = explain.explain(self.state, ask.id, self.at)
        assert told is not None
        return told.sentence

    def notes(self, ask: Ask) -> str:
        """What a user is told besides."""
        told = explain.explain(self.state, ask.id, self.at)
        assert told is not None
        return " ".join(told.notes)

    def code(self, ask: Ask) -> ReasonCode:
        """The code of the reason that a user is told."""
        if ask.refused is not None:
            return ask.refused.code
        told = explain.explain(self.state, ask.id, self.at)
        assert told is not None
        assert told.reason is not None
        return told.reason.code

    def used(self, path: str = ROOT) -> float:
        """GPUs that a group uses."""
        return self.state.usage.get(path, {}).get("gpu_milli", 0) / 1000

    def where(self, ask: Ask) -> list[str]:
        """The nodes of a job's members in rank order."""
        return [task.node for task in self.tasks(ask.id)]

    def gpus(self, ask: Ask) -> list[tuple[str, tuple[int, ...]]]:
        """The GPUs of a job's members."""
        return [(task.node, tuple(share.index for share in task.gpus)) for task in self.tasks(ask.id)]

    # --- oracles ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing over capacity, usage is what lives, gangs are whole, whoever waits is told a true reason."""
        prove(self.state)
        self.check_books()
        for job in self.state.live_jobs():
            if job.state in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING):
                missing = job.missing if self.at <= job.missing_ms + job.spec.repair_s * 1000 else {}
                has = {role.name: job.sizes.get(role.name, 0) + missing.get(role.name, 0) for role in job.spec.roles}
                assert all(has[role.name] >= role.min_count for role in job.spec.roles), job
        for pool in self.state.kept.pools:
            self._check_reasons(pool)

    def check_books(self) -> None:
        """Nothing over capacity, and usage is the sum of what lives."""
        for machine in self.state.kept.nodes.values():
            check_node(self.state, machine)
        assert recompute(self.state) == {holder: use for holder, use in self.state.usage.items() if use}
        for used in self.state.usage.values():
            assert all(amount >= 0 for amount in used.values())

    def _check_reasons(self, pool: str) -> None:
        kept = self.state.kept
        reserved = {reservation.job for reservation in kept.pools[pool].reservations}
        waiting, policy = self.waiting(pool), kept.pools[pool].policy
        seen = min(64, policy.candidates_max, policy.candidates_per_shape)
        told = {self.state.shapes[job.id] for job in waiting if job.reason is not None}
        for job in waiting:
            # One like it speaks for it where a round looks at no more of them.
            is_told = job.reason is not None or len(waiting) > seen or self.state.shapes[job.id] in told
            assert is_told, f"job {job.id} is told nothing"
            if job.reason is None:
                continue
            assert (job.reason.code == ReasonCode.WAITING_FOR_VICTIMS) == (job.id in kept.claims), job
            if job.reason.code == ReasonCode.RESERVED and len(waiting) <= 64:
                assert job.reason.numbers["job"] in reserved
            assert "?" not in sentence(job.reason)

    def prove_evictions(self) -> None:
        """Everyone for whom somebody had to go has started afterwards, unless it was cancelled before it could.

        What comes back to a group that is owed it is used by the more important job of that group (decision 0007).
        """
        for eviction in self.evicted:
            ask = self.asks[eviction.beneficiary]
            was_cancelled = self.job(ask.id).state == JobState.CANCELLED
            assert was_cancelled or any(self._uses(one, eviction) for one in (ask, *self.asks.values())), eviction

    def _uses(self, ask: Ask, eviction: Evicted) -> bool:
        if not any(start >= eviction.at for start in ask.starts):
            return False
        own = self.asks[eviction.beneficiary]
        is_owed = eviction.rule == "reclaim" and ask.spec.group == own.spec.group
        return ask is own or (is_owed and ask.spec.priority > own.spec.priority)

    # --- inside -----------------------------------------------------------------------------------------

    def tell(self, lane: str, *facts: f.Fact, at: int | None = None) -> Step:
        """Fold a message, and let the machines act on it."""
        step = super().tell(lane, *facts, at=at)
        for fact in facts:
            if isinstance(fact, f.RoundDecided):
                self._note(fact)
        for moved in step.moves:
            self._know_element(moved.job)
        for name in dict.fromkeys(step.tasks):
            task = self.state.kept.tasks.get(name)
            if task is not None and task.job in self.asks:
                self._act(task, self.asks[task.job])
        for moved in step.moves:
            if moved.job in self.asks:
                self._moved(moved.job, moved.before, moved.after)
        return step

    def _know_element(self, job_id: JobId) -> None:
        """An element of an array behaves as the array was told to."""
        job = self.state.job(job_id)
        if job is not None and job.array and job_id not in self.asks and job.array in self.asks:
            own = self.asks[JobId(job.array)]
            element = self.asks[job_id] = Ask(own.spec, run=own.run, start=own.start, stop=own.stop, code=own.code)
            element.id = job_id

    def _note(self, fact: f.RoundDecided) -> None:
        self.decided.append(fact)
        self.shrunk.extend(fact.shrinks)
        self.evicted.extend(
            Evicted(at=self.now, victim=e.job, beneficiary=e.beneficiary, rule=e.rule) for e in fact.evictions
        )

    def _act(self, task: Task, ask: Ask) -> None:
        if task.state in (TaskState.LOST, TaskState.EXITED):
            return
        if task.stop:
            cause = f.ExitCause.STOPPED
            self._once("stop", task.id, ask.stop, lambda: self._gone(task.id, cause, 143))
        elif task.state == TaskState.PLACED:
            self._once("start", task.id, ask.start, lambda: self._begin(task.id))

    def _moved(self, job_id: JobId, before: JobState | None, after: JobState) -> None:
        ask, job = self.asks[job_id], self.job(job_id)
        if after in ENDS:
            ask.ended = self.now
        if before != JobState.STARTING or after != JobState.RUNNING:
            return
        ask.starts.append(self.now)
        attempt, limit = job.attempt, job.spec.time_limit_s
        if limit and (ask.run is None or limit < ask.run):
            self.later(self.now + limit + ask.stop, lambda: self._end(job_id, attempt, f.ExitCause.TIME_LIMIT, 143))
        elif ask.run is not None:
            self.later(self.now + ask.run, lambda: self._end(job_id, attempt, f.ExitCause.EXITED, ask.code))

    def _end(self, job_id: JobId, attempt: int, cause: f.ExitCause, code: int) -> None:
        for task in self.tasks(job_id):
            if task.attempt == attempt and not task.stop:
                self._gone(task.id, cause, code)

    def _begin(self, name: TaskId) -> None:
        task = self.state.kept.tasks.get(name)
        if task is not None and task.state == TaskState.PLACED and not task.stop:
            self.tell(self._agent(task), f.TaskStarted(task=name))

    def _gone(self, name: TaskId, cause: f.ExitCause, code: int) -> None:
        task = self.state.kept.tasks.get(name)
        if task is None or task.state in (TaskState.LOST, TaskState.EXITED):
            return
        self.tell(self._agent(task), f.TaskExited(task=name, cause=cause, exit_code=code), f.GpusEmpty(tasks=(name,)))

    def _once(self, what: str, task: TaskId, delay: float, act: Callable[[], object]) -> None:
        if (what, task) not in self._known:
            self._known[what, task] = None
            self.later(self.now + delay, act)

    def _settle(self) -> None:
        """Hold rounds at this instant until nothing calls for another one, then look ahead and check."""
        for _ in range(ROUNDS_MAX):
            while self._events and self._events[0][0] <= self.at:
                heappop(self._events)[2]()
            if not any([self._hold_round(pool) for pool in sorted(self.state.kept.pools)]):
                break
        else:
            raise AssertionError(f"no end of changes at second {self.now}")
        for pool in self.state.kept.pools:
            wake = next_wake_ms(self.state, pool, self.at)
            if wake is not None and ("wake", TaskId(f"{pool}-{wake}")) not in self._known:
                self._once("wake", TaskId(f"{pool}-{wake}"), (wake - self.at) / 1000, look_again)
        self.check()

    def _hold_round(self, pool: str) -> bool:
        known = self.state.kept.pools[pool]
        wake = next_wake_ms(self.state, pool, known.decided_at)
        is_due = cycle.round_due(self.state, pool) or (wake is not None and wake <= self.at)
        if is_due and self.round(pool) is not None:
            return True
        proposals = elasticity.propose(self.state, pool, self.at)
        if proposals:
            self.tell(f"elastic.{pool}", *proposals)
        return bool(proposals) or (bool(self._events) and self._events[0][0] <= self.at)

    def _is(self, ask: Ask, *states: JobState) -> bool:
        return ask.id in self.state.kept.jobs and self.job(ask.id).state in states


def look_again() -> None:
    """Time alone may have changed what a round decides."""


def check_node(state: State, machine: Node) -> None:
    """The node holds no more than it has, in exact numbers, and what it holds is the sum of its tasks."""
    use = state.use[machine.id]
    for gpu in machine.gpus:
        assert 0 <= use.gpu_milli[gpu.index] <= 1000
        assert 0 <= use.gpu_memory_mib[gpu.index] <= gpu.memory_mib
    assert 0 <= use.cpu_milli <= machine.cpu_milli
    assert 0 <= use.memory_mib <= machine.memory_mib
    assert all(0 <= taken <= machine.devices.get(name, 0) for name, taken in use.devices.items())
    held = [task for task in state.kept.tasks.values() if task.node == machine.id]
    assert sum(use.gpu_milli) == sum(task.gpu_milli for task in held)


def seconds(asks: Sequence[Ask]) -> list[float | None]:
    """When each of these jobs first ran."""
    return [ask.starts[0] if ask.starts else None for ask in asks]
