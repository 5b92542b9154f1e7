"""A date of room counts on those who start before it at dates below limits: nobody is told what cannot hold."""

import pytest
from tests.make import World, gpu_amount, group, node, spec

from gangline_core.ids import JobId


def behind_a_limit(**limited: int) -> tuple[World, JobId, JobId]:
    """All four GPUs come back at once; half of them are then for one that waits for its limit, and all for the next."""
    world = World(node("n1", gpus=4), groups=[group("lab", limit=gpu_amount(2))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False)
    for path in ("lab", "other"):
        world.submit_running(spec(gpus=2, group=path, time_limit_s=1_000), "n1")
    first = world.submit(spec(gpus=2, group="lab", **limited))
    last = world.submit(spec(gpus=4, group="other", time_limit_s=60))
    world.round()
    assert [date.job for date in world.state.kept.pools["default"].limit_dates] == [first]
    return world, first, last


def start_s(world: World, job: JobId) -> float:
    """In how many seconds the job's room is there."""
    (date,) = world.state.kept.pools["default"].reservations
    assert date.job == job
    return (date.start_ms - world.at) / 1000


def test_room_is_dated_behind_who_starts_then_at_its_date_below_a_limit() -> None:
    world, first, last = behind_a_limit(time_limit_s=500)
    assert start_s(world, last) == 1_500
    world.wait(1_000)
    world.finish(*(job for job in world.state.live["default"])).settle()
    assert (len(world.tasks(first)), start_s(world, last)) == (1, 500), "the date did not slip"


def test_who_is_over_before_that_date_minds_nobody() -> None:
    world, _, last = behind_a_limit(time_limit_s=500)
    world.cancel(last)
    brief = world.submit(spec(gpus=1, group="other", time_limit_s=700))
    world.finish(next(job for job in world.state.live["default"] if world.job(job).spec.group == "other")).settle()
    assert len(world.tasks(brief)) == 1, "no room is kept for who waits for a limit"


@pytest.mark.parametrize("limited", [{}, {"time_limit_s": 1}])
def test_one_of_whose_run_nobody_knows_the_length_is_not_counted_on(limited: dict[str, int]) -> None:
    world, _, last = behind_a_limit(**limited)
    assert start_s(world, last) == 1_000 + limited.get("time_limit_s", 0)
