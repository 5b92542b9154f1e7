"""What a round gave and took back again is counted below limits as if it had never been given."""

from tests.make import World, gpu_amount, group, node, spec

from gangline_core.ids import JobId
from gangline_core.limits.dates import LimitDates
from gangline_core.reasons import ReasonCode
from gangline_core.table import Table

ONE = gpu_amount(1) | {"jobs": 1}


def dated(left: int) -> tuple[World, Table, LimitDates, list[JobId]]:
    """A job waits below a limit for its group's running one, and leaves `left` GPUs of the limit to others."""
    world = World(node("n1", gpus=8), groups=[group("lab", limit=gpu_amount(4 + left))])
    world.set_policy(ordering="fifo")
    world.submit_running(spec(group="lab", gpus=4, time_limit_s=3600), "n1")
    waits = world.submit(group="lab", gpus=4)
    others = [world.submit(group="lab", gpus=1) for _ in range(3)]
    table = Table(world.state, "default", world.at)
    dates = LimitDates(table)
    dates.consider(world.job(waits))
    assert [one.job for one in table.limit_dates] == [waits]
    return world, table, dates, others


def test_what_was_given_up_is_there_for_others_beside_a_dated_job() -> None:
    world, table, dates, (first, second, third) = dated(left=1)
    table.count(world.job(first), ONE)
    refused = dates.fault(world.job(second), ONE)
    assert refused is not None
    assert refused.code == ReasonCode.LIMIT_KEPT
    table.give_up([(world.job(first), ONE)])
    assert dates.fault(world.job(second), ONE) is None
    table.count(world.job(second), ONE)
    assert dates.fault(world.job(third), ONE) is not None


def test_who_was_given_up_and_goes_on_after_all_is_counted_once() -> None:
    world, table, dates, (first, second, third) = dated(left=3)
    for job in (first, second):
        table.count(world.job(job), ONE)
    before = table.taken.copy()
    assert dates.fault(world.job(third), ONE) is None
    table.give_up([(world.job(first), ONE)])
    assert dates.fault(world.job(third), ONE) is None
    table.count(world.job(first), ONE)
    assert dates.fault(world.job(third), ONE) is None
    table.taken[:] = before
    assert dates.fault(world.job(third), ONE) is None, "one of three is left"
    assert dates.fault(world.job(third), {name: 2 * amount for name, amount in ONE.items()}) is not None
