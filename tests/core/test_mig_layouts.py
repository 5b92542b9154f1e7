"""Cards that are cut: by any legal slices where a node is simulated, into the slices they have where they are real."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_placement import Place
from tests.core.test_shapes_of_gangs import cut, sliced, verdict
from tests.make import World, node

from gangline_core import facts as f
from gangline_core.cluster import MigSlice
from gangline_core.placement import PLACERS
from gangline_core.reasons import ReasonCode
from gangline_core.room.mig import GEOMETRIES, best_start, geometry, how_many

SEVENTHS = {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)}
"""Start slots by compute slices of the cards with seven: NVIDIA, MIG User Guide, supported profiles (`-lgipp`)."""
LEGAL = {
    "a30-24gb": {"1g.6gb": (0, 1, 2, 3), "2g.12gb": (0, 2), "4g.24gb": (0,)},
    "a100-40gb": {"1g.5gb": 1, "1g.10gb": (0, 2, 4, 6), "2g.10gb": 2, "3g.20gb": 3, "4g.20gb": 4, "7g.40gb": 7},
    "a100-80gb": {"1g.10gb": 1, "1g.20gb": (0, 2, 4, 6), "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7},
    "h100-80gb": {"1g.10gb": 1, "1g.20gb": (0, 2, 4, 6), "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7},
    "h100-96gb": {"1g.12gb": 1, "1g.24gb": (0, 2, 4, 6), "2g.24gb": 2, "3g.48gb": 3, "4g.48gb": 4, "7g.96gb": 7},
    "h200-141gb": {"1g.18gb": 1, "1g.35gb": (0, 2, 4, 6), "2g.35gb": 2, "3g.71gb": 3, "4g.71gb": 4, "7g.141gb": 7},
}

HAS = (("1g.5gb", 0, "MIG-a"), ("1g.5gb", 1, "MIG-b"), ("2g.10gb", 2, "MIG-c"), ("3g.20gb", 4, "MIG-d"))


def real(*slices, id="n1", mig="a100-40gb", **fields):
    """A node whose first card has these slices: profile, start, and the name by which a program gets it."""
    machine = node(id, **fields)
    sizes = GEOMETRIES[mig].profiles
    found = tuple(MigSlice(profile=p, start=start, size=sizes[p].size, uuid=uuid) for p, start, uuid in slices)
    gpus = tuple(replace(gpu, mig=mig, slices=found) if gpu.index == 0 else gpu for gpu in machine.gpus)
    return replace(machine, gpus=gpus)


@pytest.mark.parametrize("name", sorted(GEOMETRIES))
def test_slices_begin_exactly_where_the_vendor_lets_them(name):
    legal = {
        profile: SEVENTHS[starts] if isinstance(starts, int) else starts for profile, starts in LEGAL[name].items()
    }
    assert {profile: one.starts for profile, one in GEOMETRIES[name].profiles.items()} == legal
    for profile, starts in legal.items():
        masks = GEOMETRIES[name].profiles[profile].masks
        for start, mask in zip(starts, masks, strict=True):
            assert mask.bit_length() <= GEOMETRIES[name].slots, "inside the card"
            assert best_start(name, profile, mask) == mask, f"{profile} at {start}"
            assert best_start(name, profile, mask & (mask - 1)) is None, "one slot less is not enough"


def test_every_card_has_its_known_mixes_and_no_other():
    def holds(name, *profiles):
        free = geometry(name).all_free
        for profile in profiles:
            mask = best_start(name, profile, free)
            if mask is None:
                return False
            free &= ~mask
        return True

    for name, one, two, half, most in (
        ("a100-40gb", "1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb"),
        ("h100-80gb", "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb"),
        ("h200-141gb", "1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb"),
    ):
        assert holds(name, most, half)
        assert holds(name, half, half)
        assert holds(name, most, two, one)
        assert holds(name, two, two, two, one)
        assert not holds(name, most, most), "the large slice begins at the first slot only"
        assert not holds(name, half, half, one), "memory slots are used up"
        assert not holds(name, two, two, two, two)


def test_a_card_with_slices_gives_these_and_no_others():
    place = Place(real(*HAS, gpus=1))
    ones = [place.seat(sliced("1g.5gb")) for _ in range(3)]
    assert [seats and seats.tasks[0].gpus[0].slots for seats in ones] == [0b1, 0b10, None]
    assert place.seat(sliced("3g.20gb")).tasks[0].gpus[0].slots == 0b11110000
    assert place.seat(sliced("2g.10gb")).tasks[0].gpus[0].slots == 0b1100
    assert place.seat(sliced("2g.10gb")) is None


@pytest.mark.parametrize("placer", sorted(set(PLACERS) - {"cells"}))
def test_every_placer_gives_only_slices_that_are_there(placer):
    machines = [real(*HAS, id="n1", gpus=2), real(("3g.20gb", 0, "MIG-x"), id="n2", gpus=2)]
    world = World(*machines).set_policy(placement=placer)
    jobs = [world.submit(sliced("3g.20gb")) for _ in range(3)]
    world.round()
    there = {("n1", 0b11110000), ("n2", 0b1111)}
    taken = [(task.node, task.gpus[0].slots) for job in jobs for task in world.tasks(job)]
    assert len(taken) == len(set(taken)) == 2
    assert set(taken) == there
    waiting = [job for job in jobs if not world.tasks(job)]
    assert [world.reason(job) for job in waiting] == [ReasonCode.INSUFFICIENT_SLICES]


def test_a_slice_that_nobody_can_be_told_to_use_is_given_to_nobody():
    place = Place(real(("3g.20gb", 0, ""), ("3g.20gb", 4, "MIG-d"), gpus=1))
    assert place.seat(sliced("3g.20gb")).tasks[0].gpus[0].slots == 0b11110000
    assert place.seat(sliced("3g.20gb")) is None


def test_a_profile_that_no_card_is_cut_into_can_never_fit_though_the_card_could_be_cut_so():
    assert "4g.20gb" in verdict(sliced("4g.20gb"), real(*HAS, gpus=1))[0]
    assert verdict(sliced("4g.20gb"), cut(gpus=1)) is None
    assert verdict(sliced("1g.5gb", tasks=3), real(*HAS, gpus=1)) is not None
    assert verdict(sliced("1g.5gb", tasks=2), real(*HAS, gpus=1)) is None


def test_a_card_that_is_cut_anew_gives_its_new_slices_when_the_old_task_is_gone():
    world = World(real(*HAS, gpus=1))
    job = world.submit(sliced("3g.20gb"))
    world.round()
    world.start(job)
    world.see(real(("4g.20gb", 0, "MIG-n"), ("3g.20gb", 4, "MIG-d"), gpus=1))
    second, third = world.submit(sliced("3g.20gb")), world.submit(sliced("4g.20gb"))
    world.round()
    assert world.reason(second) == ReasonCode.INSUFFICIENT_SLICES
    assert world.tasks(third)[0].gpus[0].slots == 0b1111
    world.start(third)
    world.finish(job)
    world.round()
    assert world.tasks(second)[0].gpus[0].slots == 0b11110000


def test_a_placement_on_a_slice_that_went_meanwhile_is_void():
    world = World(real(*HAS, gpus=1))
    job = world.submit(sliced("2g.10gb"))
    asked = world.state.kept
    room = Place(real(*HAS, gpus=1)).seat(sliced("2g.10gb")).tasks
    world.see(real(("3g.20gb", 4, "MIG-d"), gpus=1))
    placement = f.Placement(job=job, attempt=1, tasks=room, port=29_500)
    number = asked.pools["default"].rounds
    step = world.tell("placement.default", f.RoundDecided(pool="default", round=number, placements=(placement,)))
    assert step.voided == [job]


@given(st.lists(st.sampled_from(["1g.5gb", "2g.10gb", "3g.20gb", "free"]), max_size=20), st.data())
def test_whatever_comes_and_goes_on_real_slices_an_empty_card_is_whole_again(asked, data):
    name = real(*HAS).gpus[0].cut
    free, held = geometry(name).all_free, []
    for profile in asked:
        if profile == "free":
            if held:
                free |= held.pop(data.draw(st.integers(0, len(held) - 1)))
            continue
        count, mask = how_many(name, profile, free), best_start(name, profile, free)
        assert (mask is None) == (count == 0)
        if mask is not None:
            assert mask in {((1 << size) - 1) << start for start, size in ((0, 1), (1, 1), (2, 2), (4, 4))}
            free &= ~mask
            held.append(mask)
    for mask in held:
        free |= mask
    assert free == geometry(name).all_free
