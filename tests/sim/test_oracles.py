"""The seven oracles are one checker, it sees what is wrong, and simulations of every kind pass through it."""

import pytest
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.make import World, gpu_amount, group, node, spec

from dollhouse.invariants import INVARIANTS
from dollhouse.oracles import ORACLES, BrokenOracleError, Oracles, prove, states_promised
from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.fold import apply
from gangline_core.ids import NodeId
from gangline_core.job import GpuShare
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State


def test_every_oracle_has_promises_and_every_promise_of_a_state_belongs_to_one() -> None:
    assert sorted(ORACLES) == [f"O{number}" for number in range(1, 8)]
    assert states_promised() == set(INVARIANTS)


def watched(drive: Drive) -> Oracles:
    """The oracles over a scenario that was played."""
    oracles, state = Oracles(), State()
    for message in drive.log:
        oracles.look(state, message, apply(state, message))
    oracles.close(drive.state)
    return oracles


@pytest.mark.parametrize("ordering", ["dominant_resource", "fifo", "weighted"])
def test_a_crowded_scenario_passes_through_the_oracles_under_every_ordering(ordering: str) -> None:
    groups = [group("a", guaranteed=gpu_amount(4)), group("b", guaranteed=gpu_amount(4)), group("c")]
    drive = Drive(node("n1"), node("n2", gpus=4), groups=groups, policy={"ordering": ordering})
    for k in range(16):
        drive.ask(
            3 * k,
            gpus=1 + k % 3,
            tasks=1 + k % 2,
            group="abc"[k % 3],
            run=20 + k,
            limit=200,
            stop=k % 4,
            priority=k % 5,
        )
    drive.later(50, lambda: drive.lose("n2"))
    drive.later(90, lambda: drive.see(node("n2", gpus=4)))
    drive.later(100, lambda: drive.set_group("a", guaranteed=gpu_amount(2)))
    drive.finish_all()
    assert len(watched(drive).messages) == len(drive.log)


def broken(world: World) -> str:
    with pytest.raises(BrokenOracleError) as told:
        prove(world.state)
    return str(told.value)


def test_each_kind_of_wrong_is_seen() -> None:
    world = World(node("n1"), groups=[group("q")])
    job = world.submit_running(spec(gpus=2, group="q"), "n1")
    prove(world.state)
    world.state.usage["q"]["gpu_milli"] = 1000
    assert "usage is what lives" in broken(world)
    world.state.usage["q"]["gpu_milli"] = 2000
    world.state.use[NodeId("n1")].gpu_milli[0] = 1500
    assert "capacity is never exceeded" in broken(world)
    world.state.use[NodeId("n1")].gpu_milli[0] = 1000
    known = world.job(job)
    world.state.kept.jobs[job] = replace(known, sizes={"worker": 0})
    assert "gangs are whole" in broken(world)
    world.state.kept.jobs[job] = replace(known, reason=Reason(ReasonCode.GROUP_LIMIT, {"group": "q"}))
    assert "reasons are readable" in broken(world)


def test_a_decision_that_would_not_be_made_again_is_seen() -> None:
    world = World(node("n1"))
    world.submit(spec(gpus=1))
    world.settle()
    forged = next(m for m in world.log if isinstance(m.facts[0], f.RoundDecided))
    other = replace(forged, facts=(replace(forged.facts[0], unplaced=7),))
    world.log[world.log.index(forged)] = other
    oracles = Oracles()
    oracles.messages = world.log
    with pytest.raises(BrokenOracleError, match="decided otherwise"):
        oracles.close(world.state)


def overtaken_growth() -> World:
    """A round had a job grow; before that was folded, a member of the job ended well."""
    world = World(node("n1", gpus=4))
    job = world.submit_running(spec(tasks=2, minimum=1, maximum=3, gpus=1), "n1", "n1")
    world.submit(gpus=8)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    world.tell("queue.default", opened)
    decided = cycle.decide_round(world.state, "default", world.at)
    place = f.TaskPlacement(
        role="worker",
        index=2,
        node=NodeId("n1"),
        gpus=(GpuShare(index=3, milli=1000, memory_mib=40_960),),
        cpu_milli=1000,
        memory_mib=1024,
    )
    grown = f.Growth(job=job, attempt=1, tasks=(place,))
    world.exit(world.job(job).tasks[0])
    world.tell("placement.default", replace(decided, growths=(grown,)))
    assert len(world.job(job).tasks) == 2, "nobody comes"
    return world


@pytest.mark.parametrize("knew", [False, True])
def test_nobody_has_a_job_grow_of_which_he_knows_that_a_member_has_ended_well(knew: bool) -> None:
    world = overtaken_growth()
    oracles, state = Oracles(), State()
    *before, last = world.log
    for message in before:
        oracles.look(state, message, apply(state, message))
    decided = replace(last, seen=last.seq - (1 if knew else 2))
    if not knew:
        oracles.look(state, decided, apply(state, decided))
        return
    with pytest.raises(BrokenOracleError, match="grows although a member has ended well"):
        oracles.look(state, decided, apply(state, decided))
