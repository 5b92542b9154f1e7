"""A guarantee of GPU memory gives back what a job will count with, whatever of it the job has to name."""

from typing import Any

import pytest
from tests.make import World, group, node, role, spec

from gangline_core.limits.dues import dues_note

CARD = 81_920
H100 = {"model": "H100", "gpu_memory_mib": CARD}


def evicted(promised: dict[str, int], **asked: Any) -> tuple[list[tuple[int, str]], str]:
    """Who goes, by which rule, for the owner's job from eight GPUs that are lent; and what its owner is told."""
    world = World(node("n1", **H100), groups=[group("owner", guaranteed=promised), group("guest")])
    world.submit_running(spec(group="guest", gpus=8, cpus=64), "n1")
    job = world.submit(spec(group="owner", **asked))
    told = dues_note(world.state, world.job(job)) or ""
    return [(one.job, one.rule) for one in world.round().evictions], told


FOUR_CARDS: dict[str, dict[str, Any]] = {
    "nothing of it": {"gpus": 4},
    "a least that all cards have": {"gpus": 4, "gpu_memory_mib": 1},
    "that of other roles": {"roles": [role("train", gpus=4), role("eval", gpus=0.5, gpu_memory_mib=1_000)]},
}


@pytest.mark.parametrize("asked", FOUR_CARDS.values(), ids=FOUR_CARDS.keys())
def test_whole_cards_are_taken_back_as_far_as_all_their_memory_is_guaranteed(asked: dict[str, Any]):
    too_little = evicted({"gpu_memory_mib": 4 * CARD - 1}, **asked)
    assert too_little[0] == []
    assert "what goes beyond a guarantee is only lent" in too_little[1]
    enough = evicted({"gpu_memory_mib": 5 * CARD}, **asked)
    assert enough[0] == [(1, "reclaim")]
    assert "within its group's guarantee" in enough[1]


def test_who_asks_for_no_gpu_gets_the_cpus_back_that_are_guaranteed_beside_gpu_memory():
    went, told = evicted({"cpu_milli": 64_000, "gpu_memory_mib": CARD}, gpus=0, cpus=32)
    assert went == [(1, "reclaim")]
    assert "within its group's guarantee" in told
