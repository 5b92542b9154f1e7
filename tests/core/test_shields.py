"""Who was kept from its work for long is left to work: a job that is evicted again and again ends all the same."""

from math import log2

import pytest
from tests.clockwork import Clockwork
from tests.core.test_anew import propose
from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core.cluster import Pool
from gangline_core.facts import PoolSet
from gangline_core.job import JobState
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms
from gangline_lab.audit import preemptions_of

STARVES_S, RUNS_S, URGENT_S = 120, 700, 100


def evicted_again_and_again(*, until_s: float, **policy) -> tuple[Clockwork, int]:
    """A long job of low priority, and urgent ones that come without end, each alone."""
    clock = Clockwork(node("n1"), **{"ordering": "priority", "starvation_s": STARVES_S, **policy})
    clock.arrive(0, spec("low", gpus=8), runs_s=RUNS_S)
    for k in range(int(until_s / 150)):
        clock.arrive(20 + 150 * k, spec(f"urgent-{k}", gpus=8, priority=10), runs_s=URGENT_S)
    clock.run(until_s)
    return clock, next(job.id for job in clock.world.state.kept.jobs.values() if job.spec.name == "low")


def starved_in_a_share() -> tuple[Clockwork, list[int]]:
    """Two schedulers; old jobs start where the work of four machines ends at once, and more urgent ones wait."""
    clock = Clockwork(*(node(f"n{k}") for k in range(4)), schedulers=2, ordering="priority", starvation_s=STARVES_S)
    clock.world.set_policy(scheduler_partitions=1, starvation_percent=100)
    for k in range(4):
        clock.arrive(0, spec(f"first-{k}", gpus=8, protected_s=-1), runs_s=200)
    for k in range(4):
        clock.arrive(10, spec(f"old-{k}", gpus=8), runs_s=100)
    for k in range(4):
        clock.arrive(150, spec(f"urgent-{k}", gpus=8, priority=10), runs_s=50)
    clock.run(201)
    return clock, [job.id for job in clock.world.state.kept.jobs.values() if job.spec.name.startswith("old")]


@pytest.mark.parametrize("ordering", ["priority", "weighted"])
def test_under_an_endless_stream_of_higher_priority_a_job_that_starves_ends(ordering):
    clock, low = evicted_again_and_again(until_s=6_000, ordering=ordering, formula="priority")
    assert clock.world.job(low).state == JobState.SUCCEEDED
    evictions = [eviction for eviction in clock.evictions if eviction.job == low]
    waits_s = clock.world.job(low).waited_ms / 1_000
    assert len(evictions) <= 2 + STARVES_S / 50 + log2(RUNS_S / STARVES_S) + 1
    assert (
        clock.world.job(low).ended_ms - clock.world.job(low).submitted_ms
    ) / 1_000 <= 3 * RUNS_S + waits_s + STARVES_S


def test_who_starts_by_its_age_in_the_share_of_a_scheduler_is_left_to_work_as_well():
    clock, old = starved_in_a_share()
    assert clock.shared > 4, "schedulers placed some of the old jobs in their shares"
    passing = [job for job in old if clock.world.job(job).state == JobState.RUNNING]
    assert len(passing) >= 3, "one may have met another's share on its node"
    clock.run(600)
    assert {clock.world.job(job).state for job in old} == {JobState.SUCCEEDED}
    assert not clock.evictions


def test_without_ageing_it_never_ends():
    clock, low = evicted_again_and_again(until_s=6_000, starvation_s=0)
    assert clock.world.job(low).state != JobState.SUCCEEDED


def test_it_is_left_to_work_as_long_as_it_was_kept_from_it():
    clock, low = evicted_again_and_again(until_s=6_000)
    job = clock.world.job(low)
    assert job.shield_ms >= STARVES_S * 1_000
    assert job.shield_ms == job.waited_ms + job.cut_off_ms


def starved(**fields) -> tuple[World, int, int]:
    """A job that starts before an urgent one, since it had starved; the urgent one waits."""
    world = World(node("n1"), groups=[group("lab"), group("owner", guaranteed=gpu_amount(4))])
    world.set_policy(ordering="priority", starvation_s=STARVES_S)
    first = world.submit_running(spec(gpus=8, protected_s=-1), "n1")
    old = world.submit(gpus=8, group="lab", **fields)
    world.wait(STARVES_S + 80)
    urgent = world.submit(gpus=8, group="lab", priority=10)
    world.round()
    world.finish(first)
    world.round()
    assert world.job(old).tasks
    world.start(old)
    return world, old, urgent


def test_whoever_started_by_its_age_is_not_sent_away_at_once_by_whom_it_passed():
    world, old, urgent = starved()
    world.settle()
    assert world.job(old).state == JobState.RUNNING
    over_ms = world.job(old).started_ms + (STARVES_S + 80) * 1_000
    assert next_wake_ms(world.state, "default", over_ms - 1) == over_ms
    world.at = over_ms
    world.round()
    assert world.job(old).state == JobState.STOPPING
    assert urgent in world.state.kept.claims


def test_a_gang_that_starts_again_at_another_size_is_left_to_work_as_before():
    """Its own restart ends no shield, even where the urgent job came only after it had started."""
    world = World(node("n1")).set_policy(ordering="priority", starvation_s=STARVES_S)
    first = world.submit_running(spec(gpus=8, protected_s=-1), "n1")
    asked = role(tasks=8, minimum=1, maximum=8, gpus=1)
    old = world.submit(roles=[asked], elastic=Elastic(kind=ResizeKind.RESTART, cost_s=30))
    world.wait(STARVES_S + 80)
    urgent = world.submit(gpus=8, priority=10)
    world.round()
    world.finish(first)
    world.settle()
    assert world.job(old).shield_ms
    world.wait(50).cancel(urgent)
    propose(world, **{f"j{old}": 4})
    world.settle()
    assert (world.job(old).attempt, world.job(old).sizes) == (2, {"worker": 4})
    world.submit(gpus=8, priority=10)
    world.settle()
    assert world.job(old).state == JobState.RUNNING


def test_both_are_told_of_it():
    world, old, urgent = starved()
    world.settle()
    notes = " ".join(explain(world.state, old, world.at).notes)
    assert "200 s" in notes
    assert "nobody of higher priority" in notes
    assert "left to work" in " ".join(explain(world.state, urgent, world.at).notes)
    world.wait(500)
    assert "left to work" not in " ".join(explain(world.state, urgent, world.at).notes)


def test_a_guarantee_takes_back_what_it_lent_to_whoever_starved():
    world, old, _ = starved()
    owed = world.submit(gpus=4, group="owner")
    world.round()
    assert world.job(old).state == JobState.STOPPING
    assert owed in world.state.kept.claims


def test_an_opportunistic_job_makes_way_however_long_it_waited():
    """Beside an urgent one that it would make way for at once it does not even start."""
    world = World(node("n1")).set_policy(ordering="priority", starvation_s=STARVES_S)
    first = world.submit_running(spec(gpus=8, protected_s=-1), "n1")
    old = world.submit(gpus=8, service_class="opportunistic")
    world.wait(STARVES_S + 80)
    urgent = world.submit(gpus=8, priority=10)
    world.finish(first)
    world.settle()
    assert (world.job(old).state, world.job(urgent).state) == (JobState.WAITING, JobState.RUNNING)
    world.finish(urgent)
    world.settle()
    assert world.job(old).state == JobState.RUNNING
    world.submit(gpus=8, priority=10)
    world.round()
    assert world.job(old).state == JobState.STOPPING


def test_who_merely_waited_long_and_passed_nobody_is_evicted_by_priority_as_ever():
    """In a full pool everybody waits long; that alone takes nothing from priority."""
    world = World(node("n1")).set_policy(ordering="priority", starvation_s=STARVES_S)
    first = world.submit_running(spec(gpus=8, protected_s=-1), "n1")
    old = world.submit(gpus=8)
    world.wait(STARVES_S + 80).finish(first)
    world.round()
    world.start(old).submit(gpus=8, priority=10)
    world.round()
    assert world.job(old).state == JobState.STOPPING


def test_a_level_that_is_higher_is_passed_like_a_priority():
    world = World(node("n1")).set_policy(ordering="priority", starvation_s=STARVES_S)
    world.tell("admission", PoolSet(pool=Pool(name="default", levels={"high": 100, "normal": 0}), by="a"))
    first = world.submit_running(spec(gpus=8, protected_s=-1, level="high"), "n1")
    old = world.submit(gpus=8)
    world.wait(STARVES_S + 1).submit(gpus=8, level="high")
    world.round()
    world.finish(first)
    world.round()
    world.start(old)
    world.settle()
    assert world.job(old).state == JobState.RUNNING


def test_attained_service_leaves_it_to_work_as_well():
    clock = Clockwork(node("n1"), ordering="least_attained", service_thresholds=(400,), starvation_s=STARVES_S)
    clock.arrive(0, spec("long", gpus=8), runs_s=RUNS_S)
    for k in range(60):
        clock.arrive(60 + 100 * k, spec(f"fresh-{k}", gpus=8), runs_s=60)
    clock.run(6_000)
    long = next(job.id for job in clock.world.state.kept.jobs.values() if job.spec.name == "long")
    assert clock.world.job(long).state == JobState.SUCCEEDED


def test_an_audit_says_why_somebody_else_had_to_go():
    world, old, urgent = starved()
    world.see(node("n2"))
    fresh = world.submit_running(spec(gpus=8, group="lab"), "n2")
    world.wait(1).round()
    assert world.job(fresh).state == JobState.STOPPING
    assert urgent in world.state.kept.claims
    [one] = [one for one in preemptions_of(world.log, world.log) if one.victim.job == fresh]
    assert {other.party.job: other.why_not for other in one.others}[old] == (
        "it had been kept from its work for long, and was left to it"
    )
