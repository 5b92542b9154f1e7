"""Who goes next."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import HOUR, World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.groups import User
from gangline_core.ordering import ORDERINGS, order
from gangline_core.spec import ServiceClass
from gangline_core.state import decode_snapshot, encode_snapshot

MILLION = 1_000_000


def ordered(world: World, jobs=None):
    pool = world.state.kept.pools["default"]
    return order(world.state, pool, world.waiting() if jobs is None else jobs, world.at)


def ids(world: World):
    return [candidate.job for candidate in ordered(world).candidates]


def score_of(world: World, job, formula: str):
    world.set_policy(ordering="weighted", formula=formula)
    return next(c.score for c in ordered(world).candidates if c.job == job) / MILLION


def test_fifo_takes_the_oldest_first_whatever_else_they_are():
    world = World(node()).set_policy(ordering="fifo")
    first = world.submit(gpus=8, level="low")
    second = world.wait(1).submit(gpus=1, priority=100)
    assert ids(world) == [first, second]


def test_priority_adds_the_levels_band_to_the_jobs_own():
    world = World(node()).set_policy(ordering="priority")
    plain = world.submit(gpus=1)
    high = world.wait(1).submit(gpus=1, level="high", priority=-5)
    low = world.submit(gpus=1, level="low", priority=900)
    result = ordered(world)
    assert [c.job for c in result.candidates] == [high, plain, low]
    assert result.terms == ("level", "priority")
    assert result.candidates[0].terms == (1000 * MILLION, -5 * MILLION)
    assert result.candidates[0].score == 995 * MILLION


def test_the_formula_decides_and_every_term_is_shown():
    world = World(node()).set_policy(ordering="weighted", formula="10 * age_hours - 2 * gpus")
    large = world.submit(gpus=8)
    small = world.wait(1800).submit(gpus=1)
    result = ordered(world.wait(60))
    assert [c.job for c in result.candidates] == [small, large]
    assert result.terms == ("10 * age_hours", "-2 * gpus")
    by_job = {c.job: c for c in result.candidates}
    assert by_job[large].terms == (round(10 * 1860 / 3600 * MILLION), -16 * MILLION)


def test_levels_of_users_and_groups_count():
    world = World(node(), groups=[group("a", level=3)], users=[User(name="bob", group="a", level=5)])
    one, two = world.submit(group="a", user="bob"), world.submit(group="a", user="ada")
    assert score_of(world, one, "user_level") == 5
    assert score_of(world, two, "user_level") == 0
    assert score_of(world, two, "group_level") == 3


def test_what_the_job_says_of_itself_counts():
    world = World(node())
    one = world.submit(
        gpus=2,
        tasks=3,
        estimate_s=7200,
        time_limit_s=10_800,
        memory_mib=2048,
        service_class=ServiceClass.GUARANTEED,
        attributes={"parameters": 7, "kind": "training", "urgent": True},
    )
    for formula, expected in {
        "gpus": 6,
        "tasks": 3,
        "cpus": 3,
        "memory_gib": 6,
        "estimate_hours": 2,
        "time_limit_hours": 3,
        "service_class": 2,
        "attr_parameters": 7,
        "attr_kind": 0,
        "attr_urgent": 1,
        "attr_absent": 0,
        "where(attr_kind == 'training', 5, 1)": 5,
        "where('inference' == attr_kind, 5, 1)": 1,
        "where(attr_kind != 'inference' and attr_parameters > 5, 5, 1)": 5,
        "where(attr_absent == 'x' or attr_absent != 'x', 5, 1)": 5,
        "where(attr_kind == 'load', 5, 1)": 1,
        "where(attr_parameters == '7' or attr_urgent == 'True', 5, 1)": 1,
        "attempts + preemptions": 0,
    }.items():
        assert score_of(world, one, formula) == expected, formula


def test_the_time_limit_stands_in_for_a_missing_estimate():
    world = World(node())
    one = world.submit(gpus=1, time_limit_s=3600)
    assert score_of(world, one, "estimate_hours") == 1


def test_shares_and_guarantees_of_the_group_count():
    world = World(
        node(), node("n2"), groups=[group("a", weight=3, guaranteed=gpu_amount(2)), group("b", weight=1), group("a/c")]
    )
    world.submit_running(spec(gpus=4, group="b"), "n1")
    one, two = world.submit(gpus=1, group="a"), world.submit(gpus=1, group="b")
    below = world.submit(gpus=1, group="a/c")
    assert score_of(world, one, "weight_share") == 0.75
    assert score_of(world, below, "weight_share") == 0.75
    assert score_of(world, two, "share_used") == 0.25
    assert score_of(world, two, "share_over_weight") == 1
    assert score_of(world, one, "share_over_weight") == 0
    assert score_of(world, one, "within_guarantee") == 1
    assert score_of(world, two, "within_guarantee") == 0


def test_the_free_part_of_what_is_asked_counts():
    world = World(node(), node("h1", model="H100", gpus=4, cpus=8))
    world.submit_running(spec(gpus=2, gpu_models=["H100"], cpus=4), "h1")
    fits, half, none = (
        world.submit(gpus=8, gpu_models=["A100"]),
        world.submit(gpus=4, gpu_models=["h100"]),
        world.submit(gpus=1, gpu_models=["L4"]),
    )
    cpu = world.submit(gpus=0, cpus=136)
    any_model = world.submit(gpus=10)
    for job, expected in ((fits, 1), (half, 0.5), (none, 0), (cpu, 0.5), (any_model, 1)):
        assert score_of(world, job, "free_fraction") == expected


def test_equal_groups_take_turns_inside_one_round():
    """D07: eight GPUs and three equal groups give 3 + 3 + 2, the same on every try."""
    world = World(node(), groups=[group("a"), group("b"), group("c")])
    world.set_policy(formula="-10 * share_over_weight")
    for path in "abc":
        for _ in range(10):
            world.submit(gpus=1, group=path)
    first = [world.job(c.job).spec.group for c in ordered(world).candidates[:8]]
    assert sorted(first) == ["a"] * 3 + ["b"] * 3 + ["c"] * 2
    assert first == ["a", "b", "c", "a", "b", "c", "a", "b"]


def test_a_group_with_twice_the_weight_gets_twice_the_turns():
    world = World(node(), groups=[group("a", weight=2), group("b")]).set_policy(formula="-share_over_weight")
    for path in "ab":
        for _ in range(10):
            world.submit(gpus=1, group=path)
    first = [world.job(c.job).spec.group for c in ordered(world).candidates[:9]]
    assert (first.count("a"), first.count("b")) == (6, 3)


def test_within_a_group_shares_do_not_change_who_goes_first():
    world = World(node(), groups=[group("a")]).set_policy(formula="priority - 10 * share_over_weight")
    low, high = world.submit(gpus=1, group="a"), world.submit(gpus=1, group="a", priority=1)
    assert ids(world) == [high, low]


def test_whoever_has_starved_goes_before_everything_younger():
    world = World(node()).set_policy(starvation_s=3600, formula="1000 * priority")
    old = world.submit(gpus=8, priority=-9)
    older_but_later_id = world.wait(1800)
    young = older_but_later_id.submit(gpus=1, priority=9)
    assert ids(world) == [young, old]
    assert ids(world.wait(1800)) == [old, young]
    assert ids(world.wait(1800)) == [old, young], "both have starved; the older goes first"
    world.set_policy(starvation_s=0)
    assert ids(world) == [young, old]


def test_time_before_a_job_could_have_started_is_no_age():
    world = World(node()).set_policy(ordering="fifo")
    first = world.submit(gpus=1)
    follower = world.submit(gpus=1, after=[first])
    later = world.submit(gpus=1, not_before_ms=world.at + 2 * HOUR)
    world.run(first, "n1")
    world.wait(3600).finish(first)
    plain = world.wait(-60).submit(gpus=1)
    world.wait(120)
    result = ordered(world)
    assert [c.job for c in result.candidates] == [plain, follower, later]
    assert [c.score for c in result.candidates] == [120 * MILLION, 60 * MILLION, 0]


def test_a_preempted_job_keeps_the_time_it_had_waited():
    world = World(node()).set_policy(ordering="fifo")
    victim = world.submit(gpus=8)
    world.wait(600).run(victim, "n1")
    world.wait(600)
    other = world.submit(gpus=8)
    eviction = f.Eviction(job=victim, beneficiary=other, rule="priority")
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, evictions=(eviction,)))
    world.stop_all().wait(60)
    result = ordered(world)
    assert [(c.job, c.score) for c in result.candidates] == [(victim, 660 * MILLION), (other, 60 * MILLION)]


def test_ties_go_by_time_of_queueing_and_then_by_id():
    world = World(node()).set_policy(ordering="priority")
    jobs = [world.submit(gpus=1) for _ in range(5)]
    assert ids(world) == jobs
    assert [c.job for c in ordered(world, list(reversed(world.waiting()))).candidates] == jobs


def test_no_jobs_no_order():
    for name in ORDERINGS:
        assert ordered(World().set_policy(ordering=name)).candidates == []


def test_levels_come_from_the_pool_and_may_have_any_name():
    world = World(node()).set_policy(ordering="priority")
    world.tell("admission", f.PoolSet(pool=Pool(name="default", levels={"normal": 0, "night": -7}), by="admin"))
    job = world.submit(gpus=1, level="night")
    assert ordered(world).candidates[0].score == -7 * MILLION
    assert ids(world) == [job]


@pytest.mark.parametrize("name", sorted(ORDERINGS))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_an_order_is_a_permutation_with_exact_sums_and_the_same_after_a_restart(name, data):
    """N05: the order depends on the log alone, not on how the fold came about or how the jobs were handed in."""
    world = World(node(), groups=[group("a"), group("b", weight=2)])
    world.set_policy(ordering=name, formula="level + priority - 3 * share_over_weight + log(1 + gpus)", starvation_s=50)
    for _ in range(data.draw(st.integers(1, 12))):
        world.wait(data.draw(st.integers(0, 20)))
        world.submit(
            gpus=data.draw(st.integers(0, 4)),
            group=data.draw(st.sampled_from("ab")),
            priority=data.draw(st.integers(-2, 2)),
            level=data.draw(st.sampled_from(["high", "normal"])),
        )
    result = ordered(world)
    assert sorted(c.job for c in result.candidates) == sorted(world.state.waiting["default"])
    assert all(sum(c.terms) == c.score and len(c.terms) == len(result.terms) for c in result.candidates)
    again = decode_snapshot(encode_snapshot(world.state))
    shuffled = data.draw(st.permutations([again.kept.jobs[c.job] for c in result.candidates]))
    assert order(again, again.kept.pools["default"], shuffled, world.at) == result


def test_ten_thousand_waiting_jobs_are_ordered_in_a_blink():
    world = World(node())
    for _ in range(10):
        world.submit(*(spec(f"{world.at}-{k}", gpus=1 + k % 8, priority=k % 3) for k in range(1000)))
        world.wait(1)
    jobs = world.waiting()
    best = min(_seconds(lambda: ordered(world, jobs)) for _ in range(3))
    assert best < 0.25, "about 25 ms on an idle machine; the bound leaves room for a busy one"


def _seconds(act) -> float:
    before = time.process_time()
    act()
    return time.process_time() - before
