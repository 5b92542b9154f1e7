"""Anything may happen in any order: after every single message all oracles hold, and the log replays.

A Hypothesis machine submits, cancels, holds, edits quotas and policies, fails and repairs nodes, lets members end or
stop, lets time pass and holds rounds; `dollhouse.oracles` looks on (O1 to O7).
"""

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, role, spec

from dollhouse.oracles import Oracles
from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.job import LIVE, JobState
from gangline_core.spec import ServiceClass
from gangline_core.step import Step

NODES = ("n1", "n2", "n3")
GROUPS = ("a", "a/x", "b")
ROUNDS_MAX = 40
"""Rounds in a row without anything from outside; more would be a change without end."""


class Watched(World):
    """A world whose every message is looked at."""

    def __init__(self) -> None:
        self.oracles = Oracles()
        super().__init__(*(node(name) for name in NODES), groups=[group(path) for path in GROUPS])
        self.set_policy(starvation_s=600)

    def tell(self, lane: str, *facts: f.Fact, at: int | None = None) -> Step:
        step = super().tell(lane, *facts, at=at)
        self.oracles.look(self.state, self.log[-1], step)
        return step


class Machine(RuleBasedStateMachine):
    """What users, administrators, machines and the clock may do."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Watched()

    @initialize(sizes=st.lists(st.integers(1, 8), min_size=2, max_size=6))
    def a_few_jobs_run_already(self, sizes):
        self.world.submit(*(spec(gpus=gpus, group=GROUPS[k % 3], time_limit_s=600) for k, gpus in enumerate(sizes)))
        self.rounds_until_nothing_calls_for_one()
        self.world.start(*self.world.in_state(JobState.STARTING))

    # --- users --------------------------------------------------------------------------------------------

    @rule(
        gpus=st.integers(0, 8),
        tasks=st.integers(1, 3),
        count=st.integers(1, 4),
        path=st.sampled_from(GROUPS),
        priority=st.integers(0, 2),
        service_class=st.sampled_from(ServiceClass),
        limit_s=st.sampled_from([0, 60, 3600]),
        most=st.integers(0, 2),
    )
    def submit(self, gpus, tasks, count, path, priority, service_class, limit_s, most):
        one = role(gpus=gpus, tasks=tasks)
        one = replace(one, max_count=one.count + most)
        asked = spec(roles=[one], group=path, priority=priority, service_class=service_class, time_limit_s=limit_s)
        self.world.submit(*[asked] * count)
        self.rounds_until_nothing_calls_for_one()

    @precondition(lambda self: self.world.in_state(JobState.WAITING))
    @rule(data=st.data())
    def cancel_a_waiting_job(self, data):
        self.world.cancel(data.draw(st.sampled_from(self.world.in_state(JobState.WAITING))))

    @precondition(lambda self: self.world.in_state(JobState.RUNNING))
    @rule(data=st.data())
    def cancel_a_running_job(self, data):
        self.world.cancel(data.draw(st.sampled_from(self.world.in_state(JobState.RUNNING))))

    @precondition(lambda self: self.world.in_state(JobState.WAITING))
    @rule(data=st.data())
    def hold(self, data):
        job = data.draw(st.sampled_from(self.world.in_state(JobState.WAITING)))
        self.world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))

    @precondition(lambda self: self.world.in_state(JobState.HELD))
    @rule(data=st.data())
    def release(self, data):
        job = data.draw(st.sampled_from(self.world.in_state(JobState.HELD)))
        self.world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))

    # --- administrators -----------------------------------------------------------------------------------

    @rule(path=st.sampled_from(GROUPS), limit=st.none() | st.integers(0, 24), guaranteed=st.integers(0, 8))
    def edit_a_quota(self, path, limit, guaranteed):
        limits = {} if limit is None else gpu_amount(limit)
        promised = guaranteed if limit is None else min(limit, guaranteed)
        edited = group(path, limit=limits, guaranteed=gpu_amount(promised))
        self.world.tell("admission", f.GroupSet(group=edited, by="root"))

    @rule(
        ordering=st.sampled_from(["fifo", "priority", "fair_share", "dominant_resource", "round_robin", "weighted"]),
        preemption=st.booleans(),
        backfill_depth=st.integers(0, 3),
    )
    def edit_the_policy(self, ordering, preemption, backfill_depth):
        self.world.set_policy(ordering=ordering, preemption=preemption, backfill_depth=backfill_depth)

    # --- machines -----------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NODES))
    def lose_a_node(self, name):
        if not self.world.state.kept.nodes[NodeId(name)].lost:
            self.world.tell("telemetry", f.NodeLost(node=NodeId(name), silent_ms=30_000))

    @rule(name=st.sampled_from(NODES))
    def a_node_comes_back(self, name):
        known = self.world.state.kept.nodes[NodeId(name)]
        if known.lost:
            gone = [task for task in self.world.state.kept.tasks.values() if task.node == known.id]
            self.world.see(node(name))
            self.world.empty(*(task.id for task in gone if task.id in self.world.state.kept.tasks))

    @rule(starts=st.booleans(), stops=st.booleans())
    def machines_do_what_they_were_told(self, starts, stops):
        if starts:
            self.world.start(*self.world.in_state(JobState.STARTING))
        if stops:
            self.world.stop_all()
        self.rounds_until_nothing_calls_for_one()

    @precondition(lambda self: self.world.in_state(JobState.RUNNING))
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1]))
    def a_job_ends(self, data, code):
        self.world.finish(data.draw(st.sampled_from(self.world.in_state(JobState.RUNNING))), code=code)

    # --- time and rounds ----------------------------------------------------------------------------------

    @rule(seconds=st.integers(1, 900))
    def time_passes(self, seconds):
        self.world.wait(seconds)

    @rule()
    def rounds_until_nothing_calls_for_one(self):
        for _ in range(ROUNDS_MAX):
            decided = self.world.round()
            if decided is None:
                return
            for what in ("placements", "evictions", "shrinks", "claims", "reservations", "growths"):
                if getattr(decided, what):
                    event(what)
            if not cycle.round_due(self.world.state, "default"):
                return
        raise AssertionError("rounds go on without anything from outside")

    def teardown(self) -> None:
        assert not any(job.state in LIVE and not job.tasks for job in self.world.state.kept.jobs.values())
        self.world.oracles.close(self.world.state)


TestAnythingInAnyOrder = Machine.TestCase
TestAnythingInAnyOrder.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
