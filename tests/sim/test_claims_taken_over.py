"""A more important job takes over room that is being cleared: the oracles let that pass, and nothing like it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.make import T0, World, gpu_amount, group, node, spec

from dollhouse.oracles import BrokenOracleError, Oracles
from gangline_core.facts import Claim, RoundDecided
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId
from gangline_core.limits.calendar import Season
from gangline_core.state import State


def a_small_one_waits() -> tuple[World, JobId]:
    """An elastic job gives up a member, since a limit keeps a small one out whose room is free on another node."""
    groups = [group("lab", limit=gpu_amount(2)), group("x"), group("shop")]
    world = World(node("n1", gpus=4), node("n2", gpus=4), groups=groups)
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=3, group="x", priority=9), "n1")
    elastic = spec(tasks=2, minimum=1, maximum=2, gpus=1, group="lab", priority=2, grace_s=30)
    world.submit_running(elastic, "n2", "n2")
    small = world.submit(gpus=1, group="lab")
    world.wait(1).round()
    assert [place.node for place in world.state.kept.claims[small].placement.tasks] == ["n1"]
    return world, small


def taken_over() -> tuple[World, JobId, JobId]:
    """A large one below the same limit evicts what is left, and needs what that member counted, too."""
    world, small = a_small_one_waits()
    large = world.submit(gpus=2, group="lab", priority=3)
    world.wait(1).round()
    assert list(world.state.kept.claims) == [large]
    return world, small, large


def beside_each_other() -> tuple[World, JobId]:
    """A large one of another group evicts what is left: both keep their claims."""
    world, small = a_small_one_waits()
    large = world.submit(gpus=4, group="shop", priority=3)
    world.wait(1).round()
    assert list(world.state.kept.claims) == [small, large], "what a far victim leaves is nobody's but the large one's"
    return world, small


def look_at(world: World, change: Callable[[RoundDecided], RoundDecided] = lambda decided: decided) -> None:
    """The oracles over the world's log, its last decision changed."""
    oracles, state = Oracles(), State()
    for message in world.log:
        facts = message.facts
        if message.seq == world.log[-1].seq:
            facts = tuple(change(fact) if isinstance(fact, RoundDecided) else fact for fact in facts)
        changed: Message = replace(message, facts=facts)
        oracles.look(state, changed, apply(state, changed))


def test_a_more_important_job_gets_the_room_of_whom_another_waited_for_below_a_limit() -> None:
    """The other's own room is elsewhere, so it looked as if its claim had been dropped for nothing."""
    world, small, large = taken_over()
    look_at(world)
    world.settle()
    assert world.job(large).tasks
    assert not world.job(small).tasks, "its room is free, and all that the limit has is the large one's"
    assert world.reason(small)


def without_heir(decided: RoundDecided) -> RoundDecided:
    return replace(decided, claims=(), evictions=())


def beside_its_victims(decided: RoundDecided) -> RoundDecided:
    """The heir does not wait for whom the other waited for."""
    return replace(decided, claims=tuple(map(_elsewhere, decided.claims)))


def _elsewhere(claim: Claim) -> Claim:
    return replace(claim, victims=tuple(name for name in claim.victims if not name.endswith("-1")))


def test_a_claim_that_is_dropped_for_nobody_is_noticed() -> None:
    world, small, _ = taken_over()
    look_at(world)
    with pytest.raises(BrokenOracleError, match=f"job {small} lost the room"):
        look_at(world, without_heir)


def test_a_claim_that_is_dropped_for_one_beside_its_victims_is_noticed() -> None:
    world, small = beside_each_other()
    look_at(world, lambda decided: replace(decided, claims_dropped=(small,)))
    with pytest.raises(BrokenOracleError, match=f"job {small} lost the room"):
        look_at(world, lambda decided: beside_its_victims(replace(decided, claims_dropped=(small,))))


def test_an_equal_job_takes_nothing_over() -> None:
    world, small, large = taken_over()
    equal = replace(world.job(large).spec, priority=0)
    for k, message in enumerate(world.log):
        facts = tuple(
            replace(fact, spec=equal) if getattr(fact, "job", None) == large and hasattr(fact, "spec") else fact
            for fact in message.facts
        )
        world.log[k] = replace(message, facts=facts)
    with pytest.raises(BrokenOracleError, match=f"job {small} lost the room"):
        look_at(world)


def test_a_claim_that_is_dropped_for_nobody_is_noticed_though_its_job_gets_another_at_once() -> None:
    """The oracle took the second for the first, and missed what became of that one, and then of this one."""
    world, small, _ = taken_over()
    rounds = [fact for message in world.log for fact in message.facts if isinstance(fact, RoundDecided)]
    first = next(claim for decided in rounds for claim in decided.claims if claim.job == small)
    another = replace(first, made_ms=world.at)
    with pytest.raises(BrokenOracleError, match=f"job {small} lost the room"):
        look_at(world, lambda decided: replace(decided, claims=(another,), evictions=()))


def test_a_claim_that_does_not_fit_a_season_that_begins_is_lost_to_nobody() -> None:
    """Nobody writes anything when it does: when the room is there the claim is dropped, since other limits hold."""
    minute = T0 // 60_000 % 1440 + 2
    night = Season(name="night", start_minute=minute, end_minute=minute + 60, limit=gpu_amount(1))
    world = World(node("n1", gpus=4), groups=[group("lab", limit=gpu_amount(4), seasons=(night,)), group("x")])
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=4, group="x", grace_s=3600), "n1")
    claimant = world.submit(gpus=4, group="lab", priority=5)
    world.wait(1).round()
    assert list(world.state.kept.claims) == [claimant]
    world.wait(120).stop_all()
    world.round()
    assert not world.state.kept.claims
    look_at(world)
