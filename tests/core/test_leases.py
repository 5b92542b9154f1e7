"""Room that is lent for a time: whose lease is over, and whose room it is then."""

from collections.abc import Iterator

import pytest
from tests.make import SECOND, World, node, spec

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.spec import ServiceClass
from gangline_core.wake import next_wake_ms


def lent(*nodes) -> World:
    return World(*nodes).set_policy(ordering="gavel", lease_s=100, starvation_s=0)


def test_a_job_on_a_node_that_went_to_another_pool_is_in_nobodys_way_when_leases_are_given() -> None:
    world = lent(node("n1", gpus=1), node("n2", gpus=1), node("n3", pool="other"))
    here, there = (world.submit_running(spec(gpus=1, checkpoints=True), name) for name in ("n1", "n2"))
    world.round()
    world.tell("admission", f.NodeAssigned(node="n2", pool="other", by="ada"))
    waits = [world.submit(spec(gpus=1, checkpoints=True)) for _ in range(2)]
    for _ in range(4):
        world.wait(101).round()
        world.settle()
        assert world.job(there).state == JobState.RUNNING, "its room would be nobody's here"
    runs = [job for job in (here, *waits) if world.job(job).state == JobState.RUNNING]
    assert len(runs) == 1
    assert max(world.job(job).preemptions for job in (here, *waits)) > 0, "the others take turns"


@pytest.mark.parametrize(
    ("prices", "said", "first"),
    [
        ({"v100": 2_480, "k80": 450}, {}, "n2"),
        ({"k80": 450}, {}, "n2"),
        ({"v100": 450, "*": 2_480}, {}, "n1"),
        ({}, {}, "n1"),
        ({"k80": 2_480}, {"speed_v100": 2.0}, "n2"),
    ],
)
def test_the_model_that_jobs_call_faster_is_handed_out_first_then_the_dearer_one(prices, said, first) -> None:
    world = lent(node("n1", gpus=1, model="K80"), node("n2", gpus=1, model="V100"))
    world.tell("admission", f.PricesSet(milli=prices, by="ada"))
    job = world.submit(spec(gpus=1, attributes=said))
    world.round()
    [task] = world.state.tasks_of(world.job(job))
    assert task.node == first


def turns(*, leases: int, **terms: bool) -> Iterator[tuple[int, int]]:
    """Two jobs on one GPU, lease after lease: the job of each run that ended, and how many leases that lasted."""
    world = lent(node("n1", gpus=1))
    one, other = world.submit_running(spec(gpus=1, **terms), "n1"), world.submit(spec(gpus=1, **terms))
    world.round()
    at_work, since = one, 0
    for lease in range(1, leases):
        world.wait(101).round()
        world.settle()
        runs = next(job for job in (one, other) if world.job(job).state == JobState.RUNNING)
        if runs != at_work:
            yield at_work, lease - since
            at_work, since = runs, lease


def test_by_parts_of_time_too_opportunistic_jobs_have_what_all_others_leave() -> None:
    world = lent(node("n1", gpus=1))
    firm = world.submit_running(spec(gpus=1, checkpoints=True), "n1")
    loose = world.submit(spec(gpus=1, checkpoints=True, service_class=ServiceClass.OPPORTUNISTIC))
    for _ in range(8):
        world.wait(101).round()
        world.settle()
        assert world.in_state(JobState.RUNNING) == [firm]
    world.finish(firm)
    world.settle()
    assert world.in_state(JobState.RUNNING) == [loose]


def test_who_goes_on_where_it_stopped_makes_way_at_the_end_of_each_lease() -> None:
    lasted = [leases for _, leases in turns(leases=20, checkpoints=True)]
    assert len(lasted) > 15
    assert set(lasted) == {1}


def test_who_begins_anew_works_on_for_as_long_as_all_its_runs_that_were_cut_off() -> None:
    """So a job of any length ends, however short leases are, and others have their turns until then."""
    had: dict[int, list[int]] = {}
    for job, leases in turns(leases=100):
        had.setdefault(job, []).append(leases)
    assert len(had) == 2
    for lasted in had.values():
        assert len(lasted) > 3, "its leases end all the same"
        assert all(lasted[k] >= sum(lasted[:k]) for k in range(1, len(lasted)))


def test_leases_end_while_nobody_can_be_moved_and_the_first_one_who_can_be_is_thought_of_in_time() -> None:
    world = lent(node("n1", gpus=1, model="A100"), node("n2", gpus=1, model="T4"))
    world.submit_running(spec(gpus=1, protected_s=350), "n1")
    world.round()
    for _ in range(3):
        world.wait(101).round()
    over = world.at - 303 * SECOND + 350 * SECOND
    assert next_wake_ms(world.state, "default", world.at) == over
    assert world.wait(50).round() is not None
    assert world.state.kept.pools["default"].leased_at == world.at


def test_who_has_to_give_way_stays_where_nobody_can_come() -> None:
    """Fewer tasks may be on the node than are there by now, so nobody else finds room on it whoever goes."""
    world = World(node("n1", gpus=2)).set_policy(ordering="priority", lease_s=100, starvation_s=0, preemption=False)
    runs = [world.submit_running(spec(gpus=1, checkpoints=True), "n1") for _ in range(2)]
    first = world.submit(gpus=1, priority=5)
    world.set_policy(node_tasks_max=1)
    world.wait(200).settle()
    assert all(world.job(job).tasks for job in runs)
    assert not world.job(first).tasks
    world.set_policy(node_tasks_max=512)
    world.wait(200).settle()
    assert world.job(first).tasks
