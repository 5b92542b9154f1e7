"""Who is pushed away for whom: never for nothing, never too many, never twice, and the room is the beneficiary's."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.clockwork import Clockwork
from tests.make import SECOND, World, gpu_amount, group, node, role, spec

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass


def evicted(decided: f.RoundDecided | None) -> list[int]:
    return sorted(eviction.job for eviction in decided.evictions) if decided is not None else []


def filled(*gpus: int, at: str = "n1", **fields) -> World:
    """One node with running jobs of these sizes, each a second younger than the one before."""
    world = World(node(at))
    for size in gpus:
        world.submit_running(spec(gpus=size, **fields), at)
        world.wait(1)
    return world


# --- when -----------------------------------------------------------------------------------------------------


def test_a_higher_priority_pushes_a_lower_one_away_and_starts_when_it_is_gone():
    world = filled(8)
    high = world.submit(gpus=8, priority=10)
    decided = world.round()
    assert [(e.job, e.beneficiary, e.rule, e.lost_ms) for e in decided.evictions] == [(1, high, "priority", 1000)]
    assert world.job(high).state == JobState.WAITING
    assert world.reason(high) == ReasonCode.WAITING_FOR_VICTIMS
    world.stop_all()
    world.round()
    assert world.job(high).state == JobState.STARTING
    assert world.job(JobId(1)).state == JobState.WAITING


def test_a_queue_level_is_a_band_of_priority():
    world = filled(8)
    low, high = world.submit(gpus=8, level="low", priority=999), world.submit(gpus=8, level="high", priority=-999)
    assert evicted(world.round()) == [1]
    assert set(world.state.kept.claims) == {high}
    assert world.job(low).state == JobState.WAITING


def test_equal_priority_pushes_nobody_away():
    world = filled(8)
    world.submit(gpus=8)
    assert evicted(world.round()) == []


def test_nobody_is_evicted_unless_the_beneficiary_then_fits():
    world = filled(4)
    world.submit_running(spec(gpus=4, priority=5), "n1")
    world.submit(gpus=8, priority=5)
    assert evicted(world.round()) == []


def test_nobody_is_evicted_while_room_is_free_elsewhere():
    world = filled(8)
    world.see(node("n2"))
    high = world.submit(gpus=8, priority=10)
    assert evicted(world.round()) == []
    assert world.tasks(high)[0].node == "n2"


def test_preemption_can_be_switched_off():
    world = filled(8)
    world.set_policy(preemption=False)
    world.submit(gpus=8, priority=10)
    assert evicted(world.round()) == []


def test_a_job_that_is_not_preemptible_or_protected_stays():
    world = filled(4, preemptible=False)
    world.submit_running(spec(gpus=4, protected_s=60), "n1")
    world.submit(gpus=4, priority=10)
    assert evicted(world.round()) == []
    world.wait(61).see(node("n9", gpus=0))
    assert evicted(world.round()) == [2]


def test_protection_that_runs_out_wakes_a_round_by_itself():
    play = Clockwork(node("n1"))
    play.arrive(0, spec(gpus=8, protected_s=60))
    play.arrive(10, spec(gpus=8, priority=10))
    play.run(100)
    assert play.first_start(2) == 60


def test_opportunistic_work_goes_first_and_evicts_nobody():
    world = filled(4)
    loose = world.submit_running(spec(gpus=4, service_class=ServiceClass.OPPORTUNISTIC, priority=50), "n1")
    world.submit(gpus=4, service_class=ServiceClass.OPPORTUNISTIC, priority=99)
    assert evicted(world.round()) == []
    world.submit(gpus=4)
    decided = world.round()
    assert [(e.job, e.rule) for e in decided.evictions] == [(loose, "opportunistic")]


# --- whom -----------------------------------------------------------------------------------------------------


def test_no_more_victims_than_needed():
    world = filled(2, 2, 2, 2)
    world.submit(gpus=4, priority=10)
    assert len(evicted(world.round())) == 2


def test_the_youngest_lose_least_and_go_first():
    world = filled(2, 2, 2, 2)
    world.submit(gpus=4, priority=10)
    assert evicted(world.round()) == [3, 4]


def test_the_lowest_priority_goes_before_the_youngest():
    world = World(node("n1"))
    for priority in (3, 1, 2, 4):
        world.submit_running(spec(gpus=2, priority=priority), "n1")
        world.wait(10)
    world.submit(gpus=4, priority=10)
    assert evicted(world.round()) == [2, 3]


def test_of_two_nodes_the_one_where_less_work_is_lost_is_cleared():
    world = World(node("n1"), node("n2"))
    world.submit_running(spec(gpus=8), "n1")
    world.wait(600)
    for _ in range(8):
        world.submit_running(spec(gpus=1), "n2")
    world.wait(10).submit(gpus=8, priority=10)
    assert evicted(world.round()) == list(range(2, 10))


def test_a_victim_that_alone_is_enough_spares_the_small_ones():
    world = filled(4, 2, 2)
    world.submit(gpus=4, priority=10, node_selector={})
    assert evicted(world.round()) in ([1], [2, 3])
    only_four = filled(2, 2, 4)
    only_four.submit(gpus=4, priority=10)
    assert evicted(only_four.round()) == [3]


def test_victims_are_whole_gangs_even_where_only_a_part_is_needed():
    world = World(node("n1"), node("n2"))
    gang = world.submit_running(spec(gpus=8, tasks=2), "n1", "n2")
    world.submit(gpus=8, priority=10)
    decided = world.round()
    assert evicted(decided) == [gang]
    assert len(decided.claims[0].victims) == 1
    assert set(world.state.stopping_tasks) == {"1-1-worker-0", "1-1-worker-1"}


def test_a_gang_may_need_victims_on_several_nodes():
    world = World(node("n1"), node("n2"), node("n3"))
    for name in ("n1", "n2", "n3"):
        world.submit_running(spec(gpus=8), name)
        world.wait(10)
    world.submit(gpus=8, tasks=2, priority=10)
    assert evicted(world.round()) == [2, 3]


def test_what_is_stopping_anyway_is_waited_for_instead_of_evicting_more():
    world = World(node("n1"), node("n2"))
    leaving = world.submit_running(spec(gpus=8), "n1")
    staying = world.submit_running(spec(gpus=8), "n2")
    world.cancel(leaving)
    high = world.submit(gpus=8, priority=10)
    decided = world.round()
    assert evicted(decided) == []
    assert decided.claims[0].victims == ("1-1-worker-0",)
    world.stop_all()
    world.round()
    assert world.tasks(high)[0].node == "n1"
    assert world.job(staying).state == JobState.RUNNING


def test_a_job_still_starting_may_be_evicted_too():
    world = World(node("n1", gpus=1))
    low = world.submit(gpus=1)
    world.place(low, "n1")
    high = world.submit(gpus=1, priority=10)
    assert evicted(world.round()) == [low]
    assert evicted(world.round()) == []
    world.stop_all()
    world.round()
    assert world.job(high).state == JobState.STARTING


def test_an_elastic_beneficiary_clears_only_its_smallest_size():
    world = filled(1, 1, 1, 1, 1, 1, 1, 1)
    high = world.submit(roles=[role(tasks=8, minimum=2, maximum=8, gpus=1)], priority=10)
    assert len(evicted(world.round())) == 2
    world.stop_all()
    world.round()
    assert world.job(high).sizes == {"worker": 2}


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


# --- shrinking ------------------------------------------------------------------------------------------------


def elastic_world(size: int = 8, **fields) -> tuple[World, JobId]:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=size, minimum=2, maximum=8, **fields), "n1")
    return world, job


def test_elastic_jobs_shrink_before_anybody_is_evicted():
    world, job = elastic_world(6)
    low = world.submit_running(spec(gpus=2, level="low"), "n1")
    waits = world.submit(gpus=4)
    decided = world.round()
    assert evicted(decided) == []
    assert [(s.job, s.beneficiary, len(s.tasks)) for s in decided.shrinks] == [(job, waits, 4)]
    world.settle()
    assert world.job(job).sizes == {"worker": 2}
    assert {world.job(one).state for one in (job, low, waits)} == {JobState.RUNNING}


def test_no_more_members_go_than_needed_and_the_highest_ranks_go_first():
    world, job = elastic_world()
    world.submit(gpus=2)
    [shrink] = world.round().shrinks
    assert shrink.tasks == ("1-1-worker-6", "1-1-worker-7")
    assert world.job(job).state == JobState.RESIZING


def test_members_that_have_not_started_go_before_those_that_work():
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=2, minimum=1, maximum=8), "n1")
    places = tuple(
        f.TaskPlacement(
            role="worker",
            index=k,
            node=NodeId("n1"),
            gpus=(f.GpuShare(index=k, milli=1000, memory_mib=40_960),),
            cpu_milli=1000,
            memory_mib=1024,
        )
        for k in range(2, 8)
    )
    growth = f.Growth(job=job, attempt=1, tasks=places)
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, growths=(growth,)))
    for started in (TaskId("1-1-worker-6"), TaskId("1-1-worker-7")):
        world.tell("agent.sim", f.TaskStarted(task=started))
    world.submit(gpus=4)
    [shrink] = world.round().shrinks
    assert shrink.tasks == tuple(f"1-1-worker-{k}" for k in (2, 3, 4, 5))


def test_a_shrunk_job_keeps_an_allowed_size():
    world = World(node("n1"))
    asked = spec(gpus=1, tasks=8, minimum=2, maximum=8, sizes=[2, 5, 8])
    job = world.submit_running(asked, "n1")
    world.submit(gpus=1)
    [shrink] = world.round().shrinks
    assert len(shrink.tasks) == 3
    assert world.job(job).sizes == {"worker": 5}


def test_shrinking_can_be_switched_off():
    world, _ = elastic_world()
    world.set_policy(shrink=False)
    world.submit(gpus=2)
    assert world.round().shrinks == ()


def test_nobody_shrinks_when_that_would_not_be_enough():
    world, _ = elastic_world()
    world.submit(gpus=7)
    assert world.round().shrinks == ()


def test_opportunistic_jobs_make_nobody_shrink():
    world, _ = elastic_world()
    world.submit(gpus=2, service_class=ServiceClass.OPPORTUNISTIC)
    assert world.round().shrinks == ()


def test_evicting_an_elastic_job_takes_all_of_it_and_frees_each_member_once():
    world, job = elastic_world(8, level="low")
    high = world.submit(gpus=8)
    decided = world.round()
    assert evicted(decided) == [job]
    assert decided.shrinks == ()
    assert len(decided.claims[0].victims) == 8
    world.settle()
    assert world.job(high).state == JobState.RUNNING


# --- properties -----------------------------------------------------------------------------------------------

_job = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([1, 1, 2, 4]),
        "tasks": st.integers(1, 3),
        "group": st.sampled_from(["q0", "q1", "q2", "q2/a", "q2/b"]),
        "priority": st.integers(0, 2),
        "service_class": st.sampled_from(list(ServiceClass)),
    }
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(_job, min_size=2, max_size=16),
    st.lists(st.integers(0, 6), min_size=5, max_size=5),
    st.integers(2, 4),
    st.integers(0, 12),
)
def test_without_new_submits_changes_stop_and_no_two_jobs_evict_each_other(jobs, guarantees, nodes, first):
    names = ["q0", "q1", "q2", "q2/a", "q2/b"]
    groups = [group(name, guaranteed=gpu_amount(owed)) for name, owed in zip(names, guarantees, strict=True)]
    world = World(*(node(f"n{k}", gpus=4) for k in range(nodes)), groups=groups)
    for k, fields in enumerate(jobs):
        world.submit(spec(**fields))
        if k == first:
            world.settle()
            world.wait(30)
    pairs: set[tuple[int, int]] = set()
    for _ in range(100):
        world.stop_all()
        world.start(*world.in_state(JobState.STARTING))
        decided = world.round()
        if decided is None or not (decided.placements or decided.claims or decided.evictions):
            break
        for eviction in decided.evictions:
            pairs.add((eviction.job, eviction.beneficiary))
            assert eviction.beneficiary in {claim.job for claim in decided.claims}
        world.wait(1)
        assert recompute(world.state) == {path: used for path, used in world.state.usage.items() if used}
    else:
        raise AssertionError("changes without end")
    assert not {(loser, winner) for winner, loser in pairs} & pairs


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=12),
    st.integers(1, 8),
    st.integers(1, 2),
)
def test_no_victim_could_have_been_spared(running, gpus, tasks):
    world = World(*(node(f"n{k}") for k in range(3)))
    for size, priority, where in running:
        if world.state.use[NodeId(f"n{where}")].gpu_milli.count(0) >= size:
            world.submit_running(spec(gpus=size, priority=priority), f"n{where}")
            world.wait(1)
    world.submit(gpus=gpus, tasks=tasks, priority=10)
    decided = world.round()
    chosen = evicted(decided)
    for spared in chosen:
        other = World(*(node(f"n{k}") for k in range(3)))
        for message in world.log[3:-2]:
            other.tell(message.lane, *message.facts, at=message.at)
        for victim in chosen:
            if victim != spared:
                other.cancel(JobId(victim))
        other.stop_all()
        other.set_policy(preemption=False)
        again = other.round()
        assert again is not None
        assert not again.placements, f"job {spared} was evicted for nothing"


def test_the_lists_that_are_recorded_told_and_stopped_are_the_same():
    world = filled(4, 2, 2)
    world.submit(gpus=4, priority=10)
    decided = world.round()
    told = {world.state.kept.tasks[task].job for task in world.state.stopping_tasks}
    waited_for = {world.state.kept.tasks[task].job for claim in decided.claims for task in claim.victims}
    assert told == waited_for == set(evicted(decided))
    assert replace(decided, digest="") == replace(decided, digest="")
    assert decided.claims[0].made_ms == world.at
    assert world.at % SECOND == 0


# --- behind a reservation ---------------------------------------------------------------------------------------


def behind_a_reservation(**fields):
    """n1 is half idle but reserved whole for an older job; on n2 run two that may be pushed away."""
    world = World(node("n1", labels={"name": "n1"}), node("n2", labels={"name": "n2"}))
    world.submit_running(spec(gpus=4, preemptible=False, time_limit_s=3600), "n1")
    lows = [world.submit_running(spec(gpus=4, priority=-10), "n2") for _ in range(2)]
    world.submit(gpus=8, priority=100, node_selector={"name": "n1"})
    world.round()
    assert [one.job for one in world.state.kept.pools["default"].reservations] == [4]
    job = world.submit(gpus=4, priority=50, **fields)
    return world, lows, job, world.round()


def test_a_job_behind_a_reservation_evicts_lower_priority_elsewhere_and_leaves_the_reserved_room_alone():
    _, lows, job, decided = behind_a_reservation()
    assert evicted(decided) == [lows[1]]
    assert [(claim.job, claim.placement.tasks[0].node) for claim in decided.claims] == [(job, "n2")]


def test_a_job_that_ends_before_the_reservation_takes_its_idle_room_and_evicts_nobody():
    _, _, job, decided = behind_a_reservation(time_limit_s=600)
    assert evicted(decided) == []
    assert [(one.job, one.tasks[0].node, one.backfilled) for one in decided.placements] == [(job, "n1", True)]
