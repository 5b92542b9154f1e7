"""Fragmentation-aware placement: the published formula by hand, caches that change nothing, room that stays useful."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, node, spec, state_with

from gangline_core.cluster import Pool
from gangline_core.placement import PLACERS, placer_for
from gangline_core.placement.gang import gang_of
from gangline_core.placement.guide import GUIDE
from gangline_core.placement.usefulness import Usefulness
from gangline_core.room.beside import NOTHING, WEIGHTS_SUM, Beside
from gangline_core.room.mix import STANDARD, Mix, Typical, mix_of
from gangline_core.spec import JobSpec

SHARE = Typical(cpu_milli=2_000, gpus=1, milli=500, weight=3)
WHOLE = Typical(cpu_milli=4_000, gpus=2, milli=1000, weight=1)
MIX = Mix(tasks=(SHARE, WHOLE))
sizes = st.one_of(st.integers(1, 9).map(lambda tenths: tenths / 10), st.integers(1, 4))


def gang(asked: JobSpec):
    return gang_of(asked, {role.name: role.count for role in asked.roles}, Pool(name="default"))


def fragment_by_hand(free: list[int], cpu: int, mix: Mix) -> Fraction:
    """Section 4.2 word by word, for one node whose model everybody accepts."""
    total = Fraction(0)
    for task in mix.tasks:
        holding = [milli for milli in free if milli >= task.milli]
        is_able = task.gpus and len(holding) >= task.gpus and cpu >= task.cpu_milli
        fragment = sum(milli for milli in free if milli < task.milli) if is_able else sum(free)
        total += Fraction(task.weight, mix.total) * fragment
    return total


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(0, 10_000))
def test_the_measure_by_cards_is_the_published_fragment(free, cpu):
    room = state_with(node("n1", gpus=len(free), cpus=16)).room("default").copy()
    room.milli[0], room.cpu[0] = free, cpu
    usefulness = Usefulness(room.layout.kinds, MIX, by_tasks=False)
    useful = Fraction(int(usefulness.at(room, np.array([0]))[0]), usefulness.scale)
    assert sum(free) - useful == fragment_by_hand(free, cpu, MIX)


def test_fgd_takes_the_node_whose_fragment_grows_least():
    state = state_with(node("n1", gpus=2, cpus=16), node("n2", gpus=2, cpus=16), node("n3", gpus=1, cpus=16))
    room = state.room("default").copy()
    place = placer_for("fgd", Beside(mix=MIX))
    scores = {}
    for row, name in enumerate(["n1", "n2", "n3"]):
        free = room.milli[row][room.layout.kind[row] >= 0].tolist()
        left = [free[0] - 500, *free[1:]]
        saved = fragment_by_hand(free, 16_000, MIX) - fragment_by_hand(left, 15_000, MIX)
        scores[name] = int(100 / (1 + math.exp(-float(saved) / 1000)))
    seats = place(room, gang(spec(gpus=0.5)))
    assert seats is not None
    assert seats.tasks[0].node == max(sorted(scores), key=lambda name: scores[name]) == "n3"


@pytest.mark.parametrize("placer", ["fgd", "default", "first_fit"])
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(sizes, st.integers(1, 6), st.booleans()), max_size=25))
def test_what_was_remembered_decides_as_if_nothing_was(placer, steps):
    def nodes():
        return [node("n1", gpus=4, cpus=16), node("n2", gpus=2, cpus=8), node("n3", gpus=4, cpus=8, model="T4")]

    place = placer_for(placer, Beside(mix=MIX))
    room, held = state_with(*nodes()).room("default").copy(), []
    for gpus, cpus, leaves in steps:
        fresh = state_with(*nodes()).room("default").copy()
        for task in held:
            fresh.take(task)
        seats = place(room, gang(spec(gpus=gpus, cpus=cpus)))
        assert seats == place(fresh, gang(spec(gpus=gpus, cpus=cpus)))
        for task in seats.tasks if seats else ():
            room.take(task)
            held.append(task)
        if leaves and held:
            room.give(held.pop(0))


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_a_placer_leaves_the_room_as_it_was(placer):
    room = state_with(node("n1", gpus=4, cpus=16), node("n2", gpus=4, cpus=16)).room("default").copy()
    before = (room.milli.copy(), room.cpu.copy(), room.memory.copy())
    for asked in (spec(gpus=1, tasks=3), spec(gpus=8, tasks=3), spec(gpus=0.4, tasks=5), spec(gpus=0, tasks=2)):
        PLACERS[placer](room, gang(asked))
    assert all((one == other).all() for one, other in zip(before, (room.milli, room.cpu, room.memory), strict=True))


def test_the_default_keeps_gpus_of_a_node_whose_cpu_is_gone_from_counting_as_useful():
    usefulness = Usefulness(state_with(node("n1")).room("default").layout.kinds, MIX, by_tasks=True)
    free = np.full((2, 8), 1000, dtype=np.int64)
    kind = np.zeros((2, 8), dtype=np.int16)
    rich, poor = usefulness.of(free, kind, np.array([64_000, 4_000])).tolist()
    assert poor < rich


def test_the_default_sends_a_single_to_the_smaller_machine():
    place = placer_for("default", NOTHING)
    room = state_with(node("n1", gpus=8, cpus=64), node("n2", gpus=1, cpus=64)).room("default").copy()
    assert place(room, gang(spec(gpus=1))).tasks[0].node == "n2"


def test_the_mix_covers_the_most_frequent_tasks_and_does_not_depend_on_their_order():
    tasks = [Typical(cpu_milli=1000 * k, gpus=1, milli=1000, weight=weight) for k, weight in enumerate([90, 6, 3, 1])]
    assert mix_of(tasks) == mix_of(reversed(tasks))
    assert [task.weight for task in mix_of(tasks).tasks] == [90, 6]


def test_what_a_pool_asks_for_becomes_its_mix_and_few_jobs_do_not_change_it():
    state = state_with(node("n1"))
    assert Beside(state, "default").mix == STANDARD
    world = World(node("n1"))
    world.submit(spec(gpus=1, cpus=4, tasks=3_000))
    world.submit(spec(gpus=2, cpus=4, tasks=1_000))
    mix = Beside(world.state, "default").mix
    assert [task.weight for task in mix.tasks] == [WEIGHTS_SUM * 3 // 4, WEIGHTS_SUM // 4]
    world.submit(spec(gpus=1, cpus=4, tasks=5))
    assert Beside(world.state, "default").mix == mix


def test_no_placement_is_recommended_that_is_not_there():
    assert set(GUIDE) <= set(PLACERS)
