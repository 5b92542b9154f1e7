"""What is cleared for a job goes to whoever would have it sent away as soon as it worked, not by priority alone."""

import pytest
from msgspec.structs import replace
from tests.core.test_goes_on_before_others import at_rest
from tests.core.test_pausing import gpu_spec
from tests.make import gpu_amount, group, node, spec
from tests.watched import Watched

from gangline_core.facts import GroupSet, HoldSet
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.spec import ServiceClass


def lent_to_one_that_is_opportunistic(**terms) -> tuple[Watched, JobId]:
    """At the end of a lease one of higher priority waits for the room of one that takes its time to go."""
    world = Watched(node("n1", gpus=4))
    world.set_policy(ordering="priority", lease_s=100, starvation_s=0)
    less = spec(gpus=4, checkpoints=True, grace_s=60, service_class=ServiceClass.OPPORTUNISTIC)
    world.submit_running(less, "n1")
    world.round()
    loose = world.submit(gpus=4, priority=1, service_class=ServiceClass.OPPORTUNISTIC, **terms)
    world.wait(101).round()
    assert world.state.kept.claims[loose].victims
    return world, loose


def test_an_opportunistic_job_does_not_start_on_its_lease_before_whom_it_is_sent_away_for() -> None:
    """Seed 1600332: it did, and was to be paused for the other, at the next event or when a date came."""
    world, loose = lent_to_one_that_is_opportunistic()
    firm = world.submit(gpus=2)
    world.wait(1).settle(stops=False)
    assert list(world.state.kept.claims) == [firm]
    world.settle()
    assert (world.job(firm).state, world.job(loose).state) == (JobState.RUNNING, JobState.WAITING)
    assert world.job(loose).attempt == 0, "it never began"


@pytest.mark.parametrize("terms", [{"protected_s": -1}, {"preemptible": False}])
def test_what_is_cleared_for_one_that_nobody_sends_away_stays_its_own(terms) -> None:
    world, loose = lent_to_one_that_is_opportunistic(**terms)
    firm = world.submit(gpus=2)
    world.wait(1).settle()
    assert (world.job(firm).state, world.job(loose).state) == (JobState.WAITING, JobState.RUNNING)


def test_what_is_cleared_for_a_borrower_is_whose_guarantee_it_would_be_reclaimed_for() -> None:
    groups = [group("owner", guaranteed=gpu_amount(8)), group("x")]
    world = Watched(node("n1"), groups=groups).set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=8, group="x", grace_s=60), "n1")
    borrower = world.submit(gpus=8, group="x", priority=5)
    world.round()
    assert list(world.state.kept.claims) == [borrower]
    owed = world.submit(gpus=8, group="owner")
    world.wait(1).settle()
    assert (world.job(owed).state, world.job(borrower).state) == (JobState.RUNNING, JobState.WAITING)
    assert world.job(borrower).attempt == 0, "it never began"


def waits_for_room(**terms) -> tuple[Watched, JobId]:
    """A job of priority 1 waits for the room of one that takes its time to go."""
    world = Watched(node("n1", gpus=4)).set_policy(ordering="priority", starvation_s=0, **terms)
    world.submit_running(spec(gpus=4, grace_s=60), "n1")
    waits = world.submit(gpus=4, priority=1)
    world.round()
    assert list(world.state.kept.claims) == [waits]
    return world, waits


def test_whose_victims_are_gone_does_not_start_before_a_more_important_one_that_came_meanwhile() -> None:
    """It started, and would have been evicted by the next round, which nothing opened."""
    world, waits = waits_for_room()
    heir = world.submit(gpus=4, priority=2)
    world.wait(1).stop_all()
    decided = world.round()
    assert decided is not None
    assert ([one.job for one in decided.placements], decided.claims_dropped) == ([heir], (waits,))


def test_who_starts_by_its_age_is_left_to_work_by_those_only_whom_it_passed() -> None:
    """Seed 1600531: the older one stood before it, was not passed, and would have had it paused by the next round."""
    limited = group("x", limit=gpu_amount(1))
    world = Watched(node("n1", gpus=4), groups=[limited, group("y")])
    world.set_policy(ordering="priority", starvation_s=60, starvation_percent=100)
    world.submit_running(spec(gpus=4, group="y", grace_s=600), "n1")
    older = world.submit(gpus=4, group="x", priority=2)
    waits = world.submit(gpus=4, group="y", priority=1)
    world.round()
    assert list(world.state.kept.claims) == [waits]
    world.wait(70).tell("admission", GroupSet(group=replace(limited, limit=gpu_amount(4)), by="test"))
    world.stop_all()
    decided = world.round()
    assert decided is not None
    assert ([one.job for one in decided.placements], decided.claims_dropped) == ([older], (waits,))


def test_of_two_whose_victims_are_gone_one_makes_room_and_the_other_starts() -> None:
    """The room of those who start on their claims was counted twice in thought, and nobody was found to make way."""
    world = Watched(node("n1", gpus=8)).set_policy(ordering="priority", starvation_s=0)
    for _ in range(2):
        world.submit_running(spec(gpus=4, grace_s=60), "n1")
    low, high = world.submit(gpus=4, priority=1), world.submit(gpus=4, priority=3)
    world.round()
    assert set(world.state.kept.claims) == {low, high}
    heir = world.submit(gpus=4, priority=2)
    world.wait(1).stop_all()
    decided = world.round()
    assert decided is not None
    assert ({one.job for one in decided.placements}, decided.claims_dropped) == ({high, heir}, (low,))


def sunk_and_fresh() -> tuple[Watched, JobId, JobId]:
    """A job that had much service waits for the room of one that had more; then one comes that had none."""
    world = Watched(node("n1", gpus=4))
    world.set_policy(ordering="least_attained", service_thresholds=(600, 3_600), starvation_s=0)
    sunk = world.submit_running(spec(gpus=4, checkpoints=True, priority=1), "n1")
    world.wait(300)
    second = world.submit(gpus=4, grace_s=60)
    at_rest(world)
    world.stop_all()
    world.settle()
    assert world.job(second).state == JobState.RUNNING
    world.wait(1_000).round()
    assert list(world.state.kept.claims) == [sunk]
    return world, sunk, world.submit(gpus=4)


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_is_cleared_for_one_that_had_much_goes_to_one_that_had_nothing(is_gone: bool) -> None:
    world, sunk, fresh = sunk_and_fresh()
    world.wait(1).settle(stops=is_gone)
    world.settle()
    assert (world.job(fresh).state, world.job(sunk).state) == (JobState.RUNNING, JobState.WAITING)
    assert world.job(sunk).attempt == 1, "it did not begin again in between"


@pytest.mark.parametrize("oldest", [True, False])
def test_of_two_that_had_nothing_the_older_has_what_is_cleared_where_the_oldest_preempt(oldest: bool) -> None:
    """Seed 2727425515: the younger is of higher priority, which does not turn round what service says."""
    world = Watched(node("n1", gpus=4))
    world.set_policy(ordering="least_attained", service_thresholds=(60,), starvation_s=0, oldest_preempts=oldest)
    sunk = world.submit_running(spec(gpus=4, checkpoints=True, grace_s=60), "n1")
    older = world.submit(gpus=4)
    world.tell("admission", HoldSet(job=older, held=True, by="ada"))
    younger = world.wait(60).submit(gpus=4, priority=2)
    world.round()
    assert list(world.state.kept.claims) == [younger]
    world.tell("admission", HoldSet(job=older, held=False, by="ada"))
    world.wait(1).settle(stops=False)
    assert list(world.state.kept.claims) == [older if oldest else younger]
    assert world.job(sunk).state == JobState.STOPPING


def test_a_paused_job_that_had_much_does_not_go_on_before_one_that_had_nothing() -> None:
    """Seed 1600424: it did, and was to be paused for the other, which waited for the next event below their limit."""
    world = Watched(node("n1", gpus=8), groups=[group("lab", limit=gpu_amount(4))])
    world.set_policy(ordering="least_attained", service_thresholds=(600,), starvation_s=0)
    sunk = world.submit_running(gpu_spec(gpus=4, group="lab"), "n1")
    world.wait(300)
    first, other = (world.submit(gpus=4, group="lab") for _ in range(2))
    at_rest(world)
    assert (world.job(sunk).state, world.job(first).state) == (JobState.PAUSED, JobState.RUNNING)
    world.wait(10).finish(first)
    at_rest(world)
    assert (world.job(sunk).state, world.job(other).state) == (JobState.PAUSED, JobState.RUNNING)
    world.wait(10).finish(other)
    at_rest(world)
    assert world.job(sunk).state == JobState.RUNNING, "nobody waits any more"


def test_what_is_cleared_for_one_within_its_guarantee_is_nobody_elses_whose_guarantee_is_as_good() -> None:
    """Each took it from the other in turn, round after round: once it works neither is sent away for the other."""
    owners = [group(path, guaranteed=gpu_amount(4)) for path in ("a", "b")]
    world = Watched(node("n1", gpus=4), node("n2", gpus=4), groups=[*owners, group("x")])
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=4, group="x", preemptible=False), "n2")
    world.submit_running(spec(gpus=4, group="x", grace_s=60), "n1")
    first = world.submit(gpus=4, group="a")
    world.round()
    assert list(world.state.kept.claims) == [first]
    second = world.submit(gpus=3, group="b")
    world.wait(1).settle(stops=False)
    assert list(world.state.kept.claims) == [first]
    world.settle()
    assert (world.job(first).state, world.job(second).state) == (JobState.RUNNING, JobState.WAITING)
