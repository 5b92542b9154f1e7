"""What a job's own terms do: deadlines, namesakes, edits, turns; and what keeps nodes for others."""

from typing import Any

import pytest
from tests.make import HOUR, SECOND, World, gpu_amount, group, node, spec

from gangline_core import cycle, ordering
from gangline_core import facts as f
from gangline_core.door.draft import Draft
from gangline_core.door.edits import JobEdit
from gangline_core.door.job_rights import Standing, check_edit
from gangline_core.groups import user_key
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode, sentence, utc
from gangline_core.reserving.closures import overlapping
from gangline_core.reserving.windows import Window
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms


def order(world: World) -> list[int]:
    known = world.state.kept.pools["default"]
    return [c.job for c in ordering.order(world.state, known, world.waiting(), world.at).candidates]


# --- deadlines and namesakes --------------------------------------------------------------------------------


def test_a_job_that_can_no_longer_end_in_time_ends_without_starting() -> None:
    world = World(node(gpus=1))
    world.submit_running(spec(gpus=1), "n1")
    job = world.submit(gpus=1, time_limit_s=600, deadline_ms=world.at + HOUR)
    world.settle()
    assert next_wake_ms(world.state, "default", world.at) == world.at + HOUR - 600 * SECOND + 1
    world.wait(3001).round()
    assert (world.job(job).state, world.reason(job)) == (JobState.FAILED, ReasonCode.DEADLINE)
    assert sentence(world.job(job).reason).startswith("It cannot end before its deadline 20")


def test_a_running_job_that_its_deadline_stops_says_so() -> None:
    world = World(node(gpus=1))
    job = world.submit_running(spec(gpus=1, deadline_ms=world.at + HOUR), "n1")
    world.wait(3600)
    world.exit(*[task.id for task in world.tasks(job)], code=143, cause=f.ExitCause.TIME_LIMIT)
    assert world.reason(job) == ReasonCode.DEADLINE
    assert sentence(world.job(job).reason).startswith("It was stopped at its deadline 20")


def cut_off(late_s: int = 0, **fields: Any) -> tuple[World, JobId]:
    """A job of an hour that was evicted after 40 minutes, which end 10 minutes before it must go on; these are over."""
    world = World(node("n1", gpus=1))
    asked = {"gpus": 1, "estimate_s": 3600, "deadline_ms": world.at + HOUR + (600 - late_s) * SECOND} | fields
    job = world.submit_running(spec(**asked), "n1")
    world.wait(2400).submit(gpus=1, priority=9)
    world.settle()
    world.stop_all().wait(600)
    return world, job


@pytest.mark.parametrize(
    ("fields", "late_s", "goes_on"),
    [
        ({"checkpoints": True}, 0, True),
        ({"checkpoints": True}, 1, False),
        ({"checkpoints": True, "estimate_s": 0, "time_limit_s": 3600}, 0, True),
        ({"elastic": Elastic(kind=ResizeKind.RESTART)}, 0, True),
        ({}, 0, False),
    ],
)
def test_who_goes_on_where_it_stopped_is_given_up_only_when_what_is_left_does_not_fit(
    fields: dict[str, Any], late_s: int, goes_on: bool
) -> None:
    world, job = cut_off(late_s, **fields)
    if goes_on:
        assert next_wake_ms(world.state, "default", world.at) == world.at + 1, "when its last moment is over"
    world.round()
    assert world.job(job).state == (JobState.WAITING if goes_on else JobState.FAILED)
    if goes_on:
        world.wait(1).round()
        assert (world.job(job).state, world.reason(job)) == (JobState.FAILED, ReasonCode.DEADLINE)


@pytest.mark.parametrize(("late_s", "goes_on"), [(0, True), (1, False)])
def test_who_goes_on_where_it_stopped_and_is_put_aside_is_given_up_then_as_well(late_s: int, goes_on: bool) -> None:
    world, job = cut_off(late_s, checkpoints=True)
    world.at -= 600 * SECOND
    world.tell("admission", f.HoldSet(job=job, by="ada", held=True))
    world.wait(600).round()
    assert world.job(job).state == (JobState.HELD if goes_on else JobState.FAILED)


def test_the_terms_of_who_goes_on_where_it_stopped_are_judged_by_what_is_left() -> None:
    for checkpoints, is_well in ((True, True), (False, False)):
        world, job = cut_off(checkpoints=checkpoints)
        edit, standing = JobEdit(priority=1), Standing.ADMIN
        fault = check_edit(world.state, Draft(), job=job, edit=edit, standing=standing, by="root", at=world.at)
        assert (fault is None) == is_well


def test_nobody_goes_for_who_could_no_longer_end_in_time_with_what_is_left() -> None:
    for late_s, goes in ((570, True), (571, False)):
        world, _ = cut_off(late_s, checkpoints=True, priority=5)
        world.at -= 600 * SECOND
        world.finish(next(iter(world.state.live["default"])))
        other = world.submit_running(spec(gpus=1), "n1")
        world.round()
        assert (world.job(other).state == JobState.STOPPING) == goes


def test_a_singleton_waits_for_every_earlier_namesake_of_its_user_and_for_nobody_else() -> None:
    world = World(node(gpus=8))
    first = world.submit_running(spec("train", gpus=1), "n1")
    world.submit_running(spec("train", gpus=1, user="bob"), "n1")
    second, third = (world.submit(spec("train", gpus=1, singleton=True)) for _ in range(2))
    world.settle()
    assert [world.job(job).reason.numbers["job"] for job in (second, third)] == [first, first]
    world.finish(first).settle()
    assert (world.job(second).state, world.reason(third)) == (JobState.RUNNING, ReasonCode.SINGLETON)
    world.finish(second).settle()
    assert world.job(third).state == JobState.RUNNING


# --- edits --------------------------------------------------------------------------------------------------


def test_an_edited_job_is_judged_anew_and_keeps_its_age() -> None:
    world = World(node(gpus=8))
    world.submit_running(spec(gpus=8), "n1")
    job = world.submit(gpus=1)
    world.settle()
    before = world.job(job)
    world.wait(60).tell("admission", f.JobEdited(job=job, edit=JobEdit(priority=7), by="ada"))
    after = world.job(job)
    assert (after.spec.priority, after.queued_ms, after.reason) == (7, before.queued_ms, None)


def test_a_job_that_moved_to_another_pool_is_not_placed_by_the_round_that_was_open() -> None:
    world = World(node("n1"), node("n2", pool="b"))
    job = world.submit(gpus=1)
    opened = cycle.open_round(world.state, "default", world.at)
    world.tell("queue.default", opened)
    decided = cycle.decide_round(world.state, "default", world.at)
    world.tell("admission", f.JobEdited(job=job, edit=JobEdit(pool="b"), by="ada"))
    step = world.tell("placement.default", decided)
    assert step.voided == [job]
    world.settle("b")
    assert [task.node for task in world.tasks(job)] == ["n2"]


def test_what_only_a_waiting_job_has_is_not_changed_by_an_edit_that_came_late() -> None:
    world = World(node())
    job = world.submit_running(spec(gpus=1, time_limit_s=60), "n1")
    world.tell("admission", f.JobEdited(job=job, edit=JobEdit(pool="b", priority=3), by="ada"))
    assert (world.job(job).spec.pool, world.job(job).spec.priority) == ("default", 3)


# --- turns --------------------------------------------------------------------------------------------------


def test_a_job_put_first_takes_the_first_place_of_its_fellows_and_others_stay() -> None:
    world = World(node(gpus=0))
    a1, b1, a2, b2, a3 = (world.submit(user=user) for user in ("ada", "bob", "ada", "bob", "ada"))
    assert order(world) == [a1, b1, a2, b2, a3]
    world.tell("admission", f.JobTopped(job=a3, among=user_key("", "ada"), by="ada"))
    assert order(world) == [a3, b1, a1, b2, a2]
    world.tell("admission", f.JobTopped(job=a2, among=user_key("", "ada"), by="ada"))
    assert order(world) == [a2, b1, a3, b2, a1]
    world.tell("admission", f.JobTopped(job=b2, among="", by="root"))
    assert order(world) == [b2, a2, b1, a3, a1]


def test_a_head_puts_a_job_before_those_of_the_whole_group_and_below() -> None:
    world = World(node(gpus=0), groups=[group("g"), group("g/x"), group("h")])
    low, other, mine = world.submit(group="g/x"), world.submit(group="h", user="eve"), world.submit(group="g")
    world.tell("admission", f.JobTopped(job=mine, among="g", by="hana"))
    assert order(world) == [mine, other, low]


# --- dated capacity -----------------------------------------------------------------------------------------


def window(world: World, *nodes: str, after_h: float = 1, hours: float = 1, **fields) -> Window:
    start = world.at + round(after_h * HOUR)
    one = Window("bios", "default", start, start + round(hours * HOUR), nodes=nodes, **fields)
    world.tell("admission", f.WindowSet(window=one, by="root"))
    return one


def test_nothing_starts_that_would_run_into_a_window_and_all_is_free_after_it() -> None:
    world = World(node("n1"))
    window(world)
    endless = world.submit(gpus=1)
    long, short = world.submit(gpus=1, time_limit_s=7200), world.submit(gpus=1, time_limit_s=1800)
    world.settle()
    assert [world.job(job).state for job in (endless, long, short)] == ["waiting", "waiting", "running"]
    assert world.reason(endless) == ReasonCode.WINDOW
    world.finish(short)
    ends = next_wake_ms(world.state, "default", world.at + HOUR)
    assert ends == world.at + 2 * HOUR
    world.wait(7200).round()
    world.start(endless, long)
    assert [world.job(job).state for job in (endless, long)] == ["running", "running"]


def test_a_window_on_one_node_leaves_the_others_alone() -> None:
    world = World(node("n1"), node("n2"))
    window(world, "n1")
    job = world.submit(gpus=8)
    world.settle()
    assert [task.node for task in world.tasks(job)] == ["n2"]


def test_of_several_windows_the_one_that_leaves_most_time_is_told_and_when_none_is_in_the_way() -> None:
    world = World(node("n1"), node("n2"))
    hour = 3_600_000
    world.tell(
        "admission",
        f.WindowSet(window=Window("soon", "default", world.at + 60_000, world.at + hour, nodes=("n2",)), by="admin"),
    )
    world.tell(
        "admission",
        f.WindowSet(window=Window("later", "default", world.at + 2 * hour, world.at + 3 * hour), by="admin"),
    )
    endless = world.submit(gpus=1)
    world.round()
    reason = world.job(endless).reason
    assert reason is not None
    assert (reason.code, reason.numbers["window"]) == (ReasonCode.WINDOW, "later")
    fits_s = int(reason.numbers["fits_s"])
    assert (reason.numbers["free_ms"], reason.numbers["last"]) == (world.at + 3 * hour, "later")
    brief = world.submit(gpus=1, time_limit_s=fits_s - 1)
    world.round()
    assert [task.node for task in world.tasks(brief)] == ["n1"]


def test_those_a_window_is_kept_for_use_it_and_nobody_else_does() -> None:
    world = World(node("n1"), groups=[group("g"), group("g/x")])
    window(world, after_h=0, groups=("g",), users=("eve",))
    stranger = world.submit(gpus=1, time_limit_s=60)
    own, eve = world.submit(gpus=1, group="g/x"), world.submit(gpus=1, user="eve")
    world.settle()
    assert [world.job(job).state for job in (stranger, own, eve)] == ["waiting", "running", "running"]


def test_what_runs_when_a_window_is_made_goes_on_and_is_told() -> None:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1), "n1")
    short = world.submit_running(spec(gpus=1, time_limit_s=60), "n1")
    one = window(world)
    assert overlapping(world.state, one, world.at) == [job]
    assert world.job(short).state == JobState.RUNNING


def test_a_placement_is_void_when_a_window_came_between() -> None:
    world = World(node("n1"))
    job = world.submit(gpus=1)
    world.tell("queue.default", cycle.open_round(world.state, "default", world.at))
    decided = cycle.decide_round(world.state, "default", world.at)
    window(world)
    assert world.tell("placement.default", decided).voided == [job]


# --- borrowing and lending ----------------------------------------------------------------------------------


def test_a_group_borrows_no_more_than_it_may() -> None:
    lender = group("b", guaranteed=gpu_amount(4))
    world = World(node(), groups=[group("a", guaranteed=gpu_amount(2), borrow_limit=gpu_amount(1)), lender])
    jobs = [world.submit(gpus=1, group="a") for _ in range(5)]
    world.settle()
    assert [world.job(job).state for job in jobs] == ["running"] * 3 + ["waiting"] * 2
    assert world.reason(jobs[3]) == ReasonCode.BORROW_LIMIT


def test_what_a_group_does_not_lend_stays_free_for_it() -> None:
    lender = group("b", guaranteed=gpu_amount(4), lend_limit=gpu_amount(1))
    world = World(node(), groups=[group("a"), lender])
    jobs = [world.submit(gpus=1, group="a") for _ in range(8)]
    world.settle()
    assert world.state.usage["a"]["gpu_milli"] == 5000
    assert world.reason(jobs[5]) == ReasonCode.NOT_LENT
    own = [world.submit(gpus=1, group="b") for _ in range(3)]
    world.settle()
    assert [world.job(job).state for job in own] == ["running"] * 3
    world.finish(*jobs[:1]).settle()
    assert world.state.usage["a"]["gpu_milli"] == 5000, "one came back, and three of b run on what it kept"


def test_gpu_memory_and_devices_are_dimensions_like_all_others() -> None:
    limits = {"gpu_memory_mib": 40_960, "device:rdma": 1}
    world = World(node(devices={"rdma": 4}), groups=[group("a", limit=limits)])
    one, two = world.submit(gpus=1, group="a"), world.submit(gpus=1, group="a")
    wired = world.submit(gpus=0, devices={"rdma": 1}, group="a")
    more = world.submit(gpus=0, devices={"rdma": 1}, group="a")
    world.settle()
    assert [world.job(job).state for job in (one, two, wired, more)] == ["running", "waiting", "running", "waiting"]
    assert {world.job(job).reason.numbers["dimension"] for job in (two, more)} == {"MiB of GPU memory", "rdma"}


def test_who_waits_for_a_window_or_a_namesake_is_promised_no_start_that_will_not_be() -> None:
    world = World(node("n1"))
    first = world.submit_running(spec("train", gpus=1), "n1")
    one = window(world)
    kept, alone = world.submit(gpus=1), world.submit(spec("train", gpus=1, singleton=True))
    world.settle()
    told = {job: explain(world.state, job, world.at) for job in (kept, alone)}
    assert [told[job].start_from_ms for job in told] == [None, None]
    assert utc(one.end_ms) in told[kept].start_note
    assert f"after job {first}" in told[alone].start_note


def test_a_singleton_waits_for_its_users_namesakes_of_all_groups() -> None:
    world = World(node(gpus=8), groups=[group("a"), group("b")])
    first = world.submit_running(spec("train", gpus=1, group="a"), "n1")
    second = world.submit(spec("train", gpus=1, group="b", singleton=True))
    world.settle()
    assert world.job(second).reason.numbers["job"] == first
    world.finish(first).settle()
    assert world.job(second).state == JobState.RUNNING


def test_an_edit_is_not_refused_for_what_somebody_else_had_set() -> None:
    world = World(node(), groups=[group("a", user_priority_max=10)])
    job = world.submit(spec(gpus=8, group="a", user="ada"))
    world.tell("admission", f.JobEdited(job=job, edit=JobEdit(priority=500), by="root"))

    def told(**terms):
        edit = JobEdit(**terms)
        return check_edit(world.state, Draft(), job=job, edit=edit, standing=Standing.OWNER, by="ada", at=world.at)

    assert told(level="high") is None
    unknown = told(level="nosuch")
    assert unknown is not None
    assert (unknown.field, unknown.reason.code) == ("level", ReasonCode.UNKNOWN_LEVEL)
    too_high = told(priority=400)
    assert too_high is not None
    assert too_high.field == "priority"
