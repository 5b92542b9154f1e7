"""Whoever is refused because an equal job was refused is equal to it in all that decides."""

import pytest
from tests.make import HOUR, SECOND, T0, World, group, node, spec

from gangline_core import facts as f
from gangline_core.groups import BudgetMode
from gangline_core.reasons import ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.spec import ServiceClass

LOOSE = {"service_class": ServiceClass.OPPORTUNISTIC}


def started(world: World) -> list[int]:
    """Who starts in a round held now."""
    decided = world.round()
    assert decided is not None
    return [placement.job for placement in decided.placements]


def test_who_lets_others_be_speaks_for_nobody_who_makes_room_below_a_limit() -> None:
    world = World(node("n1"), groups=[group("lab", limit={"gpu_milli": 2000})]).set_policy(backfill_depth=0)
    world.submit_running(spec(gpus=2, group="lab"), "n1")
    world.submit(gpus=2, group="lab", priority=5, preempts=False)
    other = world.submit(gpus=2, group="lab", priority=5)
    decided = world.round()
    assert decided is not None
    assert [claim.job for claim in decided.claims] == [other]


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ({}, {"deadline_ms": T0 + 500 * SECOND}),
        ({"deadline_ms": T0 + 5000 * SECOND}, {"deadline_ms": T0 + 500 * SECOND}),
        ({"time_limit_s": 900, "grace_s": 600}, {"time_limit_s": 900, "grace_s": 1}),
    ],
    ids=["deadline", "later deadline", "grace"],
)
def test_who_runs_into_dated_capacity_speaks_for_nobody_who_ends_before_it(
    long: dict[str, int], short: dict[str, int]
) -> None:
    world = World(node("n1"))
    window = Window(name="m", pool="default", start_ms=T0 + 1000 * SECOND, end_ms=T0 + 2000 * SECOND)
    world.tell("admission", f.WindowSet(window=window, by="admin"))
    late = world.submit(gpus=2, **long)
    early = world.submit(gpus=2, **short)
    assert started(world) == [early]
    assert world.reason(late) == ReasonCode.WINDOW


def test_who_is_expected_to_outlast_a_date_speaks_for_nobody_who_is_not() -> None:
    world = World(node("n1", gpus=2), node("n2", gpus=2))
    for name, run_s in (("short", 10), ("long", 100_000)):
        for _ in range(6):
            job = world.submit_running(spec(name, gpus=1), "n1")
            world.wait(run_s).finish(job)
    world.submit_running(spec("held", gpus=2, time_limit_s=50_000), "n1")
    world.submit(gpus=2, tasks=2, user="bob", time_limit_s=100)
    world.submit(spec("long", gpus=1))
    short = world.submit(spec("short", gpus=1))
    assert started(world) == [short]


@pytest.mark.parametrize("fields", [LOOSE, {"group": "lab"}], ids=["of room", "of a limit"])
def test_whose_estimate_outlasts_a_date_speaks_for_nobody_whose_does_not(fields: dict[str, str]) -> None:
    world = World(node("n1", gpus=2), node("n2", gpus=2), groups=[group("lab", limit={"gpu_milli": 3000})])
    world.submit_running(spec("held", gpus=2, time_limit_s=50_000, group="lab"), "n1")
    world.submit(gpus=1, tasks=3 if "group" in fields else 4, user="bob", time_limit_s=100, **fields)
    world.submit(gpus=1, estimate_s=1_000_000, **fields)
    short = world.submit(gpus=1, estimate_s=100, **fields)
    assert started(world) == [short]


def test_who_outlasts_two_dates_speaks_for_nobody_who_outlasts_one() -> None:
    world = World(node("n1", gpus=2), node("n2", gpus=2, model="V100"))
    for name, model, limit_s in (("n1", "A100", 1000), ("n2", "V100", 5000)):
        world.submit_running(spec(gpus=1, time_limit_s=limit_s), name)
        world.submit(gpus=2, gpu_models=(model,), time_limit_s=limit_s, **LOOSE)
    world.submit(gpus=1, time_limit_s=10_000, **LOOSE)
    between = world.submit(gpus=1, time_limit_s=3000, **LOOSE)
    assert started(world) == [between]


def test_whose_time_a_budget_is_too_small_for_speaks_for_nobody_shorter() -> None:
    world = World(node("n1"), groups=[group("lab", budget_gpu_hours=10, budget_mode=BudgetMode.SAFE)])
    hour_s = HOUR // SECOND
    first, long, short = (world.submit(gpus=1, group="lab", time_limit_s=hours * hour_s) for hours in (5, 8, 1))
    assert started(world) == [first, short]
    assert world.reason(long) == ReasonCode.BUDGET_SHORT


def test_whose_end_a_budget_is_too_small_for_speaks_for_nobody_who_ends_sooner() -> None:
    world = World(node("n1"), groups=[group("lab", budget_gpu_hours=1, budget_mode=BudgetMode.SAFE)])
    slow, quick = (world.submit(gpus=1, group="lab", time_limit_s=3500, grace_s=grace_s) for grace_s in (600, 10))
    assert started(world) == [quick]
    assert world.reason(slow) == ReasonCode.BUDGET_SHORT


def test_who_is_above_a_limit_is_told_so_whoever_asked_for_the_same_room_in_vain() -> None:
    world = World(node("n1", gpus=1), groups=[group("lab", limit={"gpu_milli": 1000})])
    world.set_policy(ordering="fifo", backfill_depth=0)
    world.submit(gpus=1, group="lab")
    world.submit(gpus=1, group="shop")
    second = world.submit(gpus=1, group="lab")
    assert len(started(world)) == 1
    assert world.reason(second) == ReasonCode.GROUP_LIMIT


def test_who_gets_a_date_of_room_keeps_its_limit_from_its_equals_where_several_have_dates() -> None:
    """The equal would wait for the limit, so it takes no date of room."""
    world = World(node("n1", gpus=4), groups=[group("lab", limit={"gpu_milli": 2000})]).set_policy(backfill_depth=4)
    own = world.submit_running(spec(gpus=2, group="lab", time_limit_s=100), "n1")
    world.submit_running(spec(gpus=2, group="shop", time_limit_s=300), "n1")
    first, second = (world.submit(gpus=2, group="lab", time_limit_s=900) for _ in range(2))
    world.round()
    world.submit(gpus=2, group="shop", time_limit_s=500, priority=5)
    decided = world.finish(own).round()
    assert decided is not None
    assert world.reason(second) == ReasonCode.LIMIT_KEPT
    assert [date.job for date in decided.reservations] == [first]
