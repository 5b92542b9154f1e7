"""What is refused at a look is what would have been refused after a long one, to the byte of the log."""

from random import Random

import pytest
from tests.make import World, group, node, spec

from gangline_core.job import JobState
from gangline_core.making_room import preemption
from gangline_core.refusing.crowd import Crowd
from gangline_core.spec import ServiceClass

POLICIES = {
    "dates": {"ordering": "fifo", "preemption": False, "backfill_depth": 1},
    "many dates": {"ordering": "fifo", "preemption": False, "backfill_depth": 3},
    "dates, and who is stronger evicts": {"ordering": "fifo", "backfill_depth": 1},
    "many dates, and who is stronger evicts": {"ordering": "priority", "backfill_depth": 3},
    "a formula, and who checkpoints makes way": {"ordering": "weighted", "backfill_depth": 1, "yield_after_gpu_s": 300},
    "service": {
        "ordering": "least_attained",
        "service_thresholds": (600,),
        "backfill_depth": 0,
        "oldest_preempts": True,
    },
    "service, who sinks goes last": {
        "ordering": "least_attained",
        "service_thresholds": (300, 900),
        "backfill_depth": 0,
        "sinks_last": True,
    },
}


def sort(dice: Random) -> dict[str, object]:
    """How important a job is, mostly as important as all others, and whether it goes on where it stopped."""
    return {
        "priority": dice.choice([0, 0, 0, 0, 1]),
        "service_class": dice.choice([*3 * [ServiceClass.BURSTABLE], ServiceClass.OPPORTUNISTIC]),
        "checkpoints": dice.random() < 0.3,
        "estimate_s": dice.choice([0, 200, 2_000]),
    }


def day(seed: int, *, forgets: bool = False, **policy: object) -> World:
    """Fifty events of a crowded pool; with `forgets`, nothing is remembered of who stands where by service."""
    dice = Random(seed)
    groups = [group("lab", limit={"gpu_milli": 9_000} if seed % 3 == 0 else {}), group("shop")]
    world = World(node("n1", gpus=8), node("n2", gpus=4), groups=groups).set_policy(starvation_s=0, **policy)
    for _ in range(50):
        if dice.random() < 0.7:
            limit_s = dice.choice([0, 100, 1_000, 10_000]) if policy["backfill_depth"] else 0
            own: dict[str, object] = {
                "group": dice.choice(["lab", "shop"]),
                "user": dice.choice(["ada", "bob", "eve"]),
            }
            if policy.get("preemption", True) and policy["backfill_depth"]:
                own |= sort(dice)
            world.submit(spec(gpus=dice.choice([1, 2, 4, 8]), time_limit_s=limit_s, **own))
        elif running := world.in_state(JobState.RUNNING):
            world.finish(dice.choice(running))
        if forgets:
            world.state.live_index.by_service.clear()
        world.settle()
        world.wait(dice.randrange(120))
    return world


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_whoever_is_refused_at_a_look_would_be_refused_after_a_long_one(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = day(seed, **POLICIES[name])
    assert any(job.reason for job in short.waiting()), "a day on which nobody waits shows nothing"
    monkeypatch.setattr(Crowd, "_is_open", lambda self: False)
    monkeypatch.setattr(preemption, "is_short", lambda *_: False)
    long = day(seed, forgets=True, **POLICIES[name])
    assert [message.raw for message in short.log] == [message.raw for message in long.log]
