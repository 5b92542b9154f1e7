"""Cleared room belongs to whom it was cleared for, and what is guaranteed to nobody is lent."""

from tests.clockwork import Clockwork
from tests.core.test_preemption import evicted, filled
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode

# --- claims ---------------------------------------------------------------------------------------------------


def test_freed_room_belongs_to_the_beneficiary_through_the_whole_slow_shutdown():
    play = Clockwork(node("n1"))
    for k in range(8):
        play.arrive(0, spec(f"v{k}", gpus=1), stops_s=20 + k)
    play.arrive(10, spec("high", gpus=8, priority=100), runs_s=100)
    for k in range(30):
        play.arrive(11 + 2 * k, spec(f"s{k}", gpus=1), runs_s=5)
    play.run(39)
    assert len(play.evictions) == 8
    assert play.first_start(9) == 37
    assert not any(play.first_start(job) for job in range(10, 40))


def test_a_claim_of_a_cancelled_job_gives_its_room_to_the_others_as_it_appears():
    play = Clockwork(node("n1"))
    for k in range(8):
        play.arrive(0, spec(f"v{k}", gpus=1, preemptible=True), stops_s=20 + k)
    play.arrive(10, spec("high", gpus=8, priority=100))
    for k in range(8):
        play.arrive(11 + k, spec(f"s{k}", gpus=1), runs_s=500)
    play.at(20, lambda: play.world.cancel(JobId(9)))
    play.run(60)
    assert play.world.job(JobId(9)).state == JobState.CANCELLED
    assert len(play.evictions) == 8
    assert sum(len(job.tasks) for job in play.world.state.kept.jobs.values()) == 8


def test_a_claim_is_a_claim_on_quota_as_well():
    world = World(node("n1"), node("n2"), groups=[group("q", limit=gpu_amount(8))])
    world.submit_running(spec(gpus=8), "n1")
    world.submit_running(spec(gpus=1, preemptible=False), "n2")
    high = world.submit(gpus=8, priority=10, group="q", node_selector={})
    late = world.submit(gpus=1, group="q")
    world.round()
    assert set(world.state.kept.claims) == {high}
    assert world.job(late).state == JobState.WAITING
    assert world.reason(late) == ReasonCode.GROUP_LIMIT


def test_two_high_jobs_clear_different_victims():
    world = filled(4, 4)
    world.submit(gpus=4, priority=10)
    world.submit(gpus=4, priority=9)
    decided = world.round()
    assert evicted(decided) == [1, 2]
    assert len({victim for claim in decided.claims for victim in claim.victims}) == 2
    world.stop_all()
    world.round()
    assert [world.job(JobId(k)).state for k in (3, 4)] == ["starting", "starting"]


def test_a_victim_that_never_dies_is_not_waited_for_for_ever():
    play = Clockwork(node("n1", gpus=4), node("n2", gpus=4))
    play.arrive(0, spec("v1", gpus=4, grace_s=30), stops_s=1e9)
    play.arrive(5, spec("v2", gpus=4, grace_s=30, priority=1), stops_s=3)
    play.arrive(10, spec("h", gpus=4, priority=100))
    play.run(200)
    assert [eviction.job for eviction in play.evictions] == [1, 2]
    assert play.first_start(3) == 10 + 30 + 30 + 3
    assert play.world.tasks(JobId(3))[0].node == "n2"
    assert play.world.state.use[NodeId("n1")].gpu_milli == [1000] * 4, "what still runs there is not handed out"


def test_a_claim_whose_node_is_lost_is_planned_anew_elsewhere():
    world = World(node("n1"), node("n2"))
    world.submit_running(spec(gpus=8), "n1")
    world.wait(100).submit_running(spec(gpus=8), "n2")
    high = world.submit(gpus=8, priority=10)
    assert evicted(world.round()) == [2]
    world.tell("telemetry", f.NodeLost(node=NodeId("n2"), silent_ms=30_000))
    decided = world.round()
    assert decided.claims_dropped == (high,)
    assert evicted(decided) == [1]
    world.settle()
    assert world.tasks(high)[0].node == "n1"


def test_a_plan_is_kept_while_it_holds():
    nodes = [node(f"{pool}{k}", labels={"part": pool}) for pool in "xy" for k in range(4)]
    play = Clockwork(*nodes)
    for pool in "xy":
        for k in range(4):
            for _ in range(8):
                play.arrive(0, spec(f"{pool}{k}{_}", gpus=1, node_selector={"part": pool}), stops_s=60, runs_s=1e9)
    asked = spec("h", gpus=8, tasks=4, priority=100)
    play.arrive(10, asked)
    play.arrive(20, spec("late1", gpus=1), runs_s=10)
    play.arrive(21, spec("late2", gpus=1), runs_s=10)
    play.run(120)
    assert len(play.evictions) == 32
    assert play.first_start(65) == 70
    assert sum(len(decided.claims) for decided in play.rounds) == 1


def test_evicted_once_the_older_job_does_not_come_straight_back():
    groups = [group("a"), group("b"), group("c", guaranteed=gpu_amount(4))]
    play = Clockwork(node("n1", gpus=4), groups=tuple(groups))
    play.arrive(0, spec("a1", gpus=4, group="a", priority=0), runs_s=1000, stops_s=5)
    play.arrive(10, spec("b1", gpus=4, group="b", priority=100), runs_s=100)
    play.run(200)
    assert len(play.evictions) == 1
    assert play.first_start(2) == 15
    assert play.started[JobId(1)] == [0, 115]


# --- guarantees -----------------------------------------------------------------------------------------------


def test_a_group_takes_back_what_it_is_owed_from_who_borrowed_most():
    groups = [group("q1"), group("q2"), group("q3"), group("own", guaranteed=gpu_amount(6))]
    groups[2] = group("q3", guaranteed=gpu_amount(4))
    world = World(*(node(f"n{k}", gpus=4) for k in range(4)), groups=groups)
    for name, many, first in (("q1", 8, 0), ("q2", 4, 2), ("q3", 4, 3)):
        for k in range(many):
            world.submit_running(spec(gpus=1, group=name), f"n{first + k // 4}")
            world.wait(1)
    needs = world.submit(gpus=1, tasks=6, group="own")
    decided = world.round()
    by_group = [world.job(e.job).spec.group for e in decided.evictions]
    assert sorted(by_group) == ["q1"] * 5 + ["q2"] or sorted(by_group) == ["q1"] * 6
    assert "q3" not in by_group
    assert {e.rule for e in decided.evictions} == {"reclaim"}
    world.settle()
    assert world.job(needs).state == JobState.RUNNING


def test_nobody_is_pushed_below_its_guarantee_not_even_by_priority():
    world = World(node("n1"), groups=[group("safe", guaranteed=gpu_amount(6)), group("rich")])
    for _ in range(4):
        world.submit_running(spec(gpus=2, group="safe"), "n1")
    first, second = (world.submit(gpus=2, group="rich", priority=100) for _ in range(2))
    decided = world.round()
    assert len(decided.evictions) == 1
    assert set(world.state.kept.claims) in ({first}, {second})


def test_a_job_that_fits_its_guarantee_only_in_part_is_lent_room_as_a_whole():
    """One guaranteed GPU shelters no job of eight: who is owed seven gets them, by guarantee and by priority."""
    for priority in (0, 100):
        world = World(node("n1"), groups=[group("a", guaranteed=gpu_amount(7)), group("b", guaranteed=gpu_amount(1))])
        large = world.submit_running(spec(gpus=8, group="b"), "n1")
        small = world.submit(gpus=1, group="a", priority=priority)
        decided = world.round()
        assert decided is not None
        assert [(gone.job, gone.beneficiary) for gone in decided.evictions] == [(large, small)]


def test_those_that_started_first_and_fit_the_guarantee_stay():
    world = World(node("n1"), groups=[group("a", guaranteed=gpu_amount(4)), group("b", guaranteed=gpu_amount(4))])
    first = world.submit_running(spec(gpus=3, group="b"), "n1")
    second = world.wait(1).submit_running(spec(gpus=5, group="b"), "n1")
    world.submit(gpus=2, group="a")
    decided = world.round()
    assert decided is not None
    assert [gone.job for gone in decided.evictions] == [second]
    assert world.job(first).tasks


def test_a_job_that_nobody_could_take_back_again_takes_nothing_that_is_partly_owed():
    """Were it to start in place of the other, the other's group could not have what it is owed."""
    for preemptible, is_made in ((True, True), (False, False)):
        world = World(node("n1"), groups=[group("a"), group("b", guaranteed=gpu_amount(4))])
        world.submit_running(spec(gpus=8, group="b"), "n1")
        world.submit(gpus=8, group="a", priority=100, preemptible=preemptible)
        decided = world.round()
        assert (decided is not None and bool(decided.evictions)) == is_made


def test_inside_one_group_priority_needs_no_guarantee():
    world = World(node("n1"), groups=[group("safe", guaranteed=gpu_amount(8))])
    world.submit_running(spec(gpus=8, group="safe"), "n1")
    high = world.submit(gpus=8, group="safe", priority=1)
    world.round()
    assert set(world.state.kept.claims) == {high}


def test_what_runs_inside_the_same_promise_is_not_reclaimed():
    groups = [group("b", guaranteed=gpu_amount(2)), group("b/x")]
    world = World(node("n1", gpus=2), groups=groups)
    world.submit_running(spec(gpus=1, group="b"), "n1")
    world.submit_running(spec(gpus=1, preemptible=False), "n1")
    world.submit(gpus=1, group="b/x")
    assert evicted(world.round()) == []
