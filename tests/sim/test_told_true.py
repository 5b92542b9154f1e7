"""The dollhouse notices when somebody who waits is told what is not so."""

import pytest
from tests.make import World, gpu_amount, group, node, spec

from dollhouse.told_true import ToldTrue
from gangline_core import facts as f
from gangline_core.fold import Message, apply
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import JobSpec
from gangline_core.state import State

NO_ROOM = Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": 2, "free": 0, "total": 4})
NO_LIMIT = Reason(ReasonCode.GROUP_LIMIT, {"group": "lab", "dimension": "GPUs", "used": 2, "limit": 3, "needed": 2})


def told(asked: JobSpec, reason: Reason) -> list[str]:
    """What is wrong when a job is told this where two of the four GPUs are free."""
    world = World(node("n1", gpus=4), groups=[group("lab", limit=gpu_amount(3))]).set_policy(starvation_s=0)
    world.submit_running(spec("first", gpus=2, group="lab"), ("n1", (0, 1)))
    job = world.submit(asked)
    opened = world.round()
    assert opened is not None
    round_ = world.state.kept.pools["default"].rounds
    state = before(world)
    refusal = f.Refusal(jobs=(job,), reason=reason)
    fact = f.RoundDecided(pool="default", round=round_, refusals=(refusal,))
    message = Message(seq=state.kept.seq + 1, lane="placement.default", epoch=1, at=world.at, facts=(fact,), raw=b"{}")
    return list(ToldTrue().faults(state, message, apply(state, message)))


def before(world: World) -> State:
    """The state just before the last decision."""
    state = State()
    for message in world.log[:-1]:
        apply(state, message)
    return state


@pytest.mark.parametrize(
    ("gpus", "tasks", "is_true"), [(2, 1, False), (1, 2, False), (3, 1, True), (1, 3, True), (0, 1, False)]
)
def test_there_is_no_room_only_where_a_plain_search_finds_none(gpus: int, tasks: int, is_true: bool) -> None:
    faults = told(spec("second", gpus=gpus, tasks=tasks), NO_ROOM)
    assert bool(faults) != is_true, faults


@pytest.mark.parametrize(("gpus", "is_true"), [(1, False), (2, True)])
def test_a_limit_keeps_out_only_what_is_beyond_it(gpus: int, is_true: bool) -> None:
    assert bool(told(spec("second", gpus=gpus, group="lab"), NO_LIMIT)) != is_true
