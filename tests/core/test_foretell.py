"""What a dry run foretells is what then happens, as long as nothing else does."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import HOUR, T0, World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.cluster import LevelRule, Pool
from gangline_core.foresight.foretell import foretell
from gangline_core.foresight.turn import LAID_OUT_MAX
from gangline_core.groups import BudgetMode
from gangline_core.job import JobState
from gangline_core.limits.budgets import GPU_HOUR
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.reserving.windows import Window
from gangline_core.spec import ServiceClass


def test_a_job_with_room_would_start_now_on_the_nodes_named_at_the_cost_of_its_limit() -> None:
    world = World(node("n1"), node("n2", gpus=2))
    told = foretell(world.state, spec(gpus=4, time_limit_s=3600, grace_s=0), world.at)
    assert (told.has_room, told.reason, told.nodes, told.nodes_suitable) == (True, None, ("n1",), 2)
    assert (told.start.from_ms, told.start.to_ms, told.start.confidence) == (world.at, world.at, "high")
    assert told.cost == 4 * GPU_HOUR
    assert (told.position, told.waiting) == (1, 1)


def test_without_a_time_limit_nobody_says_what_it_costs() -> None:
    assert foretell(World(node()).state, spec(gpus=1), 1_000).cost == -1


def test_it_says_what_is_missing_and_when_it_comes_back() -> None:
    world = World(node("n1"))
    world.submit_running(spec(gpus=8, time_limit_s=600), "n1")
    told = foretell(world.state, spec(gpus=2, time_limit_s=60), world.at)
    assert told.reason is not None
    assert not told.has_room
    assert told.start.to_ms == world.at + 600_000
    assert told.nodes == ("n1",)


def test_every_limit_and_guarantee_above_it_is_shown_as_it_would_stand() -> None:
    world = World(node("n1"))
    world.tell("admission", f.GroupSet(group=group("a", limit=gpu_amount(4), guaranteed=gpu_amount(2)), by="root"))
    world.submit_running(spec(gpus=3, group="a", time_limit_s=600), "n1")
    told = foretell(world.state, spec(gpus=2, group="a", time_limit_s=60), world.at)
    (effect,) = told.effects
    assert (effect.holder, effect.dimension, effect.used, effect.needed) == ("a", "gpu_milli", 3000, 2000)
    assert (effect.limit, effect.guaranteed) == (4000, 2000)
    assert told.reason is not None
    assert told.reason.code == ReasonCode.GROUP_LIMIT
    assert told.start.to_ms == world.at + 600_000


def test_limits_of_a_model_are_shown_for_a_job_that_names_none_and_would_go_there() -> None:
    limits = {**gpu_amount(6, "A100"), "gpu_memory_mib": 8 * 40_960}
    world = World(node("n1"), groups=[group("a", limit=limits)])
    world.submit_running(spec(gpus=3, group="a", time_limit_s=600), "n1")
    effects = foretell(world.state, spec(gpus=2, group="a", time_limit_s=60), world.at).effects
    assert [(one.dimension, one.used, one.needed, one.limit) for one in effects] == [
        ("gpu_memory_mib", 3 * 40_960, 2 * 40_960, 8 * 40_960),
        ("gpu_milli:a100", 3_000, 2_000, 6_000),
    ]


def test_what_is_being_cleared_for_others_counts_below_a_limit_and_comes_back_after_them() -> None:
    world = World(node("n1"))
    world.tell("admission", f.GroupSet(group=group("q"), by="root"))
    world.tell("admission", f.GroupSet(group=group("q/x", limit=gpu_amount(5)), by="root"))
    loose = spec(gpus=8, group="q", service_class=ServiceClass.OPPORTUNISTIC, grace_s=60, time_limit_s=9_000)
    world.submit_running(loose, "n1")
    heir = world.submit(spec(gpus=4, group="q/x", time_limit_s=600))
    world.round()
    assert heir in world.state.kept.claims
    told = foretell(world.state, spec(gpus=4, group="q/x", time_limit_s=60), world.at)
    assert told.reason is not None
    assert told.reason.code == ReasonCode.GROUP_LIMIT
    assert not told.has_room
    assert told.start.to_ms is not None
    assert told.start.to_ms >= world.at + 600_000
    assert foretell(world.state, spec(gpus=1, group="q/x", time_limit_s=60), world.at).start.note


def test_what_is_held_or_follows_a_job_has_no_expected_start() -> None:
    world = World(node("n1"))
    first = world.submit_running(spec(gpus=1), "n1")
    for asked in (spec(gpus=1, hold=True), spec(gpus=1, after=[first])):
        told = foretell(world.state, asked, world.at)
        assert told.start.from_ms is None
        assert told.start.note


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 8), max_size=4), st.integers(1, 10))
def test_what_would_start_now_starts_in_the_next_round_when_nobody_is_before_it(running: list[int], asks: int) -> None:
    world = World(node("n1"), node("n2"))
    for gpus in running:
        world.submit(spec(gpus=gpus))
    world.round()
    for name in world.waiting():
        world.cancel(name.id)
    before = world.state.kept.seq
    told = foretell(world.state, spec(gpus=asks), world.at)
    assert world.state.kept.seq == before
    job = world.submit(spec(gpus=asks))
    world.round()
    assert (world.job(job).state == JobState.STARTING) == told.has_room


def test_a_window_in_the_way_is_told_as_the_job_is_told_when_it_waits() -> None:
    world = World(node("n1"))
    kept = Window(name="bios", pool="default", start_ms=world.at + 60_000, end_ms=world.at + HOUR, why="new BIOS")
    world.tell("admission", f.WindowSet(window=kept, by="root"))
    told = foretell(world.state, spec(gpus=1), world.at)
    assert told.reason is not None
    assert (told.reason.code, told.has_room, told.nodes_suitable) == (ReasonCode.WINDOW, False, 1)
    assert told.start.from_ms is None
    assert "when bios is over" in told.start.note
    job = world.submit(gpus=1)
    world.round()
    assert world.job(job).reason == told.reason


# --- what a round would do -----------------------------------------------------------------------------------


def one_reserved() -> World:
    """Of 8 GPUs 4 are in use for 1,000 s more, and a job of 8 has a date then."""
    world = World(node()).set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    world.submit(gpus=8)
    world.round()
    return world


def test_idle_room_that_is_reserved_for_another_is_not_told_as_room():
    told = foretell(one_reserved().state, spec(gpus=2, time_limit_s=2_000), T0)
    assert not told.has_room
    assert told.reason is not None
    assert told.reason.code == ReasonCode.RESERVED


def test_who_ends_before_the_date_is_told_that_it_starts_at_once():
    world = one_reserved()
    told = foretell(world.state, spec(gpus=2, time_limit_s=500), world.at)
    assert told.has_room
    assert told.reason is None
    assert (told.start.from_ms, told.start.to_ms) == (world.at, world.at)
    brief = world.submit(gpus=2, time_limit_s=500)
    world.round()
    assert world.job(brief).tasks


def test_what_is_kept_below_a_limit_is_told():
    world = World(node("n1"), node("n2"), groups=[group("lab", limit=gpu_amount(8))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000), "n1")
    world.submit(gpus=8, group="lab")
    world.round()
    told = foretell(world.state, spec(gpus=2, group="lab", time_limit_s=2_000), world.at)
    assert told.reason is not None
    assert told.reason.code == ReasonCode.LIMIT_KEPT
    assert foretell(world.state, spec(gpus=2, group="lab", time_limit_s=900), world.at).has_room


def test_who_would_make_way_is_told_and_nobody_does_for_a_dry_run():
    world = World(node()).set_policy(ordering="priority", starvation_s=0)
    for _ in range(2):
        world.submit_running(spec(gpus=4, grace_s=20), "n1")
    told = foretell(world.state, spec(gpus=6, priority=1), world.at)
    assert "2 running jobs would make way for it" in told.start.note
    assert told.start.from_ms == world.at
    assert told.start.to_ms is not None
    assert told.start.to_ms < world.at + 30_000
    assert not world.state.stopping_tasks
    assert not world.state.kept.claims


def test_who_stands_behind_the_head_of_a_strict_level_is_told_so():
    levels = {"strict": LevelRule(strict=True)}
    world = World(node()).set_policy(ordering="fifo", starvation_s=0, backfill_depth=0, levels=levels)
    world.tell("admission", f.PoolSet(pool=Pool(name="default", levels={"strict": 0}), by="a"))
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    world.submit(gpus=8, level="strict")
    world.round()
    told = foretell(world.state, spec(gpus=2, level="strict"), world.at)
    assert told.reason is not None
    assert told.reason.code == ReasonCode.BEHIND_HEAD


def test_budgets_above_it_are_shown_with_the_most_that_it_can_cost() -> None:
    groups = [group("lab", budget_gpu_hours=10, budget_mode=BudgetMode.SAFE), group("lab/x", budget_gpu_hours=6)]
    world = World(node(), groups=groups)
    world.submit_running(spec(gpus=1, group="lab/x", time_limit_s=2 * 3600, grace_s=0), "n1")
    world.wait(3600)
    told = foretell(world.state, spec(gpus=2, group="lab/x", time_limit_s=3600, grace_s=0), world.at)
    effects = [(one.holder, one.used, one.needed, one.limit) for one in told.effects if one.dimension == "budget"]
    hours = [(holder, *(amount // GPU_HOUR for amount in amounts)) for holder, *amounts in effects]
    assert hours == [("lab/x", 1, 2, 6), ("lab", 2, 2, 10)], "in `safe` mode what runs counts to its end"
    assert not any(one.dimension == "budget" for one in foretell(world.state, spec(group="lab/x"), world.at).effects)


# --- those before it ------------------------------------------------------------------------------------------


def test_room_that_one_before_it_will_have_is_not_told_as_room():
    """It came just now, and no round has looked at it yet."""
    world = World(node("n1")).set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=4), "n1")
    world.submit(gpus=4)
    told = foretell(world.state, spec(gpus=4, time_limit_s=60), world.at)
    assert not told.has_room
    assert told.reason is not None
    assert told.reason.code == ReasonCode.INSUFFICIENT_GPUS


def test_whom_one_before_it_will_have_evicted_is_not_told_as_making_way_for_it():
    world = World(node("n1", gpus=4)).set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=4, service_class=ServiceClass.OPPORTUNISTIC), "n1")
    world.submit(gpus=4)
    told = foretell(world.state, spec(gpus=4, time_limit_s=60), world.at)
    assert "make way" not in told.start.note
    world.cancel(world.waiting()[0].id)
    assert "make way" in foretell(world.state, spec(gpus=4, time_limit_s=60), world.at).start.note


def test_of_very_many_before_it_those_with_dates_are_always_thought_of():
    world = World(node("n1")).set_policy(ordering="fifo", starvation_s=0, backfill_depth=1)
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    for gpus in range(LAID_OUT_MAX + 2):
        world.submit(gpus=8, cpus=1 + gpus)
    world.round()
    assert not foretell(world.state, spec(gpus=2, time_limit_s=2_000), world.at).has_room
    assert foretell(world.state, spec(gpus=2, time_limit_s=500), world.at).has_room


def test_nodes_without_cards_of_its_kind_are_none_that_it_may_go_to() -> None:
    world = World(node("cards"), node("cpus", gpus=0), node("others", model="L4"), node("away"))
    world.tell("admission", f.DrainSet(node="away", drained=True, by="admin"))
    told = foretell(world.state, spec(gpus=1, gpu_models=["a100"]), world.at)
    assert (told.nodes, told.nodes_suitable) == (("cards",), 1)
    assert foretell(world.state, spec(gpus=0), world.at).nodes_suitable == 3


def test_where_all_suitable_nodes_take_no_work_the_dry_run_says_so_and_blames_no_other_job() -> None:
    world = World(node("n1"), node("cpus", gpus=0))
    world.tell("telemetry", f.NodeLost(node="n1", silent_ms=1))
    told = foretell(world.state, spec(gpus=8), world.at)
    assert told.reason is not None
    assert sentence(told.reason) == (
        "Needs 8 GPUs; at its turn 0 of 0 suitable ones were free: no node that takes work has any."
    )
    assert told.nodes == ()
    assert told.start.note == (
        "Nobody can tell: 1 node of the pool takes no work now, and without it there may never be enough."
    )


def test_a_job_that_would_come_behind_one_that_was_put_first_is_told_its_place() -> None:
    world = World(node("n1"))
    world.submit_running(spec(gpus=8, time_limit_s=600), "n1")
    world.submit(spec(gpus=8))
    last = world.submit(spec(gpus=8))
    world.tell("admission", f.JobTopped(job=last, among="", by="root"))
    told = foretell(world.state, spec(gpus=8, priority=9), world.at)
    assert (told.position, told.waiting) == (2, 3)
    assert foretell(world.state, spec(gpus=8), world.at).position == 3


def test_below_a_limit_of_gpu_memory_it_says_when_there_will_be_room_for_the_whole_card() -> None:
    world = World(node("n1"), groups=[group("lab", limit={"gpu_memory_mib": 40_960})])
    world.submit_running(spec(gpus=1, group="lab", time_limit_s=600), "n1")
    told = foretell(world.state, spec(gpus=1, group="lab", time_limit_s=60), world.at)
    assert told.reason is not None
    assert told.reason.code == ReasonCode.GROUP_LIMIT
    assert told.start.to_ms == world.at + 600_000
