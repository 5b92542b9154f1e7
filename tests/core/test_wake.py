"""A pool is looked at again when time alone has changed what a round would decide."""

import pytest
from tests.core.test_pausing import gpu_spec
from tests.make import World, gpu_amount, group, node, spec

from gangline_core.cycle import round_due
from gangline_core.reasons import ReasonCode
from gangline_core.spec import JobSpec, ServiceClass
from gangline_core.wake import SETTLES_MS, next_wake_ms


def test_when_a_date_below_a_limit_is_over_those_that_it_kept_out_are_looked_at_again():
    """What should have ended by then has not: the job has a later date, and whoever ends before that need not wait."""
    world = World(node("n1"), node("n2"), groups=[group("lab", limit=gpu_amount(8))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000, grace_s=600), "n1")
    world.submit(gpus=8, group="lab")
    world.wait(980)
    small = world.submit(gpus=2, group="lab", time_limit_s=40, grace_s=0)
    world.settle()
    assert world.reason(small) == ReasonCode.LIMIT_KEPT
    (date,) = world.state.kept.pools["default"].limit_dates
    assert next_wake_ms(world.state, "default", world.at) == date.start_ms
    world.wait((date.start_ms - world.at) / 1000).round()
    assert world.job(small).tasks


@pytest.mark.parametrize(
    ("running", "preemption", "wakes"),
    [
        (gpu_spec(), False, True),
        (spec(gpus=1, checkpoints=True), True, True),
        (spec(gpus=1, checkpoints=True), False, False),
        (spec(gpus=1, checkpoints=True, preemptible=False), True, False),
        (spec(gpus=1), True, False),
    ],
    ids=["paused", "stopped at its checkpoint", "not without preemption", "not preemptible", "would lose its work"],
)
def test_the_end_of_a_time_slice_wakes_only_where_somebody_makes_way_then(
    running: JobSpec, preemption: bool, wakes: bool
) -> None:
    world = World(node("n1", gpus=1)).set_policy(time_slice_s=60, starvation_s=0, preemption=preemption)
    job = world.submit_running(running, "n1")
    waits = world.submit(gpus=1)
    world.settle()
    assert world.job(waits).attempt == 0
    slice_ends_ms = world.job(job).started_ms + 60_000
    assert (next_wake_ms(world.state, "default", world.at) == slice_ends_ms) == wakes


@pytest.mark.parametrize("schedulers", [1, 2])
def test_when_a_group_uses_what_it_kept_to_itself_others_are_looked_at_again(schedulers: int) -> None:
    """Nothing else happens: what is used is not kept any more, so they wait for room like all others."""
    keeper = group("t/x", guaranteed=gpu_amount(2), lend_limit=gpu_amount(0))
    world = World(node("n1", gpus=4), groups=[group("t", guaranteed=gpu_amount(2)), keeper, group("t/b")])
    world.set_policy(ordering="priority", schedulers=schedulers)
    other = world.submit(gpus=3, group="t/b")
    world.settle()
    assert world.reason(other) == ReasonCode.NOT_LENT
    own = world.submit(gpus=2, group="t/x")
    world.settle()
    assert world.job(own).tasks
    assert world.reason(other) == ReasonCode.INSUFFICIENT_GPUS


@pytest.mark.parametrize("goes", ["ends by itself", "is cancelled"])
def test_who_takes_its_time_to_go_is_counted_on_by_others_without_any_other_event(goes: str) -> None:
    """Its room is enough together with that of somebody who may be sent away; nothing else would open a round."""
    world = World(node("n1", gpus=4)).set_policy(ordering="fifo", starvation_s=0)
    firm = world.submit_running(spec(gpus=2, grace_s=600), "n1")
    guest = world.submit_running(spec(gpus=2, service_class=ServiceClass.OPPORTUNISTIC), "n1")
    waits = world.wait(120).submit(gpus=4)
    world.settle()
    assert (world.state.kept.claims, world.job(guest).outcome) == ({}, None)
    world.wait(10)
    (world.cancel(firm) if goes == "is cancelled" else world.exit(*world.job(firm).tasks))
    assert not round_due(world.state, "default")
    assert next_wake_ms(world.state, "default", world.at) == world.at + SETTLES_MS
    decided = world.wait(SETTLES_MS / 1000).round()
    assert decided is not None
    assert [(gone.job, gone.beneficiary) for gone in decided.evictions] == [(guest, waits)]
    assert next_wake_ms(world.state, "default", world.at) != world.at + SETTLES_MS


def test_whom_a_round_told_to_go_opens_no_further_one() -> None:
    """That round knew it: the next look is when nobody counts on it any more."""
    world = World(node("n1", gpus=4)).set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=4, service_class=ServiceClass.OPPORTUNISTIC, grace_s=600), "n1")
    world.wait(120).submit(gpus=4)
    assert world.round()
    assert world.state.stopping_tasks
    due = next_wake_ms(world.state, "default", world.at)
    assert due is not None
    assert due > world.at + 600_000


@pytest.mark.parametrize("percent", [1, 100])
def test_nobody_looks_again_when_a_job_starves_while_those_that_did_hold_their_part(percent: int) -> None:
    world = World(node("n1", gpus=4)).set_policy(starvation_s=100, starvation_percent=percent, preemption=False)
    first = world.submit_running(spec(gpus=4), ("n1", range(4)))
    world.submit(gpus=4)
    world.wait(200).settle()
    world.finish(first)
    world.settle()
    world.submit(gpus=4)
    world.settle()
    starves_ms = world.at + 100_000
    assert (next_wake_ms(world.state, "default", world.at) == starves_ms) == (percent == 100)
