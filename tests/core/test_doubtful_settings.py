"""A guarantee of more than all machines have is taken, and said to be one that nobody can keep as things are."""

from tests.make import World, gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.door.draft import Draft
from gangline_core.ids import NodeId
from gangline_core.settings import check_group
from gangline_core.settings.doubtful import doubts


def test_a_guarantee_larger_than_the_cluster_is_taken_and_doubted():
    world = World(node("n1"), node("n2"))
    wanted = group("lab", guaranteed=gpu_amount(64))
    assert check_group(world.state, Draft(), wanted) is None
    assert doubts(world.state, [wanted]) == ("group lab is guaranteed 64 GPUs, and all machines have 16 GPUs",)
    assert doubts(world.state, [group("lab", guaranteed=gpu_amount(16))]) == ()


def test_a_guarantee_by_model_is_measured_by_the_cards_of_that_model():
    world = World(node("n1", model="A100"))
    assert doubts(world.state, [group("lab", guaranteed=gpu_amount(1, "H100"))])
    assert not doubts(world.state, [group("lab", guaranteed=gpu_amount(8, "a100"))])


def test_guarantees_that_are_too_many_only_together_are_doubted_together():
    world = World(node("n1"), groups=[group("a", guaranteed=gpu_amount(6)), group("a/b", guaranteed=gpu_amount(6))])
    assert doubts(world.state, [group("c", guaranteed=gpu_amount(2))]) == ()
    (doubt,) = doubts(world.state, [group("c", guaranteed=gpu_amount(3))])
    assert doubt == "all groups together are guaranteed 9 GPUs, and all machines have 8 GPUs"


def test_nothing_is_doubted_before_there_is_any_machine():
    assert doubts(World().state, [group("lab", guaranteed=gpu_amount(64))]) == ()


def test_a_machine_that_takes_no_work_for_now_counts():
    world = World(node("n1"))
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=True, by="root"))
    assert doubts(world.state, [group("lab", guaranteed=gpu_amount(8))]) == ()
