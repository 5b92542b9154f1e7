"""A round that ends before all were looked at takes nobody's date away, neither below a limit nor of room."""

from tests.make import World, gpu_amount, group, node, spec

from gangline_core.ids import JobId
from gangline_core.reasons import ReasonCode


def crowd(depth: int = 1) -> tuple[World, JobId, list[JobId]]:
    """Two that will go first for their age, and as many GPUs as the part of such jobs is no larger than."""
    world = World(node("n1"), node("p1", pool="other"), groups=[group("lab", limit=gpu_amount(4))])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="priority", starvation_s=100, preemption=False, backfill_depth=depth)
    world.submit_running(spec(gpus=2, group="lab", time_limit_s=100_000), "n1")
    full = world.submit_running(spec(gpus=6, group="shop"), "n1")
    old = [world.submit(gpus=2, group="shop") for _ in range(2)]
    return world.wait(1), full, old


def test_no_other_pool_takes_what_is_kept_below_a_limit() -> None:
    world, full, old = crowd()
    world.submit(gpus=4, group="lab")
    world.settle()
    other = world.submit(gpus=2, group="lab", pool="other")
    world.settle("other")
    decided = world.wait(200).finish(full).round()
    assert decided is not None
    assert ([one.job for one in decided.placements], decided.unseen) == ([old[0]], 2)
    world.settle("other")
    assert world.reason(other) == ReasonCode.LIMIT_KEPT


def test_a_date_that_nobody_can_know_does_not_begin_anew() -> None:
    world, full, _ = crowd(depth=4)
    behind = world.submit(gpus=8, group="shop")
    world.settle()

    def start_ms() -> int:
        return next(one.start_ms for one in world.state.kept.pools["default"].reservations if one.job == behind)

    before = start_ms()
    world.wait(200).finish(full).settle()
    assert start_ms() == before
