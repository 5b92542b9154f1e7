"""Who is pushed away for whom: never for nothing, never too many, never twice, and the room is the beneficiary's."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.clockwork import Clockwork
from tests.make import SECOND, World, gpu_amount, group, node, role, spec

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId
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
