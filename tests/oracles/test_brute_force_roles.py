"""Brute force on tiny clusters for gangs of several roles: whoever places, what can be seated is, what cannot waits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.oracles.enumerated import fits, keeps
from tests.oracles.scenes import Scene, scenes, tight_scenes

from gangline_core.cluster import Pool
from gangline_core.door.never_fits import never_fits
from gangline_core.placement import PLACERS
from gangline_core.placement.gang import gang_of
from gangline_core.placement.why_not import why_not
from gangline_core.reasons import sentence
from gangline_core.room.inventory import Inventory

ONE_SOCKET_ONLY = ("numa_balanced", "numa_least", "numa_most")
"""They refuse tasks that no single socket holds, whatever there is beside: that is their policy."""
EXAMPLES = 8
SCENES = {
    "whole GPUs and CPUs": {"kinds": ("cpu",), "levels": ("",)},
    "shares": {"kinds": ("cpu", "share", "memory"), "levels": ("",)},
    "slices of cut cards": {"kinds": ("cpu", "share", "mig"), "levels": ("",)},
    "models": {"kinds": ("models", "cpu", "share", "memory"), "levels": ("",)},
    "required levels": {
        "kinds": ("cpu", "share", "models"),
        "levels": ("nvlink", "socket", "node", "rack", "block"),
    },
    "spread": {"kinds": ("cpu", "spread", "one"), "levels": ("", "", "rack", "node")},
    "slices": {"kinds": ("cpu", "slices", "one"), "levels": ("", "", "socket", "rack")},
    "two sockets": {"kinds": ("cpu", "slices", "one"), "levels": ("", "socket", "nvlink"), "sockets": 2},
    "roles in zones, nodes excluded": {"kinds": ("where", "cpu", "share"), "levels": ("", "", "rack")},
    "network cards, devices, taints, drains and sick cards": {
        "kinds": ("rest", "cpu", "share", "mig"),
        "levels": ("", "", "switch", "node", "rack"),
    },
    "slices below switches, models and all the rest": {
        "kinds": ("rest", "slices", "models", "one"),
        "levels": ("", "", "switch", "rack"),
    },
    "everything at once": {
        "kinds": ("rest", "cpu", "share", "memory", "mig", "models", "slices", "spread", "where", "one"),
        "levels": ("", "", "", "socket", "node", "rack", "block"),
    },
    "slices, spread and models": {
        "kinds": ("slices", "spread", "models", "share", "one"),
        "levels": ("", "block"),
    },
}


@pytest.mark.parametrize("kind", sorted(SCENES))
def test_a_gang_of_roles_is_seated_exactly_when_some_way_to_seat_it_exists(kind):
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(scenes(**SCENES[kind]) | tight_scenes(**SCENES[kind]))
    def check(scene: Scene) -> None:
        expected = fits(scene.machines, scene.asks, scene.shape)
        asked = scene.spec()
        gang = gang_of(asked, {role.name: role.count for role in asked.roles}, Pool(name="default"))
        room = scene.room()
        for name, placer in sorted(PLACERS.items()):
            if SCENES[kind].get("sockets") and name in ONE_SOCKET_ONLY:
                continue
            before = (room.milli.copy(), room.cpu.copy())
            seats = placer(room, gang)
            assert (seats is not None) == expected, name
            assert (room.milli == before[0]).all()
            assert (room.cpu == before[1]).all()
            if seats is not None:
                after = room.copy()
                for task in seats.tasks:
                    after.take(task)
                # A card that is used in part and fell sick has less than nothing before anybody is seated.
                assert (after.milli >= np.minimum(before[0], 0)).all(), name
                assert (after.gpu_memory >= np.minimum(room.gpu_memory, 0)).all(), name
                assert (after.cpu >= 0).all(), name
                assert (after.places >= 0).all(), name
                assert after.slots is None or (after.slots >= np.minimum(room.slots, 0)).all(), name
                spots = [(int(t.role[1:]), (int(t.node[1:]), tuple(g.index for g in t.gpus), 0)) for t in seats.tasks]
                assert keeps(scene.machines, scene.asks, scene.shape, spots), name

    check()


@pytest.mark.parametrize("kind", sorted(SCENES))
def test_a_gang_that_no_empty_cluster_could_hold_is_refused_at_the_door_and_no_other(kind):
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(scenes(**SCENES[kind]) | tight_scenes(**SCENES[kind]))
    def check(scene: Scene) -> None:
        empty = scene.emptied()
        verdict = never_fits(Inventory(empty.nodes), Pool(name="default"), empty.spec())
        expected = fits(empty.machines, empty.asks, empty.shape)
        open_zones = {one.zone for one in empty.machines if not one.is_excluded}
        if not open_zones or any(ask.zone and ask.zone not in open_zones for ask in empty.asks):
            # A machine may get the label yet.
            assert verdict is None or not expected
            return
        assert (verdict is None) == expected, verdict
        if verdict is not None:
            assert "?" not in sentence(verdict[0])

    check()


@pytest.mark.parametrize("kind", sorted(SCENES))
def test_a_reason_never_says_that_there_is_enough(kind):
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(scenes(**SCENES[kind]) | tight_scenes(**SCENES[kind]))
    def check(scene: Scene) -> None:
        if fits(scene.machines, scene.asks, scene.shape):
            return
        asked = scene.spec()
        gang = gang_of(asked, {role.name: role.count for role in asked.roles}, Pool(name="default"))
        numbers = why_not(scene.room(), gang).numbers
        told = sentence(why_not(scene.room(), gang))
        assert "?" not in told
        assert "steps" not in numbers
        if "free_on_one_node" in numbers:
            numbers = {**numbers, "free": numbers["free_on_one_node"]}
        if isinstance(numbers.get("needed"), int) and isinstance(numbers.get("free"), int) and "held" not in numbers:
            assert numbers["free"] < numbers["needed"], told
        if "held" in numbers:
            assert numbers["held"] < numbers["tasks"], told

    check()


LADDER = ("nvlink", "socket", "node", "rack", "block", "")
CLOSE_TOGETHER = ("bisection", "buddy", "cells", "default", "topology")
"""Placers that promise every gang of several tasks the smallest level that holds it."""
NEAR = {"kinds": ("cpu", "share", "memory"), "levels": ("",)}


def smallest(scene: Scene) -> str | None:
    """The smallest level of which some domain holds the gang; None when not even the pool does."""
    able = [level for level in LADDER if fits(scene.machines, scene.asks, scene.shape._replace(required=level))]
    return able[0] if able else None


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(scenes(**NEAR) | tight_scenes(**NEAR))
def test_a_gang_of_roles_takes_the_smallest_level_that_holds_it(scene):
    best = smallest(scene)
    asked = scene.spec()
    gang = gang_of(asked, {role.name: role.count for role in asked.roles}, Pool(name="default"))
    for name in CLOSE_TOGETHER:
        seats = PLACERS[name](scene.room(), gang)
        assert (seats is not None) == (best is not None), name
        if seats is not None:
            level = "socket" if seats.level == "switch" else seats.level
            # Without GPUs there is nothing closer than one node.
            least = "node" if not any(task.gpus for task in seats.tasks) else "nvlink"
            assert LADDER.index(level) == max(LADDER.index(best), LADDER.index(least)), name


@settings(max_examples=EXAMPLES, deadline=None)
@given(scenes(**NEAR) | tight_scenes(**NEAR), st.sampled_from(LADDER[:-1]))
def test_a_preferred_level_is_left_only_when_it_cannot_hold_the_roles(scene, preferred):
    can = fits(scene.machines, scene.asks, scene.shape._replace(required=preferred))
    asked = scene.spec()
    asked = replace(asked, topology=replace(asked.topology, preferred=preferred))
    gang = gang_of(asked, {role.name: role.count for role in asked.roles}, Pool(name="default"))
    for name, placer in sorted(PLACERS.items()):
        seats = placer(scene.room(), gang) if can else None
        if can:
            assert seats is not None, name
            level = "socket" if seats.level == "switch" else seats.level
            least = "node" if not any(task.gpus for task in seats.tasks) else preferred
            assert LADDER.index(level) <= max(LADDER.index(preferred), LADDER.index(least)), name
