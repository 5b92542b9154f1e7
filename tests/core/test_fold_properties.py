"""Whatever happens, in whatever order: nothing is booked twice, usage adds up, and a restart forgets nothing.

A random world is driven by what can really happen: jobs come and go, rounds are opened and decided by the real cycle,
agents start, finish, fail and vanish, nodes and GPUs fail and return, settings change. After every message the
invariants are checked, and a twin that is restored from a snapshot on the way must end with the same bytes.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.fold import apply
from gangline_core.ids import NodeId
from gangline_core.job import ENDS, LIVE, JobState, TaskState
from gangline_core.limits.gates import judge
from gangline_core.limits.quota import smallest_size
from gangline_core.limits.usage_by_class import recompute
from gangline_core.redecide import redecide
from gangline_core.room.capacity import Room
from gangline_core.spec import GPU_MILLI, ServiceClass, TopologyWish
from gangline_core.state import State, decode_snapshot, encode_snapshot

RACK = "topology.gangline.dev/rack"
NODES = [
    node("n1", gpus=4, model="A100", labels={RACK: "r1"}, islands=[0, 0, 1, 1], cpus=32),
    node("n2", gpus=4, model="V100", labels={RACK: "r1"}, cpus=32),
    node("n3", gpus=2, model="A100", labels={RACK: "r2"}, cpus=8),
    node("n4", gpus=0, labels={RACK: "r2"}, cpus=16),
]
GROUPS = [
    group("a", guaranteed=gpu_amount(4), limit=gpu_amount(8)),
    group("b", guaranteed=gpu_amount(2)),
    group("b/x", limit=gpu_amount(6)),
    group("c"),
]

_role = st.builds(
    lambda gpus, least, more, most, cpus: role(
        tasks=least + more, minimum=least, maximum=least + more + most, gpus=gpus, cpus=cpus
    ),
    gpus=st.sampled_from([0, 0.3, 0.5, 1, 1, 2, 3]),
    least=st.integers(1, 3),
    more=st.integers(0, 2),
    most=st.integers(0, 3),
    cpus=st.integers(0, 6),
)
_spec = st.builds(
    lambda main, side, where, group_path, **fields: spec(
        roles=[main, *([replace(side, name="side")] if side else [])], topology=where, group=group_path, **fields
    ),
    main=_role,
    side=st.one_of(st.none(), st.none(), _role),
    where=st.sampled_from(
        [
            TopologyWish(),
            TopologyWish(),
            TopologyWish(required="node"),
            TopologyWish(required="rack", preferred="nvlink"),
        ]
    ),
    group_path=st.sampled_from(["", "a", "b", "b/x", "c"]),
    priority=st.integers(0, 2),
    level=st.sampled_from(["high", "normal", "low"]),
    service_class=st.sampled_from(list(ServiceClass)),
    time_limit_s=st.sampled_from([0, 60, 3600]),
    protected_s=st.sampled_from([0, 0, 30]),
    grace_s=st.sampled_from([5, 30]),
    retries=st.integers(0, 1),
    preemptible=st.booleans(),
)

_ACTS = [
    *("round", "round", "round", "start", "start", "finish", "fail", "stop", "stop", "propose", "wait", "cancel"),
    *("hold", "release", "vanish", "lose", "see", "shrunk", "sick", "cured", "drain", "limit", "late"),
]
_act = st.one_of(
    st.tuples(st.just("submit"), _spec),
    st.tuples(
        st.sampled_from(_ACTS),
        st.integers(0, 30),
    ),
)


class Story:
    """Acts on a world, each possible or skipped."""

    def __init__(self) -> None:
        self.world = World(*NODES, groups=GROUPS)
        self.state = self.world.state
        self.opened: f.RoundDecided | None = None

    def act(self, name: str, value) -> None:
        getattr(self, f"do_{name}")(value)

    def do_submit(self, asked) -> None:
        self.world.submit(asked)

    def do_round(self, _) -> None:
        self.do_late(0)
        decided = self.world.round()
        if decided is not None:
            check_decision(self.world, decided)

    def do_late(self, k: int) -> None:
        """A round is opened now and decided before something else, but the decision arrives only after it."""
        if self.opened is not None:
            self.world.tell("placement.default", self.opened)
            self.opened = None
        elif k:
            opened = cycle.open_round(self.state, "default", self.world.at)
            if opened is not None:
                self.world.tell("queue.default", opened)
                self.opened = cycle.decide_round(self.state, "default", self.world.at)

    def do_propose(self, _) -> None:
        proposals = elasticity.propose(self.state, "default", self.world.at)
        if proposals:
            self.world.tell("elastic.default", *proposals)
            assert elasticity.propose(self.state, "default", self.world.at) == ()

    def pick(self, k: int, *states: JobState):
        jobs = [job for _, job in sorted(self.state.kept.jobs.items()) if job.state in states]
        return jobs[k % len(jobs)] if jobs else None

    def do_start(self, k: int) -> None:
        if (job := self.pick(k, JobState.STARTING, JobState.RESIZING)) is not None:
            self.world.start(job.id)

    def do_finish(self, k: int) -> None:
        if (job := self.pick(k, JobState.RUNNING, JobState.STARTING)) is not None:
            self.world.finish(job.id)

    def do_fail(self, k: int) -> None:
        if (job := self.pick(k, JobState.RUNNING, JobState.RESIZING)) is not None:
            tasks = self.world.tasks(job.id)
            self.world.exit(tasks[k % len(tasks)].id, code=1)

    def do_stop(self, k: int) -> None:
        names = sorted(self.state.stopping_tasks)[: k % 3 + 1]
        self.world.exit(*names, code=143, cause=f.ExitCause.STOPPED)
        self.world.empty(*names)

    def do_vanish(self, k: int) -> None:
        names = sorted(self.state.kept.tasks)
        if names:
            self.world.empty(names[k % len(names)])

    def do_wait(self, k: int) -> None:
        self.world.wait(k * 5)

    def do_cancel(self, k: int) -> None:
        if (job := self.pick(k, *LIVE, JobState.WAITING)) is not None:
            self.world.cancel(job.id)

    def do_hold(self, k: int) -> None:
        if (job := self.pick(k, *LIVE, JobState.WAITING)) is not None:
            self.world.tell("admission", f.HoldSet(job=job.id, held=True, by="ada"))

    def do_release(self, k: int) -> None:
        if (job := self.pick(k, JobState.HELD, JobState.SUSPENDED, JobState.STOPPING)) is not None:
            self.world.tell("admission", f.HoldSet(job=job.id, held=False, by="ada"))

    def do_lose(self, k: int) -> None:
        self.world.tell("telemetry", f.NodeLost(node=NODES[k % len(NODES)].id, silent_ms=30_000))

    def do_see(self, k: int) -> None:
        machine = NODES[k % len(NODES)]
        alive = [task for task in self.state.lost_tasks(machine.id)][: k % 2]
        self.world.tell("agent.sim", f.NodeSeen(node=machine, alive=tuple(alive)))

    def do_shrunk(self, k: int) -> None:
        """A node reports fewer GPUs than it had."""
        machine = NODES[k % len(NODES)]
        self.world.see(replace(machine, gpus=machine.gpus[: k % 3]))

    def do_sick(self, k: int) -> None:
        self.world.tell("telemetry", f.GpuFailed(node=NODES[k % 3].id, gpu=k % 4, problem="xid"))

    def do_cured(self, k: int) -> None:
        self.world.tell("telemetry", f.GpuHealthy(node=NODES[k % 3].id, gpu=k % 4))

    def do_drain(self, k: int) -> None:
        fact = f.DrainSet(node=NODES[k % len(NODES)].id, drained=bool(k % 2), by="admin")
        self.world.tell("admission", fact)

    def do_limit(self, k: int) -> None:
        self.world.tell("admission", f.GroupSet(group=replace(GROUPS[3], limit=gpu_amount(k % 6)), by="admin"))


def check(state: State) -> None:
    """What must hold after every message."""
    check_room(state)
    assert {path: used for path, used in state.usage.items() if used} == recompute(state)
    for usage in state.usage.values():
        assert all(amount > 0 for amount in usage.values())
    for job in state.kept.jobs.values():
        assert bool(job.tasks) == (job.state in LIVE)
        for task in state.tasks_of(job):
            assert (task.job, task.attempt) == (job.id, job.attempt)
            assert task.state != TaskState.LOST
    for task in state.kept.tasks.values():
        owner = state.kept.jobs[task.job]
        assert (task.id in owner.tasks) == (task.state != TaskState.LOST)
    live = {job.id for job in state.kept.jobs.values() if job.state in LIVE}
    assert {job for jobs in state.live.values() for job in jobs} == live
    assert {job for alike in state.live_sorts.get("default", {}).values() for job in alike} == live
    by_group = state.live_index.groups.get("default", {})
    assert {job for alike in by_group.values() for job in alike} == live
    for claim in state.kept.claims.values():
        assert state.kept.jobs[claim.job].state == JobState.WAITING
    if state.waiting.get("default"):
        check_gates(state)


def check_gates(state: State) -> None:
    """What gates remember of earlier looks is what they find when they remember nothing."""
    remembered = judge(state, "default", state.kept.at)
    kept, state.gate_memos = state.gate_memos, {}
    assert judge(state, "default", state.kept.at) == remembered
    state.gate_memos = kept


def check_room(state: State) -> None:
    """No GPU, core or byte is given twice; nodes may only be over-booked because they themselves shrank."""
    for machine in NODES:
        milli: dict[int, int] = {}
        memory: dict[int, int] = {}
        tasks = [task for task in state.kept.tasks.values() if task.node == machine.id]
        for share in (share for task in tasks for share in task.gpus):
            milli[share.index] = milli.get(share.index, 0) + share.milli
            memory[share.index] = memory.get(share.index, 0) + share.memory_mib
        for gpu in machine.gpus:
            assert 0 <= milli.get(gpu.index, 0) <= GPU_MILLI
            assert 0 <= memory.get(gpu.index, 0) <= gpu.memory_mib
        assert sum(task.cpu_milli for task in tasks) <= machine.cpu_milli
        assert sum(task.memory_mib for task in tasks) <= machine.memory_mib
        use = state.use[machine.id]
        assert use.cpu_milli == sum(task.cpu_milli for task in tasks)
        assert {k: used for k, used in enumerate(use.gpu_milli) if used} == {k: m for k, m in milli.items() if m}
    kept = state.room("default")
    fresh = Room.of(state.nodes_of("default"))
    for machine in fresh.nodes:
        fresh.refresh(machine, state.use[machine.id])
    for name in ("cpu", "memory", "milli", "gpu_memory", "free", "linked", "socketed", "fullness"):
        ours, theirs = getattr(kept, name), getattr(fresh, name)
        assert ours[:, : theirs.shape[1]].tolist() == theirs.tolist() if ours.ndim == 2 else (ours == theirs).all()


def check_decision(world: World, decided: f.RoundDecided) -> None:
    """What must hold for every decision that was applied at once."""
    state = world.state
    for placement in decided.placements:
        job = state.kept.jobs[placement.job]
        assert job.state == JobState.STARTING, "a decision applied at once is never void"
        sizes = {r.name: sum(task.role == r.name for task in placement.tasks) for r in job.spec.roles}
        assert all(smallest_size(r) <= sizes[r.name] <= r.count for r in job.spec.roles), "whole, or not at all"
    for growth in decided.growths:
        job = state.kept.jobs[growth.job]
        assert all(job.sizes[r.name] <= r.max_count for r in job.spec.roles)
    for claim in decided.claims:
        assert claim.job in state.kept.claims
        assert set(claim.victims) <= set(state.stopping_tasks)
    evicted = {eviction.job for eviction in decided.evictions}
    beneficiaries = {claim.job for claim in decided.claims}
    for eviction in decided.evictions:
        victim = state.kept.jobs[eviction.job]
        assert eviction.beneficiary in beneficiaries, "nobody is evicted for nothing"
        assert victim.spec.preemptible
        assert state.kept.jobs[eviction.beneficiary].spec.service_class != ServiceClass.OPPORTUNISTIC
    assert not evicted & {placement.job for placement in decided.placements}
    addresses = [(state.kept.nodes[NodeId(p.tasks[0].node)].address, p.port) for p in decided.placements]
    assert len(addresses) == len(set(addresses))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(_act, min_size=1, max_size=60), st.integers(0, 60))
def test_the_books_are_right_whatever_happens(acts, snapshot_after):
    story = Story()
    twin, read = None, 0
    for number, (name, value) in enumerate(acts):
        story.act(name, value)
        check(story.state)
        if number == snapshot_after:
            twin, read = decode_snapshot(encode_snapshot(story.state)), len(story.world.log)
    if twin is not None:
        for message in story.world.log[read:]:
            apply(twin, message, strict=True)
        assert encode_snapshot(twin) == encode_snapshot(story.state)
        assert cycle.open_round(twin, "default", story.world.at) == cycle.open_round(
            story.state, "default", story.world.at
        )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(_act, min_size=1, max_size=50))
def test_every_decision_is_made_again_from_the_log_alone(acts):
    story = Story()
    for name, value in acts:
        story.act(name, value)
    state = State()
    decided = None
    for message in story.world.log:
        kind = message.lane.partition(".")[0]
        if kind in ("queue", "elastic"):
            assert redecide(state, message.lane, message.facts, message.at) == message.facts
        if kind == "placement":
            assert decided == message.facts
        apply(state, message, strict=True)
        if kind == "queue":
            # The story decides a round as soon as it is open, though the decision may arrive later.
            decided = redecide(state, "placement.default", (), message.at)
    assert encode_snapshot(state) == encode_snapshot(story.state)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(_act, min_size=1, max_size=40))
def test_without_new_events_the_world_comes_to_rest_and_in_the_end_everything_is_given_back(acts):
    story = Story()
    for name, value in acts:
        story.act(name, value)
    story.do_late(0)
    story.world.settle(rounds=200)
    assert elastic_rest(story) <= 3
    for job_id, job in sorted(story.state.kept.jobs.items()):
        if job.state not in ENDS:
            story.world.cancel(job_id)
    for machine in NODES:
        story.world.tell("agent.sim", f.NodeSeen(node=machine))
    story.world.stop_all()
    assert not story.state.kept.tasks
    assert recompute(story.state) == {}
    assert not any(story.state.usage.values())
    assert not story.state.kept.claims


def elastic_rest(story: Story) -> int:
    """How often sizes are proposed before nobody wants to grow any more."""
    for number in range(20):
        proposals = elasticity.propose(story.state, "default", story.world.at)
        if not proposals:
            return number
        story.world.tell("elastic.default", *proposals)
        story.world.settle(rounds=200)
    raise AssertionError("elastic jobs swing for ever")
