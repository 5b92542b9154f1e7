"""Jobs that grow and shrink: one step at a time, inside their bounds, never giving up what they have."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode


def sizes_seen(drive: Drive) -> list[int]:
    """Members added or taken away by each decision."""
    changes = []
    for decided in drive.decided:
        changes += [len(growth.tasks) for growth in decided.growths]
        changes += [-len(shrink.tasks) for shrink in decided.shrinks]
    return changes


def size(drive: Drive, ask) -> int:
    return drive.job(ask.id).sizes.get("worker", 0)


@pytest.mark.parametrize("free", [6, 7, 8])
@pytest.mark.parametrize("begin", [3, 6])
def test_growing_in_whole_steps_comes_to_rest(free, begin):
    # ray-project/ray#62128
    drive = Drive(node(gpus=free))
    ask = drive.ask(0, tasks=begin, minimum=3, maximum=12, sizes=[3, 6, 9, 12], gpus=1)
    drive.until(3600)
    assert size(drive, ask) == 6
    assert len(sizes_seen(drive)) == (1 if begin == 3 else 0)
    drive.finish_all()


def test_room_that_comes_and_goes_around_a_step_does_not_make_a_job_swing():
    drive = Drive(node(gpus=8))
    ask = drive.ask(0, tasks=6, minimum=3, maximum=12, sizes=[3, 6, 9, 12], gpus=1)
    for k in range(20):
        drive.ask(10 + 20 * k, gpus=1, run=10)
    drive.finish_all()
    assert sizes_seen(drive) == []
    assert size(drive, ask) == 6


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 40), st.integers(1, 30)), max_size=6),
    st.sampled_from([(), (2, 4, 8), (3, 6)]),
)
def test_sizes_change_only_because_of_something_from_outside(others, sizes):
    drive = Drive(node("n1"), node("n2", gpus=4))
    least, most = (sizes[0], sizes[-1]) if sizes else (1, 10)
    elastic = [drive.ask(k, tasks=least, minimum=least, maximum=most, sizes=sizes, gpus=1) for k in range(2)]
    for gpus, at, run in others:
        drive.ask(at, gpus=gpus, run=run)
    drive.finish_all()
    # Two jobs, and each other job can cause one shrink and one growth of both when it comes and when it goes.
    assert len(sizes_seen(drive)) <= 4 + 6 * len(others)
    for ask in elastic:
        assert not sizes or not ask.starts or size(drive, ask) in sizes


def test_growth_that_is_refused_costs_nothing_of_what_the_job_has():
    # kubernetes-sigs/kueue#9015
    drive = Drive(node(), groups=[group("q", limit=gpu_amount(4))])
    ask = drive.ask(0, tasks=3, minimum=1, maximum=8, sizes=[1, 3, 5, 8], gpus=1, group="q")
    drive.until(10)
    assert (size(drive, ask), drive.used("q")) == (3, 3)
    drive.invented.add("elastic")
    drive.tell("elastic.default", f.ResizeProposed(pool="default", job=ask.id, role="worker", size=5))
    drive.restart()
    drive.until(20)
    assert (size(drive, ask), drive.used("q"), len(ask.starts)) == (3, 3, 1)
    drive.set_group("q", limit=gpu_amount(5))
    drive.until(30)
    assert (size(drive, ask), drive.used("q")) == (5, 5)


def test_growth_adds_members_and_stops_none():
    drive = Drive(node())
    ask = drive.ask(0, tasks=3, minimum=1, maximum=8, gpus=1, start=2)
    drive.until(1)
    before = {task.id for task in drive.tasks(ask.id)}
    drive.until(100)
    after = {task.id: task for task in drive.tasks(ask.id)}
    assert before < set(after)
    assert not any(task.stop for task in after.values())
    assert len(ask.starts) == 1


def test_a_job_whose_members_partly_ended_shrinks_is_evicted_and_ends_like_any_other():
    # kubernetes-sigs/kueue#12670
    drive = Drive(node(gpus=10), groups=[group("q"), group("r")])
    ask = drive.ask(0, tasks=10, minimum=1, maximum=10, gpus=1, group="q", stop=1)
    drive.until(1)
    for task in drive.tasks(ask.id)[4:]:
        drive.tell(
            "agent.sim",
            f.TaskExited(task=task.id, cause=f.ExitCause.EXITED, exit_code=0),
            f.GpusEmpty(tasks=(task.id,)),
        )
    drive.until(2)
    other = drive.ask(5, gpus=8, group="r")
    drive.until(10)
    assert drive.is_running(other) == [True]
    high = drive.ask(20, gpus=10, group="r", priority=10, run=10)
    drive.until(25)
    assert drive.is_running(high) == [True]
    drive.drop(ask)
    drive.finish_all()
    assert drive.job(ask.id).state == JobState.CANCELLED
    assert drive.used("q") == 0


def test_a_job_evicted_while_it_grows_comes_back_at_any_size_it_declared():
    # kubernetes-sigs/kueue#15399
    drive = Drive(node(), groups=[group("q", limit=gpu_amount(7))])
    ask = drive.ask(0, tasks=6, minimum=1, maximum=10, gpus=1, group="q", start=5)
    drive.until(6)
    assert drive.job(ask.id).state == JobState.RESIZING
    high = drive.ask(7, gpus=8, priority=10, run=50)
    drive.until(8)
    drive.set_group("q", limit=gpu_amount(2))
    drive.finish_all()
    assert high.ended == 57
    assert (drive.is_running(ask), size(drive, ask)) == ([True], 2)
    drive.set_group("q", limit=gpu_amount(7))
    drive.finish_all(2_000_000)
    assert size(drive, ask) == 7


def test_draining_a_pool_and_opening_it_again_brings_an_elastic_job_back():
    drive = Drive(node("n1"), groups=[group("q", limit=gpu_amount(7))])
    ask = drive.ask(0, tasks=6, minimum=1, maximum=10, gpus=1, group="q")
    drive.until(5)
    drive.lose("n1")
    drive.until(10)
    assert (drive.is_waiting(ask), drive.code(ask)) == ([True], ReasonCode.NO_ELIGIBLE_NODE)
    drive.see(node("n1"))
    drive.finish_all()
    assert size(drive, ask) == 7


@pytest.mark.parametrize("wanted", [2, 5, 6, 100])
def test_a_proposal_outside_of_the_declared_bounds_changes_nothing_beyond_them(wanted):
    # intelligent-machine-learning/dlrover#1534
    drive = Drive(node(), policy={"elastic_growth": False})
    ask = drive.ask(0, tasks=3, minimum=3, maximum=4, gpus=1)
    drive.until(1)
    drive.invented.add("elastic")
    drive.tell("elastic.default", f.ResizeProposed(pool="default", job=ask.id, role="worker", size=wanted))
    drive.until(2)
    assert size(drive, ask) == (3 if wanted < 4 else 4)
    assert drive.job(ask.id).state == JobState.RUNNING


@pytest.mark.parametrize("needed", [1, 2, 3, 4, 5, 6, 7])
def test_shrinking_drops_members_that_have_not_started_before_those_that_work(needed):
    # dask/dask-kubernetes#659
    drive = Drive(node())
    first = drive.ask(0, gpus=6, run=10)
    ask = drive.ask(1, tasks=2, minimum=1, maximum=8, gpus=1)
    drive.until(5)
    working = {task.id for task in drive.tasks(ask.id)}
    ask.start = 180
    drive.until(20)
    assert first.ended == 10
    assert size(drive, ask) == 8
    drive.ask(30, gpus=needed)
    drive.until(31)
    [shrink] = drive.shrunk
    assert len(shrink.tasks) == needed
    assert needed > 6 or not working & set(shrink.tasks)
    drive.until(300)
    left = {task.id for task in drive.tasks(ask.id)}
    assert drive.tasks(ask.id)[0].rank == 0
    assert len(left) == 8 - needed
    assert not drive.evicted


def test_among_members_that_work_the_last_to_come_goes_first():
    drive = Drive(node())
    ask = drive.ask(0, tasks=8, minimum=2, maximum=8, gpus=1)
    drive.until(1)
    names = [task.id for task in drive.tasks(ask.id)]
    drive.ask(10, gpus=3)
    drive.until(11)
    [shrink] = drive.shrunk
    assert set(shrink.tasks) == set(names[-3:])
    assert {task.id for task in drive.tasks(ask.id)} == set(names[:-3])


@pytest.mark.parametrize("stop", [0, 30])
def test_room_that_a_shrink_frees_is_for_the_job_it_was_made_for(stop):
    drive = Drive(node())
    ask = drive.ask(0, tasks=8, minimum=2, maximum=8, gpus=1, stop=stop)
    other = drive.ask(10, gpus=4)
    thief = drive.ask(11, gpus=1, run=5)
    drive.until(10 + stop)
    assert drive.is_running(ask, other) == [True, True]
    assert other.starts == [10 + stop]
    assert len(drive.shrunk) <= 2
    drive.finish_all()
    assert thief.ended is not None


def test_roles_shrink_only_where_they_may():
    drive = Drive(node())
    ask = drive.ask(0, roles=[role("head", tasks=2), role("worker", tasks=6, minimum=2, maximum=6)])
    other = drive.ask(10, gpus=4)
    refused = drive.ask(11, gpus=1)
    drive.finish_all()
    assert drive.is_running(ask, other, refused) == [True, True, False]
    assert drive.job(ask.id).sizes == {"head": 2, "worker": 2}
    assert not drive.evicted
