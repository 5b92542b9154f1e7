"""Every step of a change of size can be cut short by whatever may happen to a job, and leaves nothing behind."""

import itertools

import pytest
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.ids import JobId, TaskId
from gangline_core.job import ENDS, JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.sizes import resizing
from gangline_core.sizes.resizing import OVER
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.state import decode_snapshot, encode_snapshot

STEPS = {
    "proposed larger": [],
    "proposed smaller": [],
    "noticed": [ResizeKind.TORCHRUN, ResizeKind.SIGNAL],
    "applying less": [ResizeKind.TASKS, ResizeKind.TORCHRUN, ResizeKind.SIGNAL],
    "applying more": [ResizeKind.TASKS, ResizeKind.TORCHRUN, ResizeKind.SIGNAL],
    "stopping to start again": [ResizeKind.RESTART],
    "starting again": [ResizeKind.RESTART],
    "confirming": list(ResizeKind),
}
"""Where a change can be, and for which kinds; none named is all."""
HAPPENINGS = (
    "it fails", "it fails and tries again", "its node is lost", "the other node is lost", "a GPU fails",
    "it is preempted", "it is cancelled", "it is held", "another size is asked for", "its limit is cut",
    "a new member cannot be started", "a process vanishes",
)  # fmt: skip


def world_with(kind: ResizeKind, *, retries: int = 0) -> tuple[World, JobId]:
    world = World(node("n1"), node("n2", gpus=2), groups=[group("q", limit=gpu_amount(10)), group("r")])
    terms = Elastic(kind=kind, notice_s=30, confirm_s=60, start_s=120)
    asked = spec(gpus=1, tasks=4, minimum=1, maximum=8, group="q", elastic=terms, retries=retries)
    job = world.submit_running(asked, "n1")
    world.set_policy(elastic_growth=False)
    return world, job


def bring_to(world: World, job: JobId, step: str) -> None:
    """Let a change of size go on until it is there."""
    size = 2 if step in ("proposed smaller", "noticed", "applying less") else 6
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=size))
    if step.startswith("proposed"):
        return
    world.round()
    if step == "applying less":
        for task in world.tasks(job):
            if task.leaves:
                world.tell("agent.sim", f.MemberSafe(task=task.id))
    if step in ("starting again", "confirming"):
        if world.job(job).state == JobState.STOPPING:
            world.stop_all()
            world.round()
        if step == "confirming":
            world.start(job)
    stages = {
        "noticed": "noticed",
        "confirming": "confirming",
        "applying less": "applying",
        "applying more": "applying",
    }
    assert world.job(job).resize.stage == stages.get(step, world.job(job).resize.stage)


def happen(world: World, job: JobId, what: str) -> None:
    match what:
        case "it fails" | "it fails and tries again":
            started = [task.id for task in world.tasks(job) if task.state == "started" and not task.stop]
            for task in started[-1:]:
                world.exit(task, code=1)
        case "its node is lost":
            world.tell("telemetry", f.NodeLost(node="n1", silent_ms=31_000))
        case "the other node is lost":
            world.tell("telemetry", f.NodeLost(node="n2", silent_ms=31_000))
        case "a GPU fails":
            shares = [share.index for task in world.tasks(job) if task.node == "n1" for share in task.gpus]
            world.tell("telemetry", f.GpuFailed(node="n1", gpu=max(shares), problem="Xid 79"))
        case "it is preempted":
            world.submit(spec(gpus=8, level="high", group="r", name="high"))
            world.round()
        case "it is cancelled":
            world.cancel(job)
        case "it is held":
            world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
        case "a new member cannot be started" | "a process vanishes":
            leave_by_itself(world, job, what)
        case "another size is asked for":
            world.tell("admission", f.ResizeAsked(job=job, role="worker", size=3, by="ada"))
        case "its limit is cut":
            world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(5)), by="admin"))


def leave_by_itself(world: World, job: JobId, what: str) -> None:
    """One member is gone through no fault of the job."""
    if what == "a new member cannot be started":
        able = [task.id for task in world.tasks(job) if task.state == "placed" and not task.stop]
        told = f.TaskExited(task=TaskId(""), cause=f.ExitCause.START_FAILED, error="no room on its disk")
    else:
        able = [task.id for task in world.tasks(job)]
        told = f.TaskExited(task=TaskId(""), cause=f.ExitCause.PROCESS_LOST)
    for name in able[-1:]:
        world.tell("agent.sim", replace(told, task=name), f.GpusEmpty(tasks=(name,)))


def come_to_rest(world: World, job: JobId) -> None:
    """Everything that can happen by itself does, up to all time-outs."""
    for _ in range(4):
        world.settle()
        if (held := world.job(job)).resize and held.resize.stage == "confirming":
            world.tell(
                "agent.sim", f.ResizeConfirmed(job=job, number=held.resize.number, size=sum(held.sizes.values()))
            )
        world.wait(200)
        if facts := elasticity.propose(world.state, "default", world.at):
            assert not world.tell("elastic.default", *facts).alarms
        world.stop_all()
    world.settle()


CASES = [
    (step, kind, what)
    for step, kinds in STEPS.items()
    for kind, what in itertools.product(kinds or list(ResizeKind), HAPPENINGS)
]


@pytest.mark.parametrize(("step", "kind", "what"), CASES)
def test_whatever_happens_at_any_step_leaves_nothing_behind(step: str, kind: ResizeKind, what: str) -> None:
    world, job = world_with(kind, retries=1 if what.endswith("again") else 0)
    bring_to(world, job, step)
    # A service that dies here knows all of it again from the log.
    world.state = decode_snapshot(encode_snapshot(world.state))
    happen(world, job, what)
    assert recompute(world.state) == {holder: used for holder, used in world.state.usage.items() if used}, (
        "what was not seen gone is still counted"
    )
    come_to_rest(world, job)
    after = world.job(job)
    assert not resizing.is_active(after), after.resize
    assert not world.state.kept.pools["default"].proposals
    assert job not in world.state.kept.claims
    if after.state in ENDS:
        assert not [task for task in world.state.kept.tasks.values() if task.job == job]
    else:
        assert after.state in (JobState.RUNNING, JobState.SUSPENDED, JobState.WAITING)
    expected = {
        "it fails": {JobState.FAILED}, "it is cancelled": {JobState.CANCELLED}, "it is held": {JobState.SUSPENDED},
        "it is preempted": {JobState.RUNNING, JobState.WAITING},
    }.get(what, {JobState.RUNNING})  # fmt: skip
    if what == "it fails" and step == "stopping to start again":
        # Told to stop already: how it ends then is no failure of its own.
        expected = {JobState.FAILED, JobState.RUNNING}
    if what == "it fails" and step == "starting again":
        expected = {JobState.RUNNING}  # none of its members had started
    assert after.state in expected, (after.state, after.reason)
    if after.state == JobState.RUNNING:
        assert after.spec.roles[0].allows(after.sizes["worker"])
    if what == "it fails and tries again":
        assert after.retries_used <= 1
    elif what != "it fails":
        assert after.retries_used == 0, "nobody's fault but ours"


@pytest.mark.parametrize(("step", "kinds"), [(step, kinds) for step, kinds in STEPS.items() if "proposed" not in step])
def test_each_step_that_can_take_for_ever_ends_by_its_time(step: str, kinds: list[ResizeKind]) -> None:
    for kind in kinds:
        world, job = world_with(kind)
        bring_to(world, job, step)
        resize = world.job(job).resize
        due_ms = elasticity.next_deadline_ms(world.state, "default")
        if step == "confirming":
            assert due_ms == resize.stage_ms + 60_000
        elif step == "applying more":
            assert due_ms == resize.began_ms + 120_000
        elif step in ("noticed", "applying less"):
            leaving = [task for task in world.tasks(job) if task.stop]
            assert leaving
            assert due_ms is None, "the agent beside the process ends notice and grace"
        if due_ms is not None:
            world.at = due_ms
            [late] = elasticity.propose(world.state, "default", world.at)
            assert isinstance(late, f.ResizeFailed)
            world.tell("elastic.default", late)
            come_to_rest(world, job)
            assert world.job(job).state == JobState.RUNNING
            assert world.job(job).resize.stage in OVER
