"""What a placer decides does not depend on what machines are called or when they joined, and leaves nothing behind.

Of machines that a placer finds equally good the first goes, in the order of names; for `first_fit` the order is the
policy itself, a fixed permutation of the names. So a decision is right when the machine is the first of all those that
some other naming would have chosen.
"""

from hashlib import blake2b
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_cells import world as cell_world
from tests.make import World, node, spec, state_with

from gangline_core.cluster import Pool
from gangline_core.facts import TaskPlacement
from gangline_core.ids import NodeId
from gangline_core.job import GpuShare
from gangline_core.placement import PLACERS
from gangline_core.placement.gang import gang_of

ANY = sorted(PLACERS)
NAMES = ("n0", "n1", "n2")
_SIZES = st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=3)
_TAKEN = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([300, 500, 1000])), max_size=8)


def machine(name, size):
    """Pairs of GPUs are linked."""
    return node(name, gpus=size, cpus=4 + size, islands=[0, 0, 1, 1][:size], sockets=[0] * size)


def chosen(placer, sizes, taken, names, asked):
    """The machine (its number) that takes a single task, with its GPUs, when machines have these names; else None."""
    room = state_with(*(machine(name, size) for name, size in zip(names, sizes, strict=True))).room("default").copy()
    left = {}
    for which, card, milli in taken:
        spot = (which % len(sizes), card % sizes[which % len(sizes)])
        if left.setdefault(spot, 1000) >= milli:
            left[spot] -= milli
            share = GpuShare(index=spot[1], milli=milli, memory_mib=40_960 * milli // 1000)
            held = {"gpus": (share,), "cpu_milli": 1000, "memory_mib": 0, "devices": {}}
            room.take(TaskPlacement(role="worker", index=0, node=NodeId(names[spot[0]]), **held))
    seats = PLACERS[placer](room, gang_of(asked, {"worker": 1}, Pool(name="default")))
    if seats is None:
        return None
    [task] = seats.tasks
    return names.index(task.node), [share.index for share in task.gpus]


def in_order(placer, names):
    """The machines' numbers in the order in which equally good ones go."""
    if placer != "first_fit":
        return sorted(range(len(names)), key=lambda k: names[k])
    return sorted(range(len(names)), key=lambda k: blake2b(names[k].encode(), digest_size=8).digest())


@pytest.mark.parametrize("placer", ANY)
@settings(max_examples=15, deadline=None)
@given(_SIZES, _TAKEN, st.sampled_from([0, 0.25, 0.5, 1, 2, 3]))
def test_permuting_names_changes_only_which_of_equally_good_machines_goes_first(placer, sizes, taken, gpus):
    asked = spec(gpus=gpus, cpus=1)
    found = {names: chosen(placer, sizes, taken, names, asked) for names in permutations(NAMES[: len(sizes)])}
    if None in found.values():
        assert not any(found.values()), "it fits whatever machines are called, or never"
        return
    good = {which for which, _ in found.values()}
    for names, (which, cards) in found.items():
        assert which == next(k for k in in_order(placer, names) if k in good)
        assert cards == next(own for other, own in found.values() if other == which), "the cards of a machine"


_JOBS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 0.25, 0.5, 1, 2, 4]), st.sampled_from(["", "", "node"])),
    min_size=1,
    max_size=6,
)


def world_of(placer, machines):
    """A pool that places so; with cells nobody is owed any, so that all room is for all."""
    if placer == "cells":
        return cell_world(*machines, cells={}).set_policy(preemption=False, backfill=False)
    return World(*machines).set_policy(placement=placer, preemption=False, backfill=False)


@pytest.mark.parametrize("placer", ANY)
@settings(max_examples=8, deadline=None)
@given(_SIZES, _JOBS, st.permutations(range(3)))
def test_the_order_in_which_machines_join_changes_nothing_at_all(placer, sizes, asked, order):
    ends = []
    for numbers in (range(len(sizes)), [k for k in order if k < len(sizes)]):
        world = world_of(placer, [machine(NAMES[k], sizes[k]) for k in numbers])
        jobs = [world.submit(spec(tasks=tasks, gpus=gpus, cpus=1, topology=level)) for tasks, gpus, level in asked]
        decided = world.round()
        ends.append((decided.placements, [world.reason(job) for job in jobs]))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("placer", ANY)
@settings(max_examples=8, deadline=None)
@given(_SIZES, _JOBS, st.randoms(use_true_random=False))
def test_placing_and_releasing_restores_the_exact_state_whoever_places(placer, sizes, asked, chance):
    world = world_of(placer, [machine(name, size) for name, size in zip(NAMES, sizes, strict=False)])
    empty, use = world.state.room("default").copy(), dict(world.state.use)
    for tasks, gpus, level in asked:
        world.submit(spec(tasks=tasks, gpus=gpus, cpus=1, topology=level))
    world.round()
    started = [job.id for job in world.state.kept.jobs.values() if job.tasks]
    chance.shuffle(started)
    for job in started:
        world.start(job).finish(job)
    after = world.state.room("default")
    for field in ("milli", "gpu_memory", "cpu", "memory", "places", "free", "whole", "linked", "socketed", "fullness"):
        assert (getattr(after, field) == getattr(empty, field)).all(), field
    assert after.total == empty.total
    assert world.state.use == use
