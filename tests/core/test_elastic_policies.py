"""Each policy for sizes does what its paper says, and none changes a size without a cause from outside."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.elasticity.goodput import Grad, Limits, Perf
from gangline_core.elasticity.knapsack import choose
from gangline_core.elasticity.pollux import Bidder, configurations, pollux
from gangline_core.elasticity.sia import Asker, Choice, solve
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Elastic, ResizeKind

PERF = Perf(ac=0.121, bc=0.00568, an=0.0236, bn=0.00634, ar=0.0118, br=0.00317, g=1.14)
LIMITS = Limits(initial=128, batch_max=1280, local_min=64, local_max=256)


def bidder(**fields) -> Bidder:
    defaults = {
        "sizes": (1, 2, 4, 8), "gpus": 1, "present": 1, "perf": None, "grad": Grad(), "limits": Limits(initial=128),
        "profiled": 8, "age_s": 3600, "restarts": 1, "cost_s": 30,
    }  # fmt: skip
    return Bidder(**{**defaults, **fields})


# --- the search ---------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(
    st.lists(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 6)), max_size=3), min_size=1, max_size=4),
    st.integers(0, 10),
)
def test_no_other_choice_is_worth_more(jobs, capacity) -> None:
    values = [[0.0, *(float(value) for value, _ in job)] for job in jobs]
    costs = [[0, *(cost for _, cost in job)] for job in jobs]

    def worth(options) -> float:
        return sum(values[job][option] for job, option in enumerate(options))

    chosen = choose(values, costs, capacity)
    assert sum(costs[job][option] for job, option in enumerate(chosen)) <= capacity
    able = [
        options
        for options in itertools.product(*(range(len(job)) for job in values))
        if sum(costs[job][option] for job, option in enumerate(options)) <= capacity
    ]
    assert worth(chosen) == max(map(worth, able))


def test_configurations_are_parts_by_powers_of_two_and_whole_nodes() -> None:
    assert configurations(4, 3) == (1, 2, 4, 8, 12)
    assert configurations(8, 2) == (1, 2, 4, 8, 16)


@pytest.mark.parametrize("nodes", [1, 2, 4, 8, 16])
def test_sixteen_jobs_on_sixteen_gpus_stay_within_capacity_and_their_bounds(nodes) -> None:
    # adaptdl sched/policy/pollux_test.py
    present = [1] * 16
    for _ in range(3):
        asked = [bidder(present=size, perf=PERF, limits=LIMITS) for size in present]
        present = pollux(asked, capacity=16, per_node=16 // nodes)
        assert sum(present) <= 16
        assert all(size in (0, 1, 2, 4, 8) for size in present)
        assert min(present) >= 1


def test_a_job_that_gains_nothing_beyond_four_gpus_gets_no_more_although_they_are_idle() -> None:
    grad = Grad(sqr=0.00136, var=0.000502)
    [size] = pollux(
        [bidder(perf=PERF, grad=grad, limits=LIMITS, age_s=100, restarts=0, present=4)], capacity=64, per_node=4
    )
    assert size == 4


def test_a_job_at_most_doubles_what_it_was_profiled_on() -> None:
    assert pollux([bidder(profiled=1)], capacity=64, per_node=8) == [2]
    assert pollux([bidder(profiled=4, present=4)], capacity=64, per_node=8) == [8]


def test_a_young_job_is_not_moved_and_jobs_that_must_run_keep_their_least() -> None:
    sizes = pollux([bidder(age_s=10, present=2), bidder(age_s=10, present=2)], capacity=8, per_node=8)
    assert sizes == [2, 2]
    many = pollux([bidder(must_run=True) for _ in range(4)], capacity=4, per_node=4)
    assert many == [1, 1, 1, 1]


def test_the_integer_program_gives_fast_gpus_to_those_that_profit_from_them() -> None:
    asked = [
        Asker(bidder(present=0, profiled=1), "", {"T4": 1.0, "A100": 1.1}),
        Asker(bidder(present=0, profiled=1), "", {"T4": 1.0, "A100": 6.0}),
    ]
    first, second = solve(asked, {"T4": 2, "A100": 2}, per_node=2)
    assert second == Choice("A100", 2)
    assert first == Choice("T4", 2)


def test_the_integer_program_keeps_within_every_type_and_leaves_out_whom_it_must() -> None:
    asked = [Asker(bidder(present=0, sizes=(4,), profiled=4), "", {"A100": 1.0}) for _ in range(3)]
    chosen = solve(asked, {"A100": 8}, per_node=8)
    assert sorted(choice is not None for choice in chosen) == [False, True, True]


# --- in the pool --------------------------------------------------------------------------------------------------


def running(world: World, *, size: int = 1, where: str = "n1", deadline_s: int = 0, **fields) -> int:
    terms = {"gpus": 1, "tasks": size, "minimum": 1, "maximum": 8, **fields}
    if deadline_s:
        terms["deadline_ms"] = world.at + deadline_s * 1000
    return world.submit_running(spec(**terms), where)


def report(world: World, job: int, *points: tuple[int, int], **more: int) -> None:
    """Step times in ms by members."""
    seen = tuple(Point(1, members, 32, 0, step_ms * 1000) for members, step_ms in points)
    world.tell("telemetry", f.ProgressReported(job=job, progress=Progress(points=seen, **more)))


def propose(world: World) -> dict[int, int]:
    facts = elasticity.propose(world.state, "default", world.at)
    if facts:
        world.tell("elastic.default", *facts)
        world.settle()
    return {fact.job: fact.size for fact in facts if isinstance(fact, f.ResizeProposed)}


def test_idle_gpus_go_where_the_next_one_helps_most() -> None:
    world = World(node(gpus=6))
    steep, flat = running(world), running(world)
    report(world, steep, (1, 100), (2, 101), (4, 103))
    report(world, flat, (1, 100), (2, 195), (4, 390))
    assert propose(world) == {steep: 5}


def test_goodput_weighs_all_jobs_at_its_interval_and_only_after_something_happened() -> None:
    world = World(node()).set_policy(elastic="goodput", elastic_interval_s=60)
    first = running(world, size=4)
    world.wait(600)
    assert propose(world) == {first: 8}
    second = world.submit(gpus=1, tasks=1, minimum=1, maximum=8)
    world.settle()
    world.wait(600)
    weighed = propose(world)
    assert sum(world.job(job).sizes["worker"] for job in (first, second)) <= 8
    assert weighed
    assert propose(world).keys() <= {second}  # what the first gave up reaches the second
    for _ in range(5):
        world.wait(3600)
        assert propose(world) == {}


def test_a_deadline_gets_its_least_share_and_takes_it_from_those_without_one() -> None:
    world = World(node()).set_policy(elastic="deadlines")
    urgent = running(world, size=1, estimate_s=4500, deadline_s=1000)
    relaxed = running(world, size=7)
    world.wait(1)
    propose(world)
    assert world.job(relaxed).sizes == {"worker": 3}
    assert propose(world) == {urgent: 5}
    assert world.job(urgent).sizes == {"worker": 5}
    assert propose(world.wait(600)) == {}


def promised(world: World, *, size: int, left_s: int, due_s: int, where: str = "n1") -> int:
    """A job that said how long it still needs, and that two members are as fast as one and a half."""
    job = running(world, size=size, deadline_s=due_s, where=where)
    report(world, job, (1, 150), (2, 200), remaining_s=left_s)
    return job


def test_two_that_both_make_it_with_one_gpu_each_share_although_the_first_is_more_urgent() -> None:
    # Against earliest deadline first: with both GPUs the first would be over at 2,000 s, and the other too late.
    world = World(node(gpus=2)).set_policy(elastic="deadlines")
    first = promised(world, size=1, left_s=3000, due_s=3100)
    second = promised(world, size=1, left_s=3000, due_s=3600)
    propose(world.wait(1))
    assert [world.job(job).sizes["worker"] for job in (first, second)] == [1, 1]


def test_the_earliest_deadline_is_met_first_and_nobody_gives_what_its_own_needs() -> None:
    world = World(node(gpus=4)).set_policy(elastic="deadlines")
    late = promised(world, size=2, left_s=3000, due_s=9000)
    early = promised(world, size=1, left_s=3000, due_s=2200)
    tight = promised(world, size=1, left_s=3000, due_s=3400)
    for _ in range(3):
        propose(world.wait(1))
    assert [world.job(job).sizes["worker"] for job in (late, early, tight)] == [1, 2, 1]


def test_a_hopeless_job_asks_for_no_more_than_its_least() -> None:
    world = World(node(gpus=4)).set_policy(elastic="deadlines")
    hopeless = promised(world, size=1, left_s=90_000, due_s=100)
    other = running(world, size=3, maximum=3)
    assert propose(world.wait(1)) == {}
    assert [world.job(job).sizes["worker"] for job in (hopeless, other)] == [1, 3]


def test_what_deadlines_leave_goes_by_marginal_gain_in_the_same_decision() -> None:
    world = World(node(gpus=6)).set_policy(elastic="deadlines")
    bound = promised(world, size=1, left_s=3000, due_s=2200)
    steep, flat = running(world), running(world)
    report(world, steep, (1, 100), (2, 101), (4, 103))
    report(world, flat, (1, 100), (2, 195), (4, 390))
    assert propose(world.wait(1)) == {bound: 2, steep: 3}


def test_what_one_job_gives_up_for_another_reaches_it_without_a_further_cause() -> None:
    world = World(node()).set_policy(elastic="goodput", elastic_interval_s=60)
    large = running(world, size=7)
    small = running(world, size=1)
    report(world, large, (1, 100), (2, 190), (4, 380), (7, 660))
    report(world, small, (1, 100), (2, 101), (4, 103))
    world.wait(7200)
    assert propose(world)[large] < 7
    assert propose(world).keys() == {small}
    assert world.job(small).sizes["worker"] > 1
    assert propose(world.wait(3600)) == {}


def test_a_trial_that_made_the_job_no_faster_is_undone_and_not_repeated() -> None:
    world = World(node()).set_policy(elastic="grow_shrink")
    job = running(world, size=2)
    report(world, job, (2, 100))
    assert propose(world.wait(60)) == {job: 3}
    assert propose(world.wait(60)) == {}
    report(world, job, (2, 100), (3, 160))
    assert propose(world.wait(60)) == {job: 2}
    assert world.job(job).sizes == {"worker": 2}
    world.see(node("n2"))
    assert propose(world.wait(60)) == {}


def test_a_trial_that_helped_is_kept_and_the_next_one_follows() -> None:
    world = World(node()).set_policy(elastic="grow_shrink")
    job = running(world, size=2)
    report(world, job, (2, 100))
    propose(world.wait(60))
    report(world, job, (2, 100), (3, 100))
    assert propose(world.wait(60)) == {job: 4}


def test_a_trial_of_which_the_job_tells_nothing_is_undone_with_the_next_cause_and_not_repeated() -> None:
    world = World(node()).set_policy(elastic="grow_shrink", elastic_interval_s=60)
    job = running(world, size=2)
    report(world, job, (2, 100))
    assert propose(world.wait(60)) == {job: 3}
    world.see(node("n2"))
    assert propose(world.wait(120)) == {}, "it has three intervals for a report"
    world.see(node("n3"))
    assert propose(world.wait(120)) == {job: 2}
    for number in range(4, 30):
        world.see(node(f"n{number}"))
        report(world, job, (2, 100))
        assert propose(world.wait(600)) == {}


def test_a_job_with_long_steps_has_time_for_a_report_of_a_trial() -> None:
    world = World(node()).set_policy(elastic="grow_shrink", elastic_interval_s=60)
    job = running(world, size=2)
    report(world, job, (2, 600_000))
    assert propose(world.wait(60)) == {}, "of one step nobody knows how fast it is"
    assert propose(world.wait(1740)) == {job: 3}
    world.see(node("n2"))
    assert propose(world.wait(1700)) == {}
    report(world, job, (2, 600_000), (3, 500_000))
    assert propose(world.wait(100)) == {job: 4}


def test_who_never_reports_is_not_said_to_be_measured_and_fills_what_is_idle() -> None:
    world = World(node()).set_policy(elastic="grow_shrink", elastic_interval_s=60)
    job = running(world, size=2)
    assert propose(world.wait(100)) == {}, "it may report yet"
    assert propose(world.wait(100)) == {job: 8}
    assert world.job(job).resize is not None
    assert world.job(job).resize.why == "idle GPUs"


def test_sia_moves_a_gang_that_can_start_again_to_the_type_that_suits_it() -> None:
    world = World(node("n1", model="T4"), node("n2", model="A100")).set_policy(elastic="sia", elastic_interval_s=60)
    attributes = {"speed_A100": 8.0, "speed_T4": 1.0}
    again = Elastic(kind=ResizeKind.RESTART)
    job = running(world, size=2, attributes=attributes, elastic=again)
    world.wait(7200)
    propose(world)
    assert {task.gpu_model for task in world.tasks(job)} == {"A100"}
    assert world.job(job).sizes["worker"] >= 2


@pytest.mark.parametrize("policy", sorted(elasticity.POLICIES))
def test_a_demand_of_seven_in_gangs_of_three_changes_at_most_once(policy) -> None:
    for begin in (3, 6):
        world = World(node(gpus=7)).set_policy(elastic=policy)
        job = running(world, size=begin, minimum=3, maximum=12, sizes=[3, 6, 9, 12])
        changes = 0
        for _ in range(30):
            world.wait(600)
            changes += bool(propose(world))
        assert changes <= 1
        assert world.job(job).sizes["worker"] in (3, 6)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(elasticity.POLICIES)),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([(), (1, 2, 4, 8)])), min_size=1, max_size=4),
)
def test_no_policy_changes_anything_for_ever_when_nothing_happens(policy, jobs) -> None:
    world = World(node(gpus=12), node("n2", gpus=3)).set_policy(elastic=policy)
    for size, sizes in jobs:
        running(world, size=sizes[0] if sizes else size, sizes=sizes, maximum=8)
    seen = []
    for _ in range(12):
        world.wait(900)
        seen.append(propose(world))
    assert seen[-6:] == [{}] * 6
    for job in world.state.live_jobs():
        assert job.spec.roles[0].allows(job.sizes["worker"])


def test_every_policy_of_the_table_is_one_a_pool_may_have() -> None:
    assert Policy().elastic in elasticity.POLICIES


def test_a_waiting_job_keeps_only_nodes_that_are_large_enough_for_it() -> None:
    world = World(node("n1", gpus=2), node("n2", gpus=8))
    job = running(world)
    world.run(world.submit(gpus=4), "n2")
    waits = world.submit(gpus=8)
    world.settle()
    assert world.reason(waits) is not None
    assert propose(world) == {job: 2}, (
        "the other GPU of the small node is nobody's; those of the large one are waited for"
    )


def test_by_default_whoever_reports_how_it_learns_is_weighed_and_all_others_fill_what_is_idle() -> None:
    def sizes(policy: str, *, learns: bool) -> dict[int, int]:
        world = World(node("n1", gpus=4)).set_policy(elastic=policy)
        for name in ("a", "b"):
            job = running(world, name=name)
            report(
                world,
                job,
                (1, 1_000_000),
                (2, 520_000),
                **({"grad_sqr": 1_000_000, "grad_var": 9_000_000} if learns else {}),
            )
        world.wait(3600)
        return propose(world)

    assert Policy().elastic == "adaptive"
    assert sizes("adaptive", learns=True) == sizes("goodput", learns=True) != {}
    assert sizes("adaptive", learns=False) == sizes("idle_fill", learns=False) != {}


def far_apart(kind: ResizeKind = ResizeKind.RESTART, **policy) -> tuple[World, int, int]:
    world = World(node("n1", gpus=4), node("n2", gpus=4)).set_policy(migration=True, **policy)
    blocker = world.submit_running(spec(gpus=3), "n1")
    asked = spec(gpus=1, tasks=2, elastic=Elastic(kind=kind, cost_s=30))
    gang = world.submit_running(asked, "n1", "n2")
    world.run(world.submit(gpus=3), "n2")
    return world, gang, blocker


def test_a_gang_that_stands_apart_starts_again_closer_together_when_others_have_left() -> None:
    world, gang, blocker = far_apart()
    world.wait(7200).finish(blocker)
    world.settle()
    [proposal] = elasticity.propose(world.state, "default", world.at)
    assert (proposal.job, proposal.size, proposal.moves) == (gang, 2, True)
    world.tell("elastic.default", proposal)
    world.settle()
    assert {task.node for task in world.tasks(gang)} == {"n1"}
    assert world.job(gang).retries_used == 0
    world.wait(7200)
    assert propose(world) == {}, "it stands as close as it can"


def test_who_cannot_start_again_or_is_soon_over_stays_where_it_is() -> None:
    for kind, age_s in ((ResizeKind.TASKS, 7200), (ResizeKind.RESTART, 60)):
        world, _, blocker = far_apart(kind)
        world.wait(age_s).finish(blocker)
        world.settle()
        assert not [one for one in elasticity.propose(world.state, "default", world.at) if one.moves]
