"""Limits while room is being cleared: what a claim will use is kept for it, and nobody starts into what others keep."""

import pytest
from msgspec.structs import replace
from tests.make import HOUR, World, gpu_amount, group, node, spec
from tests.watched import Watched

from gangline_core.facts import HoldSet, TaskPaused, WindowSet
from gangline_core.groups import BudgetMode
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.spec import Pausing
from gangline_core.telling.explain import explain


def owner_clears_room() -> tuple[World, int]:
    """Of 12 GPUs `b` keeps 4 and uses 2; its next job needs a V100, and those are lent to `c`, which is told to go."""
    groups = [
        group("a", guaranteed=gpu_amount(6), lend_limit=gpu_amount(4)),
        group("b", guaranteed=gpu_amount(5), lend_limit=gpu_amount(1)),
        group("c"),
    ]
    world = Watched(node("n1"), node("n2", gpus=4, model="V100"), groups=groups)
    world.set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=2, group="b"), "n1")
    world.submit_running(spec(gpus=2, group="c", protected_s=-1, protected_below=100), "n1")
    world.submit_running(spec(gpus=4, group="c", grace_s=30), "n2")
    owed = world.submit(gpus=2, gpu_models=["V100"], group="b")
    world.wait(1).round()
    assert owed in world.state.kept.claims
    return world, owed


def test_until_an_owners_claim_is_settled_what_it_keeps_is_lent_to_nobody_and_rounds_end():
    """To the round it looked used already, to the fold it did not: the same start was decided and voided for ever."""
    world, owed = owner_clears_room()
    small = world.submit(gpus=1, group="c", priority=1)
    assert world.settle(stops=False) < 5
    assert not world.job(small).tasks
    assert world.reason(small) == ReasonCode.NOT_LENT
    world.settle()
    assert world.job(owed).tasks


def test_an_owner_starts_within_what_it_keeps_while_another_owners_claim_waits():
    world, _ = owner_clears_room()
    own = world.submit(gpus=2, group="a")
    world.settle(stops=False)
    assert world.job(own).tasks


@pytest.mark.parametrize("limited", ["limit", "borrow_limit"])
def test_what_one_pool_clears_below_a_limit_another_pool_does_not_give_away(limited):
    """The victims are gone, and the other pool has its round first."""
    world = Watched(node("n1", gpus=4), node("p1", pool="other"), groups=[group("lab", **{limited: gpu_amount(4)})])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=4, group="lab"), "n1")
    large = world.submit(gpus=4, group="lab", priority=1)
    world.wait(1).round()
    assert large in world.state.kept.claims
    small = world.submit(gpus=1, group="lab", pool="other")
    world.stop_all()
    world.round("other")
    world.round("default")
    assert world.job(large).tasks
    assert not world.job(small).tasks


def test_a_claim_that_one_pool_drops_is_a_reason_for_the_others_to_look_again():
    world = Watched(node("n1", gpus=4), node("p1", pool="other"), groups=[group("lab", limit=gpu_amount(4))])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="priority", starvation_s=0, backfill_depth=0)
    stuck = world.submit_running(spec(gpus=4, group="lab", grace_s=10), "n1")
    large = world.submit(gpus=4, group="lab", priority=1)
    world.wait(1).round()
    small = world.submit(gpus=1, group="lab", pool="other")
    world.stop_all()
    world.settle("other")
    assert not world.job(small).tasks, "the room below the limit is kept for the claim"
    world.see(replace(node("n1", gpus=4), cpu_milli=0))
    world.settle()
    assert large not in world.state.kept.claims
    world.settle("other")
    assert world.job(small).tasks
    assert not world.job(stuck).tasks


# --- what is told ------------------------------------------------------------------------------------------


def beside_an_owner() -> World:
    """Of 8 GPUs the owner keeps 4 and uses none; the others go to a job that only very high priority evicts."""
    owner = group("owner", guaranteed=gpu_amount(4), lend_limit=gpu_amount(0))
    world = World(node("n1"), groups=[owner, group("lab")])
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=4, group="lab", protected_s=-1, protected_below=100), "n1")
    return world


def test_what_others_do_not_lend_is_told_for_as_long_as_it_is_in_the_way():
    """The gates saw that somebody could go; the round saw that he may not. No further round is due."""
    world = beside_an_owner()
    waits = world.submit(gpus=2, group="lab", priority=1)
    world.settle()
    told = explain(world.state, waits, world.at)
    assert told.code == ReasonCode.NOT_LENT
    assert told.numbers == {"needed": 2, "dimension": "GPUs", "left": 0, "group": "owner"}
    assert told.sentence == "The job needs 2 GPUs; 0 are left beside what group owner is guaranteed and does not lend."


def test_what_an_owner_uses_himself_is_no_longer_told_as_not_lent():
    """He started in the same round, after the other had been refused."""
    world = beside_an_owner()
    waits = world.submit(gpus=2, group="lab", priority=1)
    world.submit(gpus=4, group="owner")
    world.round()
    assert world.reason(waits) == ReasonCode.NOT_LENT, "at its turn"
    assert explain(world.state, waits, world.at).code == ReasonCode.NOT_YET_CONSIDERED, "another round follows at once"
    world.settle()
    told = explain(world.state, waits, world.at)
    assert world.reason(waits) == told.code == ReasonCode.INSUFFICIENT_GPUS
    assert told.numbers["free"] == 0


def test_numbers_of_a_limit_that_a_round_found_are_those_of_now():
    world = beside_an_owner()
    waits = world.submit(gpus=6, group="lab", priority=1)
    world.submit(gpus=1, group="owner")
    world.settle()
    told = explain(world.state, waits, world.at)
    assert told.code == ReasonCode.NOT_LENT
    assert told.numbers["left"] == 0


def test_no_room_is_kept_for_whom_a_window_keeps_out_by_now():
    """It was cleared, then the nodes were closed: the start was decided once more, and voided."""
    world = Watched(node("n1")).set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=8), "n1")
    urgent = world.submit(gpus=8, priority=1)
    world.wait(1).round()
    assert urgent in world.state.kept.claims
    window = Window(name="repairs", pool="default", start_ms=world.at, end_ms=world.at + HOUR)
    world.tell("admission", WindowSet(window=window, by="root"))
    world.stop_all()
    decided = world.round()
    assert decided is not None
    assert not decided.placements
    assert urgent not in world.state.kept.claims
    assert world.reason(urgent) == ReasonCode.WINDOW


def test_what_goes_for_the_claim_of_one_pool_makes_no_room_for_another_pools_claim():
    """Below a limit of 12 both would wait for the same four to go, and one of them had its victims evicted in vain."""
    world = Watched(node("n1"), node("p1", pool="other"), groups=[group("lab", limit=gpu_amount(12)), group("others")])
    for pool in ("default", "other"):
        world.set_policy(pool, ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=4, group="lab"), "n1")
    world.submit_running(spec(gpus=4, group="lab", preemptible=False), "n1")
    world.submit_running(spec(gpus=4, group="lab", pool="other"), "p1")
    world.submit_running(spec(gpus=4, group="others", pool="other"), "p1")
    first = world.submit(gpus=4, group="lab", priority=1)
    world.wait(1).round()
    assert first in world.state.kept.claims
    second = world.submit(gpus=4, group="lab", priority=1, pool="other")
    world.round("other")
    assert second in world.state.kept.claims
    world.stop_all()
    for pool in ("other", "default"):
        decided = world.round(pool)
        assert decided is not None
        assert not decided.claims_dropped
    assert world.job(first).tasks
    assert world.job(second).tasks


def test_a_budget_of_which_a_claim_will_need_the_rest_is_told_as_long_as_it_does():
    world = World(node("n1"), groups=[group("lab", budget_gpu_hours=8, budget_mode=BudgetMode.SAFE), group("others")])
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=7, group="others", grace_s=60), "n1")
    times = {"time_limit_s": 3_600, "grace_s": 0}
    urgent = world.submit(gpus=7, group="lab", priority=1, **times)
    world.wait(1).round()
    assert urgent in world.state.kept.claims
    second = world.submit(gpus=1, group="lab", **{**times, "time_limit_s": 7_000})
    world.settle(stops=False)
    told = explain(world.state, second, world.at)
    assert told.code == ReasonCode.BUDGET_SHORT
    assert told.numbers["left"] == "1"


@pytest.mark.parametrize("limit", [{"jobs": 1}, {"memory_mib": 1500}])
def test_who_stands_still_goes_for_what_it_counts_and_rounds_end(limit: dict[str, int]):
    """It holds no GPU, but counts; the fold took it for gone already, so one claim was made and voided for ever."""
    world = Watched(node("n1", gpus=2), groups=[group("lab", limit=limit)])
    stands = world.submit_running(spec(gpus=1, group="lab", pausing=Pausing()), "n1")
    world.tell("admission", HoldSet(job=stands, held=True, by="ada", pause=True))
    world.tell("agent.sim", TaskPaused(task=world.tasks(stands)[0].id))
    assert world.job(stands).state == JobState.PAUSED
    urgent = world.submit(spec(gpus=1, group="lab", priority=5))
    assert world.settle(stops=False) < 5
    assert world.reason(urgent) == ReasonCode.WAITING_FOR_VICTIMS
    world.settle()
    assert world.job(urgent).state == JobState.RUNNING


@pytest.mark.parametrize(("limit_s", "goes"), [(1_548, False), (720, True)])
def test_whoever_goes_gives_a_budget_back_only_what_it_has_not_cost_yet(limit_s: int, goes: bool):
    """Half of the hour is spent; of what is left the first of two takes too much for the second to start as well."""
    safe = group("lab", budget_gpu_hours=1, budget_mode=BudgetMode.SAFE)
    world = Watched(node("n1", gpus=2), groups=[safe])
    runs = world.submit_running(spec(gpus=1, group="lab", time_limit_s=1_920, grace_s=0), "n1")
    world.wait(1_800)
    urgent = spec(gpus=1, group="lab", priority=5, time_limit_s=limit_s, grace_s=0)
    first, second = world.submit(urgent), world.submit(urgent)
    world.settle()
    assert world.job(first).state == JobState.RUNNING
    assert world.job(second if goes else runs).state == JobState.RUNNING
    assert world.job(runs).preemptions == goes
