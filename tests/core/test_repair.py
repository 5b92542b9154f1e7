"""A gang that lost a member: just that member is placed again where the job allows it, and the others run on."""

import pytest
from msgspec.structs import replace
from tests.make import World, node, role, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.cycle import round_due
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.wake import next_wake_ms


def world(count: int = 3, gpus: int = 1) -> World:
    return World(*(node(f"n{k}", gpus=gpus) for k in range(1, count + 1)))


def running(made: World, **fields):
    job = made.submit(spec(**fields))
    made.round()
    made.start(job)
    assert made.job(job).state == JobState.RUNNING
    return job


def lose(made: World, name: str) -> None:
    made.tell("telemetry", f.NodeLost(node=name, silent_ms=30_000))


def nodes(made: World, job) -> dict[int, str]:
    return {task.rank: task.node for task in made.tasks(job)}


def test_only_the_lost_member_is_placed_again_and_the_others_run_on():
    made = world()
    job = running(made, tasks=2, gpus=1, repair_s=600)
    before = made.tasks(job)
    lost = next(task for task in before if task.node == "n1")
    survivor = next(task for task in before if task.node == "n2")
    lose(made, "n1")
    assert made.job(job).state == JobState.RUNNING
    assert made.job(job).missing == {"worker": 1}
    assert round_due(made.state, "default")
    made.round()
    assert nodes(made, job) == {lost.rank: "n3", survivor.rank: "n2"}
    assert made.tasks(job)[survivor.rank].id == survivor.id
    made.start(job)
    assert made.job(job).state == JobState.RUNNING
    assert made.job(job).missing == {}
    assert made.job(job).attempt == 1
    assert made.job(job).sizes == {"worker": 2}


def test_a_missing_member_goes_before_everybody_who_waits():
    made = world()
    job = running(made, tasks=3, gpus=1, repair_s=600)
    other = made.submit(spec(gpus=1))
    lose(made, "n3")
    assert not made.round().placements
    made.see(node("n3", gpus=1))
    decided = made.round()
    assert [growth.job for growth in decided.growths] == [job]
    assert made.job(other).state == JobState.WAITING


def test_without_the_wish_the_whole_gang_starts_anew():
    made = world()
    job = running(made, tasks=2, gpus=1)
    lose(made, "n1")
    assert made.job(job).state == JobState.STOPPING


def test_a_gang_that_finds_no_room_in_time_is_released_whole():
    made = world(2)
    job = running(made, tasks=2, gpus=1, repair_s=600)
    lose(made, "n1")
    made.round()
    assert next_wake_ms(made.state, "default", made.at) == made.at + 600_000
    made.wait(600)
    decided = made.round()
    assert decided.late_repairs == (job,)
    assert made.job(job).state == JobState.STOPPING
    assert made.reason(job) == ReasonCode.REPAIR_LIMIT
    made.stop_all()
    assert made.job(job).state == JobState.WAITING
    assert not made.tasks(job)


def test_a_gang_that_may_be_smaller_goes_on_smaller_after_its_time():
    made = world(2)
    job = running(made, roles=[role(tasks=2, minimum=1, maximum=2, gpus=1)], repair_s=600)
    lose(made, "n1")
    made.round()
    made.wait(600)
    made.round()
    made.settle()
    assert made.job(job).state == JobState.RUNNING
    assert made.job(job).sizes == {"worker": 1}
    assert made.job(job).missing == {}


def test_members_that_meet_at_rank_0_start_anew_when_it_is_lost():
    made = world()
    job = running(made, tasks=2, gpus=1, repair_s=600, elastic=Elastic(kind=ResizeKind.TORCHRUN))
    lose(made, nodes(made, job)[0])
    assert made.job(job).state == JobState.STOPPING


def test_a_member_on_a_failed_gpu_leaves_and_is_placed_on_a_well_one():
    made = world(2, gpus=4)
    job = running(made, tasks=2, gpus=2, repair_s=600)
    gone = made.tasks(job)[1]
    made.tell("telemetry", f.GpuFailed(node=gone.node, gpu=gone.gpus[0].index, problem="Xid 79"))
    made.round()
    new = [task for task in made.tasks(job) if not task.stop]
    assert [task.rank for task in new] == [0, 1]
    assert (gone.node, gone.gpus[0].index) not in {(task.node, share.index) for task in new for share in task.gpus}
    made.settle()
    assert made.job(job).state == JobState.RUNNING
    assert len(made.tasks(job)) == 2


def test_a_lost_process_is_repaired_too_but_a_failed_one_is_the_gangs_failure():
    made = world()
    job = running(made, tasks=2, gpus=1, repair_s=600)
    first, second = made.tasks(job)
    made.exit(second.id, code=1, cause=f.ExitCause.PROCESS_LOST).empty(second.id)
    made.round()
    made.settle()
    assert made.job(job).state == JobState.RUNNING
    assert {task.rank for task in made.tasks(job)} == {0, 1}
    made.exit(first.id, code=3)
    assert made.job(job).state == JobState.STOPPING


def test_the_required_domain_of_the_others_is_kept():
    rack = "topology.gangline.dev/rack"
    made = World(*(replace(node(f"n{k}", gpus=1), labels={rack: f"r{k // 3}"}) for k in range(6)))
    job = running(made, tasks=2, gpus=1, topology="rack", repair_s=600)
    lost, kept = nodes(made, job)[0], nodes(made, job)[1]
    lose(made, lost)
    made.round()
    inside = {f"n{k}" for k in range(6) if k // 3 == int(kept[1]) // 3}
    assert len(inside) == 3
    assert set(nodes(made, job).values()) == inside - {lost}


# --- gangs that may be smaller and do not wait for anybody ---


def elastic(
    made: World, where: list[str], *, kind: ResizeKind = ResizeKind.TORCHRUN, least: int = 1, sizes=(), **terms
):
    asked = role(tasks=len(where), minimum=least, maximum=8, sizes=sizes, gpus=1)
    return made.submit_running(spec(roles=[asked], elastic=Elastic(kind=kind, **terms)), *where)


@pytest.mark.parametrize("kind", [ResizeKind.TASKS, ResizeKind.TORCHRUN, ResizeKind.SIGNAL])
def test_the_others_go_on_smaller_when_a_node_is_lost_and_that_is_a_size_they_may_have(kind: ResizeKind):
    made = world(2, gpus=4)
    job = elastic(made, ["n1", "n1", "n2", "n2"], kind=kind)
    stay = [task.id for task in made.tasks(job) if task.node == "n1"]
    lose(made, "n2")
    assert made.job(job).state == JobState.RUNNING
    assert made.job(job).sizes == {"worker": 2}
    assert [task.id for task in made.tasks(job)] == stay
    assert (made.job(job).attempt, made.job(job).retries_used, made.job(job).losses) == (1, 0, 2)
    assert made.job(job).resize.why == "a member was lost: NodeLost"
    assert made.job(job).resize.number == 1, "two members of one node are one change"


def test_members_beyond_an_allowed_size_leave_with_their_notice():
    made = world(2, gpus=8)
    job = elastic(made, ["n1"] * 7 + ["n2"], sizes=(1, 2, 4, 8), notice_s=30)
    lose(made, "n2")
    leaving = [task for task in made.tasks(job) if task.stop]
    assert [task.rank for task in leaving] == [4, 5, 6]
    assert all(task.leaves for task in leaving)
    assert made.job(job).resize.stage == "noticed"
    made.stop_all()
    assert (made.job(job).state, made.job(job).sizes) == (JobState.RUNNING, {"worker": 4})


def test_a_gang_that_confirms_its_sizes_confirms_this_one_too():
    made = world(2, gpus=4)
    job = elastic(made, ["n1", "n1", "n2"], confirm_s=60)
    lose(made, "n2")
    assert (made.job(job).state, made.job(job).resize.stage) == (JobState.RESIZING, "confirming")
    made.tell("agent.sim", f.ResizeConfirmed(job=job, number=1, size=2))
    assert made.job(job).state == JobState.RUNNING


@pytest.mark.parametrize(
    ("lost", "kind", "least"),
    [("n1", ResizeKind.TORCHRUN, 1), ("n2", ResizeKind.TORCHRUN, 3), ("n2", ResizeKind.RESTART, 1)],
    ids=["they met at the lost one", "too few are left", "a change of size is a restart"],
)
def test_all_start_anew_where_the_others_cannot_go_on(lost: str, kind: ResizeKind, least: int):
    made = world(3, gpus=4)
    job = elastic(made, ["n1", "n1", "n2", "n2"], kind=kind, least=least)
    lose(made, lost)
    assert made.job(job).state == JobState.STOPPING
    made.stop_all()
    made.settle()
    assert (made.job(job).state, made.job(job).attempt, made.job(job).retries_used) == (JobState.RUNNING, 2, 0)


def test_independent_workers_go_on_whoever_is_lost():
    made = world(2, gpus=4)
    job = elastic(made, ["n1", "n2", "n2"], kind=ResizeKind.TASKS)
    lose(made, "n1")
    assert (made.job(job).state, made.job(job).sizes) == (JobState.RUNNING, {"worker": 2})


def test_it_grows_again_when_there_is_room():
    made = world(2, gpus=2)
    job = elastic(made, ["n1", "n1", "n2", "n2"])
    lose(made, "n2")
    made.see(node("n2", gpus=2))
    made.wait(60).tell("elastic.default", *elasticity.propose(made.state, "default", made.at))
    made.settle()
    assert made.job(job).sizes == {"worker": 4}
    assert len({task.rank for task in made.tasks(job)}) == 4


def test_a_member_on_a_failed_gpu_leaves_and_its_room_comes_back_only_when_it_is_gone():
    made = world(1, gpus=4)
    job = elastic(made, ["n1"] * 4)
    gone = made.tasks(job)[3]
    made.tell("telemetry", f.GpuFailed(node="n1", gpu=gone.gpus[0].index, problem="Xid 79"))
    assert (made.job(job).state, made.job(job).sizes) == (JobState.RESIZING, {"worker": 3})
    assert gone.id in made.job(job).tasks
    made.stop_all()
    assert (made.job(job).state, len(made.tasks(job))) == (JobState.RUNNING, 3)


def test_a_sub_gang_below_its_least_is_released_after_its_grace_and_the_others_go_on():
    made = world(3, gpus=4)
    roles = [role("trainer", tasks=2, gpus=1), role("reader", tasks=4, minimum=0, maximum=4, sizes=[0, 4], gpus=1)]
    job = made.submit_running(spec(roles=roles, repair_s=300), "n1", "n1", "n2", "n2", "n3", "n3")
    made.set_policy(elastic_growth=False)
    for name in ("n1", "n2"):
        made.submit_running(spec(gpus=2, preemptible=False), name)
    lose(made, "n3")
    assert made.job(job).sizes == {"trainer": 2, "reader": 2}
    made.round()
    made.wait(299).round()
    assert made.job(job).sizes == {"trainer": 2, "reader": 2}, "its grace is not over"
    made.wait(1)
    made.round()
    made.stop_all()
    assert (made.job(job).state, made.job(job).sizes) == (JobState.RUNNING, {"trainer": 2})
    assert sum(made.state.use["n2"].gpu_milli) == 2000


def test_everybody_lost_starts_anew():
    made = world()
    job = running(made, tasks=2, gpus=1, repair_s=600)
    for name in sorted(nodes(made, job).values()):
        lose(made, name)
    assert made.job(job).state == JobState.WAITING
    assert made.job(job).missing == {}


def test_an_eviction_ends_the_search_for_missing_members():
    made = world(2)
    job = running(made, tasks=2, gpus=1, repair_s=600)
    lose(made, "n1")
    made.submit(spec(gpus=1, priority=5))
    decided = made.round()
    assert [eviction.job for eviction in decided.evictions] == [job]
    assert made.job(job).missing == {}
