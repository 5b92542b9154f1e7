"""What links carry decides which GPUs of a node a task gets."""

import pytest
from msgspec import structs
from tests.make import World, node, spec

from gangline_core.cluster import Gpu, Node
from gangline_core.placement import PLACERS
from gangline_core.room.links import best_joined, links_of

MESH = {0: (3, 1, 2), 1: (2, 0, 3), 2: (1, 3, 0), 3: (0, 2, 1)}
"""Of each card: the one it has two links to, the one it has one link to, and the one behind the processor."""


def meshed(paths: dict[int, tuple[int, int, int]] = MESH) -> Node:
    """A node of four cards, all in one island, of which each has one best partner."""
    gpus = []
    for k, (double, single, far) in paths.items():
        words = dict.fromkeys(range(4), "X") | {double: "NV2", single: "NV1", far: "SYS"}
        words[k] = "X"
        gpus.append(
            Gpu(index=k, model="V100", memory_mib=16_384, uuid=f"G{k}", paths=tuple(words[i] for i in range(4)),
                nvlink_mib_s=23_437, pcie_mib_s=15_024)
        )  # fmt: skip
    return structs.replace(node("n1"), gpus=tuple(gpus))


def test_ways_are_as_fast_as_their_links_and_unequal_ones_are_told_apart() -> None:
    links = links_of(meshed().gpus)
    assert (links[0][3], links[0][1], links[0][2]) == (46_874, 23_437, 15_024 // 4)
    assert all(links[a][b] == links[b][a] for a in range(4) for b in range(4))
    switched = tuple(
        Gpu(index=k, model="H100", memory_mib=1, paths=("NV18",) * 4, nvlink_mib_s=25_331) for k in range(4)
    )
    assert links_of(switched) == (), "where all are equal there is nothing to choose"
    assert links_of(node("n1").gpus) == ()


@pytest.mark.parametrize("placement", ["default", "best_fit", "topology"])
def test_a_pair_gets_the_two_cards_with_most_links_between_them(placement: str) -> None:
    if placement not in PLACERS:
        pytest.skip("no such placer")
    world = World(meshed()).set_policy(placement=placement)
    first, second = world.submit(spec(gpus=2)), world.submit(spec(gpus=2))
    world.settle()
    held = [{share.index for share in world.tasks(job)[0].gpus} for job in (first, second)]
    assert held == [{0, 3}, {1, 2}]


def test_the_slowest_way_counts_first_then_all_together_then_the_lowest_numbers() -> None:
    links = ((0, 5, 5, 1), (5, 0, 5, 9), (5, 5, 0, 9), (1, 9, 9, 0))
    assert best_joined([0, 1, 2, 3], links, 3) == [1, 2, 3]
    assert best_joined([0, 1, 2, 3], links, 2) == [1, 3]
    assert best_joined([0, 1, 2, 3], links, 1) == [0]
    assert best_joined([0, 1, 2], ((0, 5, 5), (5, 0, 5), (5, 5, 0)), 2) == [0, 1]


def test_among_very_many_cards_the_best_joined_are_taken_one_by_one() -> None:
    width = 32
    links = tuple(tuple(0 if a == b else 9 if a // 8 == b // 8 else 1 for b in range(width)) for a in range(width))
    assert best_joined(list(range(width)), links, 8) == list(range(8))
    assert best_joined(list(range(4, width)), links, 8) in ([8 * k + i for i in range(8)] for k in (1, 2, 3))
