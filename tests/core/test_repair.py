"""A gang that lost a member: just that member is placed again where the job allows it, and the others run on."""

from msgspec.structs import replace
from tests.make import World, node, role, spec

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
