"""The orderings that share: by past use, by dominant part, by turns; and what holds for all of them."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import HOUR, World, group, node, role, spec

from gangline_core import cycle
from gangline_core.groups import ROOT
from gangline_core.ordering import ORDERINGS, order, rank
from gangline_core.ordering.dominant_resource import FINE
from gangline_core.scoring.decay import Past, exp2
from gangline_core.scoring.waiting import Waiting
from gangline_core.state import decode_snapshot, encode_snapshot

MILLION = 1_000_000


def ordered(world: World):
    pool = world.state.kept.pools["default"]
    return order(world.state, pool, world.waiting(), world.at)


def groups_in_order(world: World) -> list[str]:
    return [world.job(candidate.job).spec.group for candidate in ordered(world).candidates]


def ids(world: World) -> list[int]:
    return [candidate.job for candidate in ordered(world).candidates]


def ran(world: World, seconds: float, where: str = "n1", **fields) -> int:
    """A job that runs alone and ends."""
    job = world.run(world.submit(**fields), where)
    world.wait(seconds).finish(job)
    return job


# --- fair share -------------------------------------------------------------------------------------------


def test_who_used_less_lately_goes_first():
    world = World(node(), groups=[group("a"), group("b")]).set_policy(ordering="fair_share")
    ran(world, 3600, gpus=8, group="a")
    world.submit(gpus=1, group="a")
    world.submit(gpus=1, group="b")
    assert groups_in_order(world) == ["b", "a"]


def test_twice_the_weight_may_use_twice_as_much():
    world = World(node(), node("n2"), groups=[group("a", weight=2), group("b")]).set_policy(ordering="fair_share")
    ran(world, 5400, gpus=4, group="a")
    ran(world, 3600, gpus=4, group="b")
    world.submit(gpus=1, group="b")
    world.submit(gpus=1, group="a")
    assert groups_in_order(world) == ["a", "b"]


def test_use_of_long_ago_is_forgotten_by_half_lives():
    world = World(node(), groups=[group("a"), group("b")]).set_policy(ordering="fair_share", half_life_s=3600)
    ran(world, 3600, gpus=8, group="a")
    world.wait(10 * 3600)
    ran(world, 60, gpus=8, group="b")
    world.submit(gpus=1, group="b")
    world.submit(gpus=1, group="a")
    assert groups_in_order(world) == ["a", "b"], "an hour ten half-lives ago is less than a minute now"


def test_what_runs_now_counts_as_it_is_used():
    world = World(node(), node("n2"), groups=[group("a"), group("b")]).set_policy(ordering="fair_share")
    world.submit_running(spec(gpus=8, group="a"), "n1")
    world.wait(600)
    world.submit(gpus=1, group="a")
    world.submit(gpus=1, group="b")
    assert groups_in_order(world) == ["b", "a"]


def test_shares_are_compared_among_siblings_only():
    """Tree-wise: a poor user in a rich group waits for the poor group, and users share their group's part."""
    world = World(node(), groups=[group("a"), group("a/x"), group("a/y"), group("b")])
    world.set_policy(ordering="fair_share")
    ran(world, 3600, gpus=8, group="a/x")
    ran(world, 1800, gpus=8, group="b")
    world.submit(gpus=1, group="a/y")
    world.submit(gpus=1, group="a/x")
    world.submit(gpus=1, group="b")
    assert groups_in_order(world) == ["b", "a/y", "a/x"]


def test_a_burst_of_submissions_does_not_all_look_poor():
    world = World(node(), groups=[group("a"), group("b")]).set_policy(ordering="fair_share")
    for _ in range(4):
        world.submit(gpus=1, group="a", estimate_s=600)
    for _ in range(4):
        world.submit(gpus=1, group="b", estimate_s=600)
    assert groups_in_order(world) == ["a", "b"] * 4


def test_another_half_life_changes_what_happens_from_now_on_and_nothing_before():
    world = World(node(), groups=[group("a")]).set_policy(half_life_s=3600)
    ran(world, 3600, gpus=8, group="a")
    pool = world.state.kept.pools["default"]
    before = pool.past.used("a", 0, world.at)
    world.set_policy(half_life_s=7200)
    assert abs(pool.past.used("a", 0, world.at) - before) <= 1
    assert pool.past.used("a", 0, world.at + 2 * HOUR) == pytest.approx(before / 2, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(1, 400_000_000), st.integers(1, 64_000)), min_size=1, max_size=12),
    half_life=st.sampled_from([0, 60_000, 3_600_000, 604_800_000]),
)
def test_decayed_use_is_the_integral_that_it_claims_to_be(changes, half_life):
    """Against the closed form in floating point, over any number of moved origins."""
    past, at, rate = Past(half_life_ms=half_life), 1_700_000_000_000, 0
    pieces = []
    for wait, new_rate in changes:
        past.note(["x"], new_rate - rate, at)
        pieces.append((at, at + wait, new_rate))
        rate, at = new_rate, at + wait
    expected = sum(_integral(a - at, b - at, half_life) * held for a, b, held in pieces)
    assert past.used("x", rate, at) == pytest.approx(expected, rel=1e-4, abs=2 * 64_000 * len(changes))


def _integral(a: float, b: float, half_life: float) -> float:
    if not half_life:
        return b - a
    from math import log

    return half_life / log(2) * (2 ** (b / half_life) - 2 ** (a / half_life))


def test_powers_of_two_are_exact_where_they_are_whole_and_close_between():
    assert [exp2(k, 1) for k in (0, 1, 3)] == [1 << 40, 1 << 41, 1 << 43]
    assert exp2(1, 2) / (1 << 40) == pytest.approx(2**0.5, rel=1e-9)


# --- turns ------------------------------------------------------------------------------------------------


def test_groups_take_turns_and_who_waited_longest_for_one_begins():
    world = World(node(), groups=[group("a"), group("b"), group("c")]).set_policy(ordering="round_robin")
    ran(world, 1, gpus=1, group="a")
    ran(world, 1, gpus=1, group="c")
    for path in "aabbcc":
        world.submit(gpus=1, group=path)
    assert groups_in_order(world) == ["b", "a", "c", "b", "a", "c"]


def test_users_take_turns_inside_their_group():
    world = World(node(), groups=[group("a")]).set_policy(ordering="round_robin")
    for user in ("ada", "ada", "ada", "bob"):
        world.submit(gpus=1, group="a", user=user)
    assert [world.job(job).spec.user for job in ids(world)] == ["ada", "bob", "ada", "ada"]


def test_a_higher_queue_level_goes_first_whoever_has_less():
    world = World(node(), groups=[group("a"), group("b")]).set_policy(ordering="fair_share")
    ran(world, 3600, gpus=8, group="a")
    world.submit(gpus=1, group="b")
    world.submit(gpus=1, group="a", level="high")
    assert groups_in_order(world) == ["a", "b"]


def test_a_short_look_is_the_beginning_of_a_long_one():
    for name in ("fair_share", "dominant_resource", "round_robin"):
        world = World(node(), groups=[group("a", weight=3), group("b"), group("b/x"), group("c")])
        world.set_policy(ordering=name)
        for k in range(60):
            world.submit(
                gpus=k % 5, cpus=1 + k % 7, group=("a", "b", "b/x", "c")[k % 4], level=("high", "normal")[k % 3 > 1]
            )
        pool = world.state.kept.pools["default"]
        long = rank(Waiting.of(world.state, pool, world.waiting(), now=world.at))
        for first in (1, 7, 30):
            short = rank(Waiting.of(world.state, pool, world.waiting(), now=world.at), first)
            assert short.ids[:first].tolist() == long.ids[:first].tolist()


# --- dominant resources -----------------------------------------------------------------------------------


def _start_in_order(world: World) -> dict[str, int]:
    """Jobs per group that start one after the other, until the next in order does not fit."""
    started: dict[str, int] = {}
    total = {"cpu_milli": 9_000, "memory_mib": 18 * 1024}
    for candidate in ordered(world).candidates:
        job = world.job(candidate.job)
        need = job.spec.roles[0].resources
        if need.cpu_milli > total["cpu_milli"] or need.memory_mib > total["memory_mib"]:
            break
        total["cpu_milli"] -= need.cpu_milli
        total["memory_mib"] -= need.memory_mib
        started[job.spec.group] = started.get(job.spec.group, 0) + 1
    return started


def test_the_published_example_of_dominant_resource_fairness():
    """Ghodsi et al., NSDI 2011, section 4.1: 9 CPUs and 18 GB; (1 CPU, 4 GB) gets 3 tasks, (3 CPUs, 1 GB) gets 2."""
    world = World(node(gpus=0, cpus=9, memory_mib=18 * 1024), groups=[group("a"), group("b")])
    world.set_policy(ordering="dominant_resource")
    for _ in range(6):
        world.submit(gpus=0, cpus=1, memory_mib=4096, group="a")
        world.submit(gpus=0, cpus=3, memory_mib=1024, group="b")
    assert _start_in_order(world) == {"a": 3, "b": 2}


def test_a_child_that_takes_what_nobody_else_can_use_does_not_starve_its_sibling():
    """Bhattacharya et al., SoCC 2013, section 3: with plain sums a group is judged by its greediest child."""
    world = World(node(gpus=8, cpus=8), groups=[group("a"), group("b"), group("b/cpu"), group("b/gpu")])
    world.set_policy(ordering="dominant_resource")
    world.submit_running(spec(gpus=0, cpus=7, group="b/cpu"), "n1")
    world.submit_running(spec(gpus=1, cpus=0, group="b/gpu"), "n1")
    world.submit_running(spec(gpus=2, cpus=0, group="a"), "n1")
    world.submit(gpus=1, cpus=0, group="a")
    world.submit(gpus=1, cpus=0, group="b/gpu")
    assert groups_in_order(world) == ["b/gpu", "a"], "b counts as 1/8, not as the 7/8 of its CPU child"


TREE = {"a": "", "b": "", "b/x": "b", "b/y": "b"}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_dominant_shares_equal_a_computation_from_scratch_at_every_turn(data):
    weights = {path: data.draw(st.integers(1, 3)) for path in TREE}
    world = World(node(gpus=8, cpus=16, memory_mib=65536), groups=[group(p, weight=w) for p, w in weights.items()])
    world.set_policy(ordering="dominant_resource")
    for _ in range(data.draw(st.integers(2, 12))):
        world.submit(
            gpus=data.draw(st.integers(0, 3)),
            cpus=data.draw(st.integers(1, 6)),
            memory_mib=1024 * data.draw(st.integers(1, 9)),
            group=data.draw(st.sampled_from(sorted(TREE))),
            user=data.draw(st.sampled_from(["ada", "bob"])),
        )
    for turn, (mine, least) in enumerate(_keys_at_turns(world, weights, ids(world))):
        assert mine <= least + CLOSE, f"at turn {turn} somebody else had less"


CLOSE = Fraction(100, FINE)
"""Shares are whole billionths: who had exactly as much as another may go before or behind it."""


def _keys_at_turns(world: World, weights: dict[str, int], order: list[int]) -> Iterator[tuple[Fraction, Fraction]]:
    """In this order, per turn and level of the tree, the share over weight of who goes, and the least of all there."""
    total = (8_000, 16_000, 65_536)
    queues: dict[tuple[str, ...], list[int]] = {}
    for job in world.waiting():
        path = job.spec.group
        chain = tuple(reversed([p for p in (path, TREE[path]) if p]))
        queues.setdefault((*chain, f"{path}:{job.spec.user}"), []).append(job.id)
    leaf_of = {job: leaf for leaf, jobs in queues.items() for job in jobs}
    held: dict[tuple[str, ...], list[int]] = {leaf: [0, 0, 0] for leaf in queues}

    def counted(at: tuple[str, ...]) -> list[Fraction]:
        below = {leaf[: len(at) + 1] for leaf in queues if leaf[: len(at)] == at and leaf != at}
        if not below:
            return [Fraction(amount, whole) for amount, whole in zip(held[at], total, strict=True)]
        vectors = [vector for child in sorted(below) if max(vector := counted(child)) > 0]
        least = min((max(vector) for vector in vectors), default=Fraction(0))
        return [sum((vector[k] * least / max(vector) for vector in vectors), Fraction(0)) for k in range(3)]

    for job in order:
        leaf = leaf_of[job]
        for depth in range(len(leaf)):
            below = {one[: depth + 1] for one, jobs in queues.items() if jobs and one[:depth] == leaf[:depth]}
            keys = {one: max(counted(one)) / weights.get(one[-1], 1) for one in below}
            yield keys[leaf[: depth + 1]], min(keys.values())
        assert queues[leaf].pop(0) == job, "a user's own jobs stay in their order"
        need = world.job(job).spec.roles[0].resources
        amounts = (need.gpu_milli, need.cpu_milli, need.memory_mib)
        held[leaf] = [had + more for had, more in zip(held[leaf], amounts, strict=True)]
    assert not any(queues.values()), "everybody has a turn"


# --- all --------------------------------------------------------------------------------------------------


def _busy(name: str) -> World:
    world = World(node(), node("n2"), groups=[group("a", weight=2), group("b")]).set_policy(ordering=name)
    for k, (path, gpus) in enumerate(product("ab", (1, 2, 3))):
        ran(world, 30 + 50 * k, gpus=gpus, group=path, name=f"run-{k % 2}")
    world.submit_running(spec(gpus=2, group="a"), "n2")
    for k in range(12):
        world.wait(3)
        world.submit(spec(roles=[role(gpus=1 + k % 3, tasks=1 + k % 2)], group="ab"[k % 2], estimate_s=100 * k))
    return world


@pytest.mark.parametrize("name", sorted(ORDERINGS))
def test_after_a_restart_the_same_round_opens(name):
    world = _busy(name)
    again = decode_snapshot(encode_snapshot(world.state))
    assert cycle.open_round(again, "default", world.at) == cycle.open_round(world.state, "default", world.at)
    assert encode_snapshot(again) == encode_snapshot(world.state)


@pytest.mark.parametrize("name", sorted(ORDERINGS))
def test_the_round_and_the_explanation_show_one_order(name):
    world = _busy(name)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    assert list(opened.candidates) == ordered(world).candidates
    assert all(sum(candidate.terms) == candidate.score for candidate in opened.candidates)


def test_a_group_that_is_only_a_name_weighs_one():
    world = World(node()).set_policy(ordering="fair_share")
    assert ROOT in world.state.kept.groups
    world.submit(gpus=1, group="nobody/knows")
    world.submit(gpus=1)
    assert len(ids(world)) == 2
    assert replace(world.job(1)).spec.group == "nobody/knows"
