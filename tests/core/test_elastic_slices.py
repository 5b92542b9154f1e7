"""An elastic gang in slices has only sizes that are whole slices: when it starts, grows, makes room, loses members."""

import pytest
from tests.core.test_placement import RACK
from tests.make import World, node, role, spec

from gangline_core import facts as f
from gangline_core.elasticity import propose
from gangline_core.placement.gang import gang_of
from gangline_core.placement.shaped import keeps_shape
from gangline_core.spec import TopologyWish, whole_slices
from gangline_wire.jobfile import JobFileError, parse_job

IN_PAIRS = TopologyWish(slice_tasks=2, slice_level="rack")


def racks(*sizes):
    """Single-node racks of so many GPUs."""
    return [node(f"n{k}", gpus=size, labels={RACK: f"r{k}"}) for k, size in enumerate(sizes)]


def elastic(least, most, *, count=None, **fields):
    """A gang in pairs that may have any whole number of them."""
    own = role(tasks=count or most, minimum=least, maximum=most, gpus=1)
    return spec(roles=[whole_slices(own, 2)], topology=IN_PAIRS, **fields)


def size(world, job):
    return len([task for task in world.tasks(job) if not task.stop])


def is_in_shape(world, job):
    """Every two ranks that follow each other are in one rack."""
    gang = gang_of(world.job(job).spec, world.job(job).sizes, world.state.kept.pools["default"].pool)
    stay = [task for task in world.tasks(job) if not task.stop]
    return keeps_shape(world.state.room("default").layout, gang, sorted(stay, key=lambda task: task.rank))


def test_the_door_keeps_of_a_range_the_sizes_that_are_whole_slices():
    asked = {"command": ["true"], "gpus": 1, "topology": {"slices": {"tasks": 3, "level": "rack"}}}
    (own,) = parse_job({**asked, "tasks": 6, "min": 2, "max": 10}).roles
    assert (own.min_count, own.max_count, own.sizes) == (3, 9, (3, 6, 9))
    (fixed,) = parse_job({**asked, "tasks": 6, "min": 5, "max": 8}).roles
    assert (fixed.min_count, fixed.max_count, fixed.is_elastic) == (6, 6, False)


@pytest.mark.parametrize(
    "sizes", [{"tasks": 4, "min": 4, "max": 5}, {"tasks": 5, "min": 3, "max": 6}, {"tasks": 6, "sizes": [3, 5, 6]}]
)
def test_the_door_says_which_size_is_no_whole_slice(sizes):
    asked = {"command": ["true"], "gpus": 1, "topology": {"slices": {"tasks": 3, "level": "rack"}}}
    with pytest.raises(JobFileError) as told:
        parse_job({**asked, **sizes})
    assert [error.path for error in told.value.errors] == ["topology.slices.tasks"]
    assert "no whole slices" in str(told.value.errors[0].message)


@pytest.mark.parametrize(("free", "tasks"), [((3, 4), 6), ((3, 3), 4), ((1, 3), 2), ((5, 1), 4), ((1, 1), 0)])
def test_it_starts_at_the_largest_size_of_whole_slices(free, tasks):
    world = World(*racks(*free))
    job = world.submit(elastic(1, 8))
    world.round()
    assert size(world, job) == tasks


def test_it_grows_by_whole_slices_and_not_into_what_holds_half_of_one():
    world = World(*racks(4, 3))
    job = world.submit(elastic(2, 8, count=2))
    world.settle()
    proposed = propose(world.state, "default", world.at)
    world.tell("elastic.default", *proposed)
    world.settle()
    assert size(world, job) == 6
    assert is_in_shape(world, job)


@pytest.mark.parametrize(("gpus", "left"), [(1, 6), (2, 6), (3, 4), (4, 4)])
def test_it_makes_room_by_whole_slices_of_the_highest_ranks(gpus, left):
    world = World(*racks(4, 4))
    job = world.submit(elastic(2, 8))
    world.settle()
    assert size(world, job) == 8
    waiting = world.submit(spec(gpus=gpus, priority=5))
    world.settle()
    assert world.tasks(waiting)
    assert size(world, job) == left
    assert is_in_shape(world, job)
    assert sorted(task.rank for task in world.tasks(job)) == list(range(left))


def test_whoever_loses_a_member_goes_on_with_its_whole_slices():
    world = World(*(node(f"n{k}", gpus=1, labels={RACK: f"r{k // 2}"}) for k in range(6)))
    job = world.submit(elastic(2, 6))
    world.settle()
    lost = next(task for task in world.tasks(job) if task.rank == 2)
    world.tell("telemetry", f.NodeLost(node=lost.node, silent_ms=30_000))
    stay = sorted(task.rank for task in world.tasks(job) if not task.stop and task.id != lost.id)
    assert stay == [0, 1, 4, 5]
    world.settle()
    assert size(world, job) == 4
    assert is_in_shape(world, job)
