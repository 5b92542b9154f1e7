"""Pairs by Lucid's rule: who shares GPUs with whom, and what never happens."""

from itertools import product
from math import log1p

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_companies import live, milli, on_gpus, running, sharing_spec
from tests.make import World, gpu_amount, group, node, spec

from dollhouse.rooms import watched
from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.cycle import round_due
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.pauses.pausing import companions
from gangline_core.settings.policy import policy_problem
from gangline_core.sharing.minding import HALF_PERCENT, LIGHT_PERCENT, busiest_percent, score_of, sharing_score
from gangline_core.sharing.stages import stages_of
from gangline_core.spec import Pausing, ServiceClass

SRSF = {"ordering": "weighted", "formula": "-gpus * estimate_hours", "predictor": "given", "starvation_s": 0}
PAIRS = {**SRSF, "sharing": "pairs", "preemption": False, "backfill_depth": 0}


def busy(percent: int, *, network: int = 0) -> dict[str, int]:
    """Stages of a job that computes so much of the time."""
    return {"loading_ms": 0, "compute_ms": percent, "network_ms": network, "iteration_ms": 100}


LIGHT, HALF, HEAVY = busy(30), busy(60), busy(95)


def world_of(*nodes, **policy) -> World:
    return World(*(nodes or (node(gpus=2),))).set_policy(**{**PAIRS, **policy})


def test_whoever_comes_starts_beside_one_whom_it_does_not_mind_though_gpus_are_free() -> None:
    world = world_of(node(gpus=4))
    first = world.submit(sharing_spec(HEAVY))
    world.settle()
    second = world.submit(sharing_spec(LIGHT))
    decided = world.round()
    assert [(one.job, one.beside) for one in decided.placements] == [(second, first)]
    world.settle()
    assert milli(world, first, second) == [500, 500]
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}


def test_two_that_come_at_once_start_on_the_same_gpus() -> None:
    world = world_of(node(gpus=4))
    jobs = [world.submit(sharing_spec(LIGHT)) for _ in range(3)]
    assert [one.beside for one in world.round().placements] == [0, jobs[0], 0]
    world.settle()
    assert milli(world, *jobs) == [500, 500, 1000]


@pytest.mark.parametrize(
    ("there", "comes", "pairs"),
    [
        (LIGHT, HEAVY, True),
        (HEAVY, LIGHT, True),
        (HALF, HALF, True),
        (HALF, LIGHT, True),
        (HALF, HEAVY, False),
        (HEAVY, HEAVY, False),
        ({}, LIGHT, True),
        ({}, HALF, False),
    ],
)
def test_scores_of_a_pair_add_up_to_two_at_most(there, comes, pairs) -> None:
    world = world_of()
    world.submit(sharing_spec(there))
    world.settle()
    second = world.submit(sharing_spec(comes))
    world.settle()
    assert (world.job(second).state == JobState.RUNNING) == pairs


@pytest.mark.parametrize(
    "fields",
    [
        {"most_mib": 0},
        {"most_mib": 35_000},
        {"gpus": 1, "hours": 2},
        {"cpus": 40},
        {"repair_s": 60},
        {"hours": 3},
    ],
    ids=["no bound of memory", "no memory", "another size", "no CPU", "members come back alone", "too long"],
)
def test_who_cannot_pair_waits(fields) -> None:
    world = world_of()
    first = world.submit(sharing_spec(LIGHT, cpus=40))
    world.settle()
    second = world.submit(sharing_spec(LIGHT, **fields))
    world.settle()
    assert running(world) == [first]
    assert world.job(second).state == JobState.WAITING
    assert milli(world, first) == [1000]


def test_twice_as_long_is_not_too_long_and_nobody_knows_is() -> None:
    world = world_of()
    first = world.submit(sharing_spec(LIGHT))
    world.settle()
    unknown = world.submit(replace(sharing_spec(LIGHT), estimate_s=0))
    world.settle()
    assert running(world) == [first]
    second = world.submit(sharing_spec(LIGHT, hours=2))
    world.settle()
    assert running(world) == [first, second]
    assert world.job(unknown).state == JobState.WAITING


def test_more_than_eight_gpus_share_with_nobody() -> None:
    world = world_of(*(node(f"n{k}", gpus=4) for k in range(3)))
    first = world.submit(sharing_spec(LIGHT, gpus=4, tasks=3))
    world.settle()
    world.submit(sharing_spec(LIGHT, gpus=4, tasks=3))
    world.settle()
    assert running(world) == [first]


def test_a_gang_pairs_with_a_gang_member_by_member() -> None:
    world = world_of(node("n1", gpus=2), node("n2", gpus=2))
    first = world.submit(sharing_spec(LIGHT, tasks=2))
    world.settle()
    second = world.submit(sharing_spec(LIGHT, tasks=2))
    world.settle()
    assert milli(world, first, second) == [500] * 4
    assert [task.node for task in world.tasks(first)] == [task.node for task in world.tasks(second)]


def test_the_third_waits_and_whoever_is_left_has_all_and_pairs_again() -> None:
    world = world_of()
    first = world.submit(sharing_spec(LIGHT))
    world.settle()
    second, third = world.submit(sharing_spec(LIGHT)), world.submit(sharing_spec(LIGHT, hours=2))
    world.settle()
    assert running(world) == [first, second]
    world.wait(10).finish(first)
    world.settle()
    assert companions(world.state, second) == (third,)
    world.wait(10).finish(second)
    assert milli(world, third) == [1000]
    assert not world.state.kept.packs


def test_of_several_the_one_that_has_worked_longest_is_the_partner() -> None:
    world = world_of(node(gpus=4))
    jobs = []
    for stages in (HEAVY, HALF):
        jobs.append(world.wait(10).submit(sharing_spec(stages)))
        world.settle()
    third = world.submit(sharing_spec(LIGHT))
    world.settle()
    assert companions(world.state, third) == (jobs[0],)


def test_measured_use_counts_where_a_job_says_nothing_of_its_stages() -> None:
    world = world_of()
    first = world.submit(sharing_spec({}))
    world.settle()
    assert sharing_score(world.state, world.job(first)) == 2
    world.tell("telemetry", f.JobUsed(job=first, gpu_percent=50, window_s=60))
    assert sharing_score(world.state, world.job(first)) == 1
    second = world.submit(sharing_spec(HALF))
    world.settle()
    assert companions(world.state, second) == (first,)


def test_a_measure_that_lets_another_one_in_is_followed_by_a_round_and_others_are_not() -> None:
    """Seed 1700002: nothing else happened, and whoever waited did so until somebody ended."""
    world = world_of()
    first = world.submit(sharing_spec({}))
    world.settle()
    second = world.submit(sharing_spec(HALF))
    world.settle()
    assert world.job(second).state == JobState.WAITING
    for percent, is_news in ((90, False), (85, False), (60, True)):
        world.tell("telemetry", f.JobUsed(job=first, gpu_percent=percent, window_s=60))
        assert round_due(world.state, "default") == is_news
    world.settle()
    assert companions(world.state, second) == (first,)


def test_the_most_of_what_is_told_and_measured_counts() -> None:
    world = world_of()
    first = world.submit(sharing_spec(LIGHT))
    world.settle()
    world.tell("telemetry", f.JobUsed(job=first, gpu_percent=90, window_s=60))
    assert busiest_percent(world.state, world.job(first)) == 90


def test_nobody_starts_beside_one_that_is_told_to_go() -> None:
    world = world_of(ordering="priority", preemption=True)
    first = world.submit(sharing_spec(LIGHT))
    world.settle()
    important = world.submit(sharing_spec(HEAVY, priority=50, most_mib=0))
    world.submit(sharing_spec(LIGHT))
    decided = world.round()
    assert [one.job for one in decided.evictions] == [first]
    assert [one.job for one in decided.claims] == [important]
    assert not decided.placements


def test_who_starts_beside_a_job_keeps_it_from_going_in_that_round_and_goes_with_it_in_the_next() -> None:
    world = world_of(ordering="fifo", preemption=True)
    first = world.submit(sharing_spec(LIGHT))
    world.settle()
    second = world.submit(sharing_spec(LIGHT, protected_s=1))
    important = world.wait(1).submit(sharing_spec(HEAVY, priority=50, most_mib=0))
    decided = world.round()
    assert [one.beside for one in decided.placements] == [first]
    assert not decided.evictions
    world.settle()
    world.wait(60).submit(sharing_spec(HEAVY))
    world.settle()
    assert running(world) == [important]
    assert {world.job(job).state for job in (first, second)} == {JobState.WAITING}


def test_nobody_starts_beside_one_that_has_to_go_and_it_with_it() -> None:
    world = world_of(ordering="fifo", preemption=True)
    first = world.submit(sharing_spec(LIGHT))
    world.settle()
    second = world.submit(sharing_spec(LIGHT))
    important = world.wait(1).submit(sharing_spec(HEAVY, priority=50, most_mib=0))
    decided = world.round()
    assert not decided.placements
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(first, important)]
    world.settle()
    assert running(world) == [important]
    assert world.job(second).attempt == 0


def test_nobody_starts_beside_one_whose_node_is_drained() -> None:
    world = world_of()
    first = world.submit(sharing_spec(LIGHT))
    world.settle()
    world.tell("admission", f.DrainSet(node="n1", drained=True, by="admin"))
    second = world.submit(sharing_spec(LIGHT))
    world.settle()
    assert running(world) == [first]
    assert world.job(second).state == JobState.WAITING


def test_a_pair_of_gangs_that_can_be_paused_makes_way_together() -> None:
    world = world_of(node("n1", gpus=2), node("n2", gpus=2), ordering="priority", preemption=True)
    pair = [world.submit(sharing_spec(LIGHT, tasks=2, pausing=Pausing())) for _ in range(2)]
    world.settle()
    assert milli(world, *pair) == [500] * 4
    important = world.submit(sharing_spec(HEAVY, priority=50, most_mib=0))
    decided = world.round()
    assert {one.job for one in decided.pauses} == set(pair)
    assert world.state.kept.claims[important].job == important, "both are told to make way, and the claim holds"


def test_a_pair_of_which_one_cannot_be_paused_is_evicted() -> None:
    world = world_of(ordering="priority", preemption=True)
    pair = [world.submit(sharing_spec(LIGHT, pausing=pausing)) for pausing in (Pausing(), None)]
    world.settle()
    world.submit(sharing_spec(HEAVY, priority=50, most_mib=0))
    decided = world.round()
    assert {one.job for one in decided.evictions} == set(pair)
    assert not decided.pauses


def test_each_of_a_pair_that_is_evicted_is_told_what_it_loses_itself() -> None:
    world = world_of(ordering="priority", preemption=True)
    first, second, third = (sharing_spec(LIGHT), sharing_spec(LIGHT), sharing_spec(HEAVY, priority=50, most_mib=0))
    older = world.submit(first)
    world.settle()
    world.wait(100)
    younger = world.submit(second)
    world.settle()
    world.wait(30).submit(third)
    lost_s = {one.job: one.lost_ms // 1000 for one in world.round().evictions}
    assert lost_s[older] - lost_s[younger] >= 100
    assert 30 <= lost_s[younger] < 100


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("pausing", [None, Pausing()])
def test_a_pair_of_which_one_is_left_to_its_work_stays_until_that_is_over(left, pausing) -> None:
    world = world_of(ordering="priority", preemption=True)
    pair = [world.submit(sharing_spec(LIGHT, pausing=pausing)) for _ in range(2)]
    world.settle()
    world.state.put_job(replace(world.job(pair[left]), shield_ms=300_000))
    important = world.wait(60).submit(sharing_spec(HEAVY, priority=50, most_mib=0))
    decided = world.round()
    assert not decided.evictions
    assert not decided.pauses
    world.wait(300).round()
    assert important in world.state.kept.claims


def test_a_pair_of_which_one_is_left_to_its_work_stays_for_whom_less_was_given() -> None:
    world = world_of(ordering="least_attained", service_thresholds=(400,), preemption=True, starvation_s=120)
    pair = [world.submit(sharing_spec(LIGHT)) for _ in range(2)]
    world.settle()
    world.state.put_job(replace(world.job(pair[1]), shield_ms=900_000))
    fresh = world.wait(600).submit(sharing_spec(HEAVY, most_mib=0))
    assert not world.round().evictions
    world.wait(600).round()
    assert fresh in world.state.kept.claims


def test_a_pair_that_starts_stands_back_with_no_more_than_the_gpus_that_it_takes() -> None:
    world = world_of(ordering="priority", preemption=True)
    loose = [world.submit(sharing_spec(LIGHT, priority=1, service_class=ServiceClass.OPPORTUNISTIC)) for _ in range(2)]
    firm = world.submit(sharing_spec(HEAVY, most_mib=0, service_class=ServiceClass.GUARANTEED))
    wrong: list[str] = []
    with watched(wrong.append):
        decided = world.round()
    assert not wrong
    assert [one.job for one in decided.placements] == [firm]
    assert {world.job(job).state for job in loose} == {JobState.WAITING}


@pytest.mark.parametrize("order", [("shop", "lab"), ("lab", "shop")])
def test_what_one_gives_up_below_a_limit_for_who_comes_beside_it_is_anothers_without_another_event(
    order: tuple[str, str],
) -> None:
    """Seed 4000000049: it was told that the limit keeps it out, which was not so any more."""
    world = World(node(gpus=4), groups=[group("lab", limit=gpu_amount(2)), group("shop")]).set_policy(**PAIRS)
    host = world.submit(sharing_spec(HEAVY, group="lab"))
    world.settle()
    asked = {"shop": sharing_spec(LIGHT, group="shop"), "lab": spec(gpus=1, group="lab", time_limit_s=600)}
    comes = {name: world.submit(asked[name]) for name in order}
    decided = world.round()
    assert [one.beside for one in decided.placements if one.job == comes["shop"]] == [host]
    world.settle()
    assert running(world) == [host, *comes.values()]
    assert world.state.usage["lab"]["gpu_milli"] == 2000
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}


def paired_under_leases(*, cpus: int) -> tuple[World, list[int], int]:
    """A pair from before its pool lent room in leases, and one that comes first in the next lease."""
    world = world_of(node(gpus=2, cpus=cpus))
    pair = [world.submit(sharing_spec(HEAVY))]
    world.settle()
    pair.append(world.submit(sharing_spec(LIGHT)))
    world.settle()
    world.set_policy(sharing="", ordering="fifo", lease_s=100)
    return world, pair, world.submit(gpus=2, cpus=3)


def next_lease(world: World) -> f.RoundDecided:
    """A round of a new lease, which counts on no more than there is."""
    wrong: list[str] = []
    with watched(wrong.append):
        decided = world.wait(101).round()
    assert not wrong
    return decided


def test_at_the_end_of_a_lease_a_pair_makes_way_whole_and_gives_what_it_has_once() -> None:
    """Seed 2727425516: the room of one of them was given back twice, and the pair stood in the way for ever."""
    world, pair, comes = paired_under_leases(cpus=3)
    decided = next_lease(world)
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(job, comes) for job in pair]
    world.settle()
    assert running(world) == [comes]


def test_no_pair_makes_way_at_the_end_of_a_lease_for_one_that_needs_more_than_there_is() -> None:
    world, pair, _ = paired_under_leases(cpus=2)
    assert not next_lease(world).evictions
    assert running(world) == pair


def test_a_pair_of_which_one_is_protected_stays_when_its_lease_ends() -> None:
    world, pair, _ = paired_under_leases(cpus=3)
    guest = world.job(pair[1])
    world.state.put_job(replace(guest, spec=replace(guest.spec, protected_s=-1)))
    assert not next_lease(world).evictions
    assert running(world) == pair


def test_scores_are_where_speeds_beside_others_are_lucids() -> None:
    # Beside others who keep the same resource busy for any part v, all alike: the mean of min(1, 1 / (u + v)).
    def mean_speed(percent: int) -> float:
        u, steps = percent / 100, 10_000
        return sum(min(1.0, 1 / (u + (k + 0.5) / steps)) for k in range(steps)) / steps

    for percent in range(101):
        u = percent / 100
        assert mean_speed(percent) == pytest.approx(1 - u + log1p(u), abs=1e-4)
        speed = 1 - u + log1p(u)
        assert score_of(percent) == (0 if speed >= 0.95 else 1 if speed >= 0.85 else 2)
    assert (LIGHT_PERCENT, HALF_PERCENT) == (35, 65)
    assert score_of(-1) == 2


def test_a_pair_slows_its_jobs_by_no_more_than_their_scores_say() -> None:
    # Two of score 1 ask for 130 % of a resource at most, one of score 0 and one of score 2 for 135 %.
    worst = max(a + b for a, b in product(range(101), repeat=2) if score_of(a) + score_of(b) <= 2)
    assert worst == LIGHT_PERCENT + 100


@given(
    jobs=st.lists(
        st.tuples(
            st.sampled_from([LIGHT, HALF, HEAVY, {}]),
            st.sampled_from([1, 2, 4]),
            st.integers(1, 5),
            st.sampled_from([0, 9_000, 20_000, 30_000]),
            st.booleans(),
        ),
        max_size=14,
    ),
    ends=st.lists(st.integers(0, 13), max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_never_three_on_a_gpu_nor_more_memory_than_it_has_and_nobody_beside_a_job_that_it_minds(jobs, ends) -> None:
    world = world_of(node("n1", gpus=4), node("n2", gpus=4))
    asked = (
        (sharing_spec(stages, gpus=gpus, hours=hours, most_mib=most_mib), settles)
        for stages, gpus, hours, most_mib, settles in jobs
    )
    live(world, asked, ends, _check)


def _check(world: World) -> None:
    for (name, index), shares in on_gpus(world).items():
        gpu = next(gpu for gpu in world.state.kept.nodes[name].gpus if gpu.index == index)
        assert len(shares) <= 2
        assert sum(milli for _, milli, _ in shares) == 1000
        assert sum(mib for _, _, mib in shares) <= gpu.memory_mib
        if len(shares) == 2:
            pair = [world.job(job) for job, _, _ in shares]
            assert companions(world.state, pair[0].id) == (pair[1].id,)
            assert sum(sharing_score(world.state, one) for one in pair) <= 2
            early, late = sorted(pair, key=lambda one: (min(task.placed_ms for task in world.tasks(one.id)), one.id))
            assert late.spec.estimate_s <= 2 * early.spec.estimate_s
            assert stages_of(early.spec) or stages_of(late.spec)


def test_pairs_stand_beside_no_other_way_of_sharing_time() -> None:
    for wrong in (
        Policy(sharing="pairs", lease_s=60),
        Policy(sharing="pairs", time_slice_s=600),
        Policy(sharing="pairs", packing=True),
        Policy(sharing="pairs", schedulers=2),
    ):
        assert policy_problem(wrong) is not None
    assert policy_problem(Policy(sharing="pairs")) is None
