"""Brute force on tiny clusters: whether a gang fits, at which level, and who has to go at least cost.

The oracles here know nothing of rooms, keys or trials: they enumerate.
"""

from itertools import combinations, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.test_placement import BLOCK, RACK, Place
from tests.make import World, node, spec

from gangline_core.job import JobState

ISLANDS = [0, 0, 1, 1]


def cluster(sizes):
    """Up to four nodes of up to four GPUs: pairs are linked, two nodes make a rack."""
    return [
        node(
            f"n{k}",
            gpus=size,
            cpus=8,
            islands=ISLANDS[:size],
            sockets=[0] * size,
            labels={RACK: f"r{k // 2}", BLOCK: "b0"},
        )
        for k, size in enumerate(sizes)
    ]


def domains(sizes, taken, level):
    """The free GPUs of each domain of a level, as lists of counts per node."""
    free = [[j for j in range(size) if j not in taken[k]] for k, size in enumerate(sizes)]
    match level:
        case "nvlink":
            return [[sum(ISLANDS[j] == island for j in own)] for own in free for island in (0, 1)]
        case "node":
            return [[len(own)] for own in free]
        case "rack":
            return [[len(own) for own in free[k : k + 2]] for k in range(0, len(free), 2)]
        case _:
            return [[len(own) for own in free]]


def fits(counts, tasks, gpus):
    """Every way to give each task a node of the domain."""
    return any(
        all(sum(gpus for spot in spots if spot == k) <= count for k, count in enumerate(counts))
        for spots in product(range(len(counts)), repeat=tasks)
    )


_SIZES = st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=4)
_LEVELS = st.sampled_from(["nvlink", "node", "rack", "block"])


@settings(max_examples=250, deadline=None)
@given(_SIZES, st.lists(st.integers(0, 15), min_size=4, max_size=4), st.integers(1, 4), st.integers(1, 4), _LEVELS)
def test_a_gang_is_seated_exactly_when_some_way_to_seat_it_exists(sizes, bits, tasks, gpus, level):
    taken = [{j for j in range(size) if bits[k] >> j & 1} for k, size in enumerate(sizes)]
    world = World(*cluster(sizes))
    for k, gone in enumerate(taken):
        if gone:
            world.submit_running(spec(gpus=len(gone), cpus=0), (f"n{k}", sorted(gone)))
    place = Place(*cluster(sizes))
    place.room = world.state.room("default").copy()
    expected = any(fits(counts, tasks, gpus) for counts in domains(sizes, taken, level))
    seats = place.seat(tasks=tasks, gpus=gpus, cpus=0, topology=level)
    assert (seats is not None) == expected


@settings(max_examples=150, deadline=None)
@given(_SIZES, st.lists(st.integers(0, 15), min_size=4, max_size=4), st.integers(1, 4), st.integers(1, 2))
def test_with_a_wish_for_closeness_the_smallest_level_that_can_hold_the_gang_is_taken(sizes, bits, tasks, gpus):
    taken = [{j for j in range(size) if bits[k] >> j & 1} for k, size in enumerate(sizes)]
    world = World(*cluster(sizes))
    for k, gone in enumerate(taken):
        if gone:
            world.submit_running(spec(gpus=len(gone), cpus=0), (f"n{k}", sorted(gone)))
    place = Place(*cluster(sizes), placer="topology")
    place.room = world.state.room("default").copy()
    seats = place.seat(tasks=tasks, gpus=gpus, cpus=0)
    ladder = ["nvlink", "node", "rack", "block"]
    able = [lv for lv in ladder if any(fits(counts, tasks, gpus) for counts in domains(sizes, taken, lv))]
    assert (seats is not None) == bool(able)
    if able:
        # One socket is the whole node here, so the levels between island and node tell nothing apart.
        assert ladder.index("node" if seats.level in ("switch", "socket") else seats.level) == ladder.index(able[0])


# --- victims ----------------------------------------------------------------------------------------------------


def cheapest(running, capacity, wanted):
    """The least work lost over all sets of victims on any one node; None when no set helps."""
    best = None
    for size in range(len(running) + 1):
        for some in combinations(range(len(running)), size):
            for k, total in enumerate(capacity):
                held = sum(gpus for j, (where, gpus, _) in enumerate(running) if where == k and j not in some)
                if total - held >= wanted:
                    cost = sum(running[j][1] * running[j][2] for j in some)
                    best = cost if best is None else min(best, cost)
    return best


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 50)), min_size=1, max_size=6),
    st.integers(1, 8),
)
def test_the_victims_of_one_task_cost_no_more_than_the_cheapest_set_there_is(capacity, asked, wanted):
    world = World(*(node(f"n{k}", gpus=total) for k, total in enumerate(capacity)))
    running, jobs = [], []
    now = 60
    for where, gpus, age in sorted(asked, key=lambda entry: -entry[2]):
        k = where % len(capacity)
        if sum(own for at, own, _ in running if at == k) + gpus > capacity[k]:
            continue
        running.append((k, gpus, age))
        jobs.append(world.submit(spec(gpus=gpus, priority=-1)))
    base = world.at
    for (k, _, age), job in zip(running, jobs, strict=True):
        world.at = base + (now - age) * 1000
        world.run(job, f"n{k}")
    world.at = base + now * 1000
    beneficiary = world.submit(spec(gpus=wanted, priority=10))
    decided = world.round()
    best = cheapest(running, capacity, wanted)
    gone = {eviction.job for eviction in decided.evictions}
    if best is None:
        assert not gone
        assert world.job(beneficiary).state == JobState.WAITING
        return
    cost = sum(gpus * age for (_, gpus, age), job in zip(running, jobs, strict=True) if job in gone)
    assert cost == best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_no_victim_of_a_gang_could_be_spared(asked, tasks, gpus):
    capacity = [4, 4, 4]
    world = World(*(node(f"n{k}", gpus=4) for k in range(3)))
    held = [0, 0, 0]
    running = {}
    for k, own in asked:
        if held[k] + own <= 4:
            held[k] += own
            running[world.submit_running(spec(gpus=own, priority=-1), f"n{k}")] = (k, own)
    world.wait(60)
    world.submit(spec(tasks=tasks, gpus=gpus, priority=10))
    decided = world.round()
    gone = {eviction.job for eviction in decided.evictions}

    def can(without):
        places = [
            (capacity[k] - sum(o for j, (at, o) in running.items() if at == k and j not in without)) for k in range(3)
        ]
        return sum(free // gpus for free in places) >= tasks

    assert can(set(running)) or not gone
    if gone:
        assert can(gone)
        assert not any(can(gone - {one}) for one in gone)


# --- whatever happens -------------------------------------------------------------------------------------------


_JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([0, 0.25, 0.5, 1, 2, 4]), st.sampled_from(["", "node", "rack"])),
    min_size=1,
    max_size=6,
)


@settings(max_examples=80, deadline=None)
@given(_SIZES, _JOBS, st.randoms(use_true_random=False))
def test_placing_and_releasing_in_any_order_restores_the_exact_state(sizes, asked, chance):
    world = World(*cluster(sizes))
    empty = world.state.room("default").copy()
    for tasks, gpus, level in asked:
        world.submit(spec(tasks=tasks, gpus=gpus, cpus=1, topology=level))
    world.round()
    for name, use in world.state.use.items():
        machine = world.state.kept.nodes[name]
        assert use.cpu_milli <= machine.cpu_milli
        assert all(0 <= milli <= 1000 for milli in use.gpu_milli)
        assert all(use.gpu_memory_mib[gpu.index] <= gpu.memory_mib for gpu in machine.gpus)
    started = world.in_state(JobState.STARTING)
    chance.shuffle(started)
    for job in started:
        world.start(job).finish(job)
    after = world.state.room("default")
    for field in ("milli", "gpu_memory", "cpu", "memory", "free", "whole", "linked", "socketed", "fullness"):
        assert (getattr(after, field) == getattr(empty, field)).all()
    assert after.total == empty.total


@settings(max_examples=60, deadline=None)
@given(_SIZES, _JOBS)
def test_other_node_names_in_the_same_order_change_nothing_but_names(sizes, asked):
    placements = []
    for prefix in ("n", "node-"):
        nodes = cluster(sizes)
        renamed = [
            type(one)(**{**{f: getattr(one, f) for f in one.__struct_fields__}, "id": f"{prefix}{k}"})
            for k, one in enumerate(nodes)
        ]
        world = World(*renamed)
        for tasks, gpus, level in asked:
            world.submit(spec(tasks=tasks, gpus=gpus, cpus=1, topology=level))
        decided = world.round()
        placements.append(
            [
                (one.job, one.level, [(task.node.removeprefix(prefix), task.gpus) for task in one.tasks])
                for one in decided.placements
            ]
        )
    assert placements[0] == placements[1]


TELL_APART = (
    "best_fit",
    "bisection",
    "fgd",
    "gpu_manager",
    "gpushare",
    "metric_score",
    "numa_most",
    "spread",
    "topology",
)
"""Placers that tell all machines apart that differ in GPUs. The others score by what is free, by CPU, memory, load, or
(the default) by what stays useful, or (buddy) by the size of free cells; among machines equal to them the first goes,
which is part of those policies (see `test_symmetry`, which holds for all)."""


def looks(world, sizes, names):
    """What is on each machine, whatever it is called: how big it is, and what is taken of each of its pairs."""
    found = []
    for size, name in zip(sizes, names, strict=True):
        use = world.state.use[name].gpu_milli[:size]
        pairs = sorted(tuple(sorted(use[k : k + 2])) for k in range(0, size, 2))
        found.append((size, tuple(pairs), world.state.use[name].cpu_milli))
    return sorted(found)


@pytest.mark.parametrize("placer", TELL_APART)
@settings(max_examples=20, deadline=None)
@given(_SIZES, st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=5), st.permutations(range(4)))
@example([2, 4, 2], [(1, 1), (1, 3), (3, 1)], [1, 0, 2, 3])
def test_permuting_node_names_changes_nothing_but_names(placer, sizes, asked, order):
    ends = []
    for numbers in (range(len(sizes)), [k for k in order if k < len(sizes)]):
        names = [f"n{k}" for k in numbers]
        nodes = [
            node(name, gpus=size, cpus=8, islands=ISLANDS[:size], sockets=[0] * size)
            for size, name in zip(sizes, names, strict=True)
        ]
        world = World(*nodes).set_policy(placement=placer, preemption=False, backfill=False)
        jobs = [world.submit(spec(tasks=tasks, gpus=gpus, cpus=1)) for tasks, gpus in asked]
        world.round()
        placed = [[len(task.gpus) for task in world.tasks(job)] for job in jobs]
        levels = [
            placement.level for decided in (world.log[-1].facts) for placement in getattr(decided, "placements", ())
        ]
        ends.append((placed, levels, looks(world, sizes, names)))
    assert ends[0] == ends[1]
