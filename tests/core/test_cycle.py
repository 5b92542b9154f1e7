"""Whole rounds: who starts when, who may pass, what is said to those who wait, and that rounds come to rest."""

import pytest
from tests.clockwork import Clockwork
from tests.make import SECOND, T0, World, gpu_amount, group, node, role, spec

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.seating import allowed_sizes
from gangline_core.spec import TopologyWish
from gangline_core.state import encode_snapshot
from gangline_core.table import ROUND_TASKS_MAX


def states(world: World, *jobs: JobId) -> list[str]:
    return [world.job(job).state.value for job in jobs]


# --- rounds ---------------------------------------------------------------------------------------------------


def test_a_round_is_due_only_when_something_happened_that_it_could_use():
    world = World(node())
    world.settle()
    assert not cycle.round_due(world.state, "default")
    job = world.submit(gpus=8)
    blocked = world.submit(gpus=8)
    assert cycle.round_due(world.state, "default")
    world.round()
    assert not cycle.round_due(world.state, "default"), "its own decision is no reason for another round"
    world.start(job)
    assert not cycle.round_due(world.state, "default")
    world.finish(job)
    assert cycle.round_due(world.state, "default")
    world.round()
    assert states(world, job, blocked) == ["succeeded", "starting"]


def test_one_round_is_open_at_a_time():
    world = World(node())
    world.submit()
    opened = cycle.open_round(world.state, "default", world.at)
    world.tell("queue.default", opened)
    assert cycle.open_round(world.state, "default", world.at) is None
    assert not cycle.round_due(world.state, "default")


def test_nothing_to_decide_opens_no_round():
    assert World(node()).round() is None


def test_the_same_state_and_time_decide_the_same_bytes():
    world = World(node("n1"), node("n2"))
    for k in range(6):
        world.submit(gpus=1 + k % 3, priority=k % 2)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened == cycle.open_round(world.state, "default", world.at)
    world.tell("queue.default", opened)
    before = encode_snapshot(world.state)
    first = cycle.decide_round(world.state, "default", world.at)
    assert first == cycle.decide_round(world.state, "default", world.at)
    assert encode_snapshot(world.state) == before, "deciding changes nothing"
    assert first.digest == world.state.kept.digest


def test_a_job_cancelled_after_the_round_was_opened_is_passed_over():
    world = World(node())
    job = world.submit()
    world.tell("queue.default", cycle.open_round(world.state, "default", world.at))
    world.cancel(job)
    assert cycle.decide_round(world.state, "default", world.at).placements == ()


def test_a_full_round_is_followed_by_the_next_one_at_once():
    count = ROUND_TASKS_MAX // 8 + 10
    world = World(*(node(f"n{k:03d}") for k in range(count)))
    jobs = [world.submit(gpus=1, tasks=8) for _ in range(count)]
    world.set_policy(candidates_per_shape=1000)
    first = world.round()
    assert first.unseen > 0
    assert cycle.round_due(world.state, "default")
    world.settle()
    assert set(states(world, *jobs)) == {"running"}


def test_more_jobs_than_one_round_looks_at_all_start_in_time():
    world = World(*(node(f"n{k:03d}") for k in range(20)))
    world.set_policy(candidates_max=10, candidates_per_shape=10)
    jobs = [world.submit(gpus=1) for _ in range(100)]
    assert world.settle() == 10
    assert set(states(world, *jobs)) == {"running"}


@pytest.mark.parametrize("kinds", [5, 40])
def test_who_asks_for_what_idles_starts_however_many_wait_in_front_for_what_is_full(kinds):
    world = World(node("n1", model="A100"), node("n2", model="H100"))
    world.set_policy(candidates_max=10, preemption=False)
    world.submit_running(spec(gpus=8), ("n1", range(8)))
    for number in range(kinds):
        for _ in range(3):
            world.submit(gpus=1, gpu_models=["A100"], memory_mib=1_000 + number)
    idle = [world.submit(gpus=1, gpu_models=["H100"], memory_mib=500 + number) for number in range(3)]
    for _ in range(2 + kinds // 10):
        world.round()
        world.submit(gpus=1, gpu_models=["A100"], memory_mib=1_000)
    assert all(world.job(job).state == JobState.STARTING for job in idle)


def test_a_refused_job_says_why_once_and_again_only_when_it_changes():
    world = World(node())
    world.run(world.submit(gpus=6), "n1")
    waits = world.submit(gpus=4)
    [refusal] = world.round().refusals
    assert refusal.jobs == (waits,)
    assert sentence(refusal.reason) == "Needs 4 GPUs; at its turn 2 of 8 suitable ones were free."
    world.see(node("n9", gpus=0))
    assert world.round().refusals == ()


def test_jobs_that_wait_for_the_same_reason_share_it():
    world = World(node(gpus=2))
    world.run(world.submit(gpus=2), "n1")
    jobs = [world.submit(gpus=1, group="", name=f"j{k}", user=user) for k, user in enumerate(["ada", "bob"] * 3)]
    [refusal] = world.round().refusals
    assert set(refusal.jobs) == set(jobs)


def test_every_job_that_waits_has_a_reason():
    world = World(node(), groups=[group("a", limit=gpu_amount(2))])
    world.run(world.submit(gpus=8), "n1")
    jobs = [
        world.submit(gpus=1),
        world.submit(gpus=4, group="a"),
        world.submit(gpus=1, node_selector={"zone": "x"}),
        world.submit(gpus=1, not_before_ms=T0 + 5 * SECOND),
        world.submit(gpus=9, tasks=1),
    ]
    world.settle()
    assert all(world.job(job).reason is not None for job in jobs)


# --- gangs ----------------------------------------------------------------------------------------------------


def test_two_gangs_that_each_need_everything_run_one_after_the_other():
    for turn in (0, 1):
        play = Clockwork(*(node(f"n{k}") for k in range(4)))
        play.arrive(0, spec(f"g{turn}", gpus=8, tasks=4), runs_s=60)
        play.arrive(0, spec(f"g{1 - turn}", gpus=8, tasks=4), runs_s=60)
        play.run(59)
        assert sorted(len(play.world.job(JobId(k)).tasks) for k in (1, 2)) == [0, 4]
        play.run(120)
        assert (play.first_start(1), play.first_start(2)) == (0, 60)
        assert play.ended == {1: 60, 2: 120}


def test_a_large_gang_that_cannot_start_does_not_hold_up_a_small_one():
    world = World(node("n1", gpus=4))
    world.run(world.submit(gpus=2), "n1")
    large, small = world.submit(gpus=4, time_limit_s=10), world.submit(gpus=2, time_limit_s=60)
    world.round()
    assert states(world, large, small) == ["waiting", "starting"]


def test_a_steady_stream_of_gangs_keeps_moving():
    play = Clockwork(node("n1"), node("n2"))
    for k in range(60):
        asked = spec(f"j{k}", gpus=1, tasks=(5 * k) % 8 + 1, topology="node", time_limit_s=30)
        play.arrive(5 * k, asked, runs_s=30)
    play.run(750)
    assert len(play.ended) == 60
    assert max(play.ended.values()) <= 700


def test_quota_that_says_yes_books_nothing_while_no_node_can():
    world = World(node("n1", gpus=4), node("n2", gpus=4), groups=[group("q", limit=gpu_amount(8))])
    big = world.submit(gpus=8, group="q")
    small = [world.submit(gpus=1, group="q") for _ in range(4)]
    world.settle()
    assert world.job(big).state == JobState.WAITING
    assert world.reason(big) == ReasonCode.INSUFFICIENT_GPUS, "of eight free GPUs the others took four in that round"
    assert states(world, *small) == ["running"] * 4


def test_an_elastic_job_starts_at_the_largest_size_that_fits():
    world = World(node("n1", gpus=8))
    world.run(world.submit(gpus=3), "n1")
    job = world.submit(roles=[role(tasks=8, minimum=2, maximum=8, sizes=[2, 4, 6, 8], gpus=1)])
    world.round()
    assert world.job(job).sizes == {"worker": 4}


def test_an_elastic_job_waits_when_not_even_its_smallest_size_fits():
    world = World(node("n1", gpus=8))
    world.run(world.submit(gpus=7), "n1")
    job = world.submit(roles=[role(tasks=8, minimum=2, maximum=8, gpus=1)])
    world.round()
    assert world.job(job).state == JobState.WAITING
    assert world.job(job).reason.numbers["needed"] == 2


def test_several_elastic_roles_share_what_there_is():
    world = World(node("n1", gpus=8))
    roles = [role("a", tasks=4, minimum=1, maximum=4, gpus=2), role("b", tasks=4, minimum=1, maximum=4, gpus=1)]
    job = world.submit(roles=roles)
    world.round()
    assert world.job(job).sizes == {"a": 3, "b": 2}


def test_a_limit_makes_an_elastic_job_start_smaller():
    world = World(node("n1"), groups=[group("q", limit=gpu_amount(3))])
    job = world.submit(roles=[role(tasks=8, minimum=2, maximum=8, gpus=1)], group="q")
    world.round()
    assert world.job(job).sizes == {"worker": 3}


def test_sizes_that_are_allowed_are_known():
    assert allowed_sizes(role(tasks=6, minimum=3, maximum=12, sizes=[3, 6, 9, 12, 15])) == [3, 6, 9, 12]
    assert allowed_sizes(role(tasks=2, minimum=1, maximum=3)) == [1, 2, 3]


def test_a_used_up_limit_of_one_model_sends_the_job_to_the_next():
    world = World(
        node("n1", model="A100"),
        node("n2", model="V100"),
        groups=[group("q", limit=gpu_amount(2, "A100"))],
    )
    jobs = [world.submit(gpus=2, gpu_models=["A100", "V100"], group="q") for _ in range(2)]
    world.round()
    assert [world.tasks(job)[0].node for job in jobs] == ["n1", "n2"]


def test_memory_shares_count_against_the_gpu_limit_by_what_they_really_take():
    world = World(node("n1", gpus=2, gpu_memory_mib=40_960), groups=[group("q", limit=gpu_amount(1))])
    halves = [world.submit(gpus=0, gpu_memory_mib=20_480, group="q") for _ in range(3)]
    more = [world.submit(gpus=0.5, group="q"), world.submit(gpus=1, group="q")]
    world.settle()
    assert states(world, *halves) == ["running", "running", "waiting"]
    assert states(world, *more) == ["waiting", "waiting"]
    assert world.reason(halves[2]) == ReasonCode.GROUP_LIMIT
    assert world.state.usage["q"]["gpu_milli"] == 1000


# --- ports ----------------------------------------------------------------------------------------------------


def test_gangs_that_meet_at_one_address_meet_on_different_ports():
    world = World(node("n1", address="10.0.0.1"), node("n2", address="10.0.0.1"), node("n3", address="10.0.0.2"))
    jobs = [world.submit(gpus=8) for _ in range(3)]
    world.settle()
    assert [world.tasks(job)[0].endpoint for job in jobs] == ["10.0.0.1:29500", "10.0.0.1:29501", "10.0.0.2:29500"]
    world.finish(jobs[0])
    again = world.submit(gpus=8)
    world.settle()
    assert world.tasks(again)[0].endpoint == "10.0.0.1:29500"


# --- reservations and backfill --------------------------------------------------------------------------------


def test_backfill_lets_only_those_pass_who_are_not_in_the_way():
    play = Clockwork(node("n1"), preemption=False)
    play.arrive(0, spec("a", gpus=6, time_limit_s=100), runs_s=100)
    play.arrive(1, spec("b", gpus=8, priority=100, time_limit_s=500), runs_s=500)
    play.arrive(2, spec("c", gpus=2, priority=1, time_limit_s=50), runs_s=50)
    play.arrive(3, spec("d", gpus=2, priority=1, time_limit_s=200), runs_s=200)
    play.arrive(4, spec("e", gpus=1), runs_s=200)
    play.arrive(50, spec("f", gpus=2, time_limit_s=40), runs_s=40)
    play.run(99)
    assert (play.first_start(3), play.ended[3]) == (2, 52)
    assert (play.first_start(6), play.ended[6]) == (52, 92)
    assert play.first_start(4) is None
    assert play.first_start(5) is None
    assert play.world.reason(4) == ReasonCode.RESERVED
    assert play.world.job(4).reason.numbers == {"job": 2, "from_ms": T0 + 100 * SECOND, "fits_s": 8}
    play.run(100)
    assert play.first_start(2) == 100
    assert play.world.job(3).spec.time_limit_s == 50


def test_a_reservation_moves_forward_when_somebody_ends_early():
    play = Clockwork(node("n1"), preemption=False)
    play.arrive(0, spec("a", gpus=6, time_limit_s=100), runs_s=60)
    play.arrive(1, spec("b", gpus=8), runs_s=500)
    play.arrive(52, spec("f", gpus=2, time_limit_s=40), runs_s=40)
    play.run(92)
    assert play.first_start(2) == 92


def test_endless_small_jobs_do_not_starve_a_big_one():
    play = Clockwork(node("n1"), preemption=False)
    for k in range(100):
        play.arrive(5 * k, spec(f"s{k}", gpus=1, time_limit_s=60), runs_s=60)
    play.arrive(101, spec("big", gpus=8, time_limit_s=100), runs_s=100)
    play.run(1500)
    big = next(job.id for job in play.world.state.kept.jobs.values() if job.spec.name == "big")
    assert 200 <= play.first_start(big) <= 260
    assert len(play.ended) == 101


def test_nobody_passes_when_backfill_is_off():
    play = Clockwork(node("n1"), preemption=False, backfill=False)
    play.arrive(0, spec("a", gpus=6, time_limit_s=100), runs_s=100)
    play.arrive(1, spec("b", gpus=8), runs_s=50)
    play.arrive(2, spec("c", gpus=1, time_limit_s=10), runs_s=10)
    play.run(99)
    assert play.first_start(3) is None
    play.run(160)
    assert play.first_start(3) == 150


def test_a_blocked_job_holds_up_only_those_who_compete_with_it():
    play = Clockwork(node("x", model="X"), node("y", model="Y"), preemption=False, backfill=False)
    play.arrive(0, spec("full", gpus=8, gpu_models=["X"], time_limit_s=3600), runs_s=3600)
    play.arrive(1, spec("jx", gpus=8, gpu_models=["X"]), runs_s=10)
    play.arrive(2, spec("jy", gpus=8, gpu_models=["Y"], time_limit_s=100), runs_s=100)
    play.arrive(3, spec("jy2", gpus=8, gpu_models=["Y"]), runs_s=10)
    play.arrive(4, spec("jy3", gpus=1, gpu_models=["Y"], time_limit_s=5), runs_s=5)
    play.run(3)
    assert play.first_start(3) == 2
    play.run(200)
    assert play.first_start(4) == 102
    assert play.first_start(5) == 112


def test_two_blocked_jobs_that_do_not_compete_have_a_reservation_each():
    world = World(node("x", model="X"), node("y", model="Y"))
    world.run(world.submit(gpus=1, gpu_models=["X"], time_limit_s=100), "x")
    world.run(world.submit(gpus=1, gpu_models=["Y"], time_limit_s=50), "y")
    jx, jy = world.submit(gpus=8, gpu_models=["X"]), world.submit(gpus=8, gpu_models=["Y"])
    world.submit(gpus=8, gpu_models=["X"])
    decided = world.round()
    assert [(one.job, one.start_ms - T0) for one in decided.reservations] == [
        (jx, 100 * SECOND),
        (jy, 50 * SECOND),
    ]
    assert world.state.kept.pools["default"].reservations == decided.reservations


def test_where_nobody_knows_when_room_comes_back_a_day_stands_for_it():
    world = World(node())
    world.run(world.submit(gpus=4), "n1")
    blocked = world.submit(gpus=8)
    short, endless = world.submit(gpus=2, time_limit_s=3600), world.submit(gpus=2)
    [reservation] = world.round().reservations
    assert (reservation.job, reservation.start_ms - world.at) == (blocked, 86_400 * SECOND)
    assert states(world, short, endless) == ["starting", "waiting"]
    assert world.reason(endless) == ReasonCode.RESERVED
    first = reservation.start_ms
    world.wait(60).see(node("n2", gpus=0))
    assert world.round().reservations[0].start_ms == first, "the date does not run away"


def test_a_job_that_can_not_fit_however_long_it_waits_reserves_nothing():
    world = World(node("n1"), node("n2"))
    world.run(world.submit(gpus=8), "n1")
    world.tell("admission", f.DrainSet(node=NodeId("n2"), drained=True, by="admin"))
    hopeless, small = world.submit(gpus=8, tasks=2), world.submit(gpus=1)
    assert hopeless not in [reservation.job for reservation in world.round().reservations]
    world.finish(JobId(1))
    world.round()
    assert states(world, hopeless, small) == ["waiting", "starting"]


def test_a_long_job_may_use_what_a_reservation_leaves():
    world = World(node("n1"), node("n2"))
    world.run(world.submit(gpus=8, time_limit_s=100), "n1")
    world.run(world.submit(gpus=4, time_limit_s=1000), "n2")
    blocked, beside = world.submit(gpus=8), world.submit(gpus=4)
    decided = world.round()
    assert [task.node for task in decided.reservations[0].tasks] == ["n1"]
    assert states(world, blocked, beside) == ["waiting", "starting"]
    assert decided.placements[0].backfilled


def test_idle_gpus_may_be_borrowed_by_who_can_be_pushed_away_again():
    groups = (group("g", guaranteed=gpu_amount(2)), group("e"))
    play = Clockwork(node("n1", gpus=2), groups=groups)
    play.arrive(0, spec("g1", gpus=1, group="g"), runs_s=100)
    play.arrive(1, spec("g2", gpus=2, group="g"), runs_s=50)
    play.arrive(2, spec("e1", gpus=1, group="e"), runs_s=1000)
    play.run(99)
    assert play.first_start(3) == 2
    play.run(101)
    assert [(e.job, e.beneficiary, e.rule) for e in play.evictions] == [(3, 2, "reclaim")]
    assert play.first_start(2) == 100


def test_a_higher_priority_alone_does_not_let_anybody_pass():
    play = Clockwork(node("n1"), preemption=True)
    play.arrive(0, spec("a", gpus=6, time_limit_s=100, preemptible=False), runs_s=100)
    play.arrive(1, spec("b", gpus=8, priority=100), runs_s=10)
    play.arrive(2, spec("d", gpus=2, priority=1, time_limit_s=200), runs_s=200)
    play.run(101)
    assert play.first_start(2) == 100


# --- nodes ----------------------------------------------------------------------------------------------------


def test_closed_tainted_and_broken_nodes_are_no_room():
    world = World(node("n1"), node("n2", taints=["gpu"]), node("n3", problem="driver"), node("n4"))
    world.run(world.submit(gpus=4), "n1")
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=True, by="admin"))
    first, second = world.submit(gpus=8), world.submit(gpus=4)
    world.settle()
    assert world.tasks(first)[0].node == "n4"
    assert world.job(second).state == JobState.WAITING
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=False, by="admin"))
    world.settle()
    assert world.tasks(second)[0].node == "n1"
    assert world.job(JobId(1)).state == JobState.RUNNING


def test_a_gang_that_lost_a_node_comes_back_whole_and_never_to_the_lost_one():
    nodes = [node(f"n{k}", labels={"topology.gangline.dev/rack": "r"}) for k in (1, 2, 3)]
    world = World(*nodes)
    gang = world.submit(gpus=8, tasks=2, topology=TopologyWish(required="rack"))
    world.settle()
    lost = world.tasks(gang)[0].node
    world.tell("telemetry", f.NodeLost(node=NodeId(lost), silent_ms=30_000))
    world.settle()
    assert lost not in {task.node for task in world.tasks(gang)}
    assert len(world.tasks(gang)) == 2
    assert world.job(gang).state == JobState.RUNNING


def test_a_node_that_reports_fewer_gpus_than_are_used_gets_nothing_new():
    world = World(node("n1"))
    world.run(world.submit(gpus=8), "n1")
    world.see(node("n1", gpus=6))
    waits = world.submit(gpus=6)
    world.settle()
    assert world.job(waits).state == JobState.WAITING
    assert world.job(waits).reason.numbers == {"needed": 6, "free": 0, "total": 6}
