"""Budgets begin anew by the calendar of their zone, and a period is charged to the millisecond whoever looks when."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import HOUR, World, group, node, spec

from gangline_core import facts as f
from gangline_core.door.draft import Draft
from gangline_core.groups import BudgetMode, BudgetPeriod
from gangline_core.limits.accounting import budget_changes, charge, next_budget_end_ms
from gangline_core.limits.budget_periods import period_end_ms, period_start_ms
from gangline_core.limits.gates import judge
from gangline_core.limits.spending import bound_cost, spent
from gangline_core.reasons import ReasonCode
from gangline_core.settings import check_group
from gangline_core.spec import ServiceClass
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms

ZONE = "Europe/Berlin"


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("day", "2026-03-29", "2026-03-30"),
        ("week", "2026-03-23", "2026-03-30"),
        ("month", "2026-03-01", "2026-04-01"),
        ("quarter", "2026-01-01", "2026-04-01"),
        ("year", "2026-01-01", "2027-01-01"),
    ],
)
def test_periods_begin_at_midnight_of_the_zone_also_when_clocks_change(period, start, end):
    lab = group("lab", budget_gpu_hours=1, budget_period=BudgetPeriod(period), budget_zone=ZONE)
    at = ms("2026-03-29T12:00", ZONE)
    assert (period_start_ms(lab, at), period_end_ms(lab, at)) == (ms(start, ZONE), ms(end, ZONE))


@given(at=st.integers(ms("2020-01-01"), ms("2040-01-01")), period=st.sampled_from(BudgetPeriod))
@settings(max_examples=200)
def test_every_moment_is_in_one_period_and_periods_follow_each_other(at, period):
    lab = group("lab", budget_gpu_hours=1, budget_period=period, budget_zone="America/New_York")
    start, end = period_start_ms(lab, at), period_end_ms(lab, at)
    assert start <= at < end
    assert period_start_ms(lab, end) == end
    assert period_end_ms(lab, start) == end


def world(mode: BudgetMode = BudgetMode.START, hours: int = 10) -> World:
    lab = group("lab", budget_gpu_hours=hours, budget_mode=mode, budget_period=BudgetPeriod.DAY)
    return World(node("n1"), groups=[lab], at=ms("2026-05-01T20:00")).set_policy(ordering="fifo")


def account(made: World) -> None:
    for fact in charge(made.state, made.at):
        made.tell("accounting", fact)


def test_what_runs_over_midnight_is_paid_by_both_days():
    made = world(hours=100)
    job = made.submit_running(spec(group="lab", gpus=2), "n1")
    made.wait(5 * 3600).finish(job)
    assert spent(made.state, made.at).of_budget("lab") == 2000 * HOUR
    assert spent(made.state, made.at).total("lab") == 10_000 * HOUR
    account(made)
    assert spent(made.state, made.at).of_budget("lab") == 2000 * HOUR


def test_a_used_up_budget_lets_start_again_in_the_next_period():
    made = world()
    job = made.submit_running(spec(group="lab", gpus=8), "n1")
    made.wait(2 * 3600).finish(job)
    account(made)
    late = made.submit(spec(group="lab", gpus=1))
    assert judge(made.state, "default", made.at).kept_out[late].code == ReasonCode.BUDGET_EXHAUSTED
    made.at = ms("2026-05-02T00:00")
    assert budget_changes(made.state, made.at) == (
        f.BudgetExhausted(group="lab", used_gpu_milli_ms=0, exhausted=False),
    )
    account(made)
    made.settle()
    assert made.job(late).state == "running"


def test_whom_a_used_up_budget_keeps_waiting_is_told_when_it_begins_anew():
    made = world()
    job = made.submit_running(spec(group="lab", gpus=8), "n1")
    made.wait(2 * 3600).finish(job)
    account(made)
    late = made.submit(spec(group="lab", gpus=1))
    made.settle()
    told = explain(made.state, late, made.at)
    assert "2026-05-02 00:00:00 UTC, when the budget of group lab begins anew" in told.start_note


def test_safe_mode_counts_only_what_the_present_period_has_paid():
    made = world(BudgetMode.SAFE)
    job = made.submit_running(spec(group="lab", gpus=8, time_limit_s=3600, grace_s=0), "n1")
    made.wait(3600).finish(job)
    big = made.submit(spec(group="lab", gpus=8, time_limit_s=3600, grace_s=0))
    made.settle()
    assert made.job(big).reason.code == ReasonCode.BUDGET_SHORT
    made.at = ms("2026-05-02T00:00")
    made.submit(spec(group="lab", gpus=0))
    made.settle()
    assert made.job(big).state == "running"
    assert bound_cost(made.state, made.at)["lab"] == 8000 * HOUR


def test_whom_a_safe_budget_is_too_small_for_today_starts_as_soon_as_it_begins_anew():
    made = world(BudgetMode.SAFE)
    job = made.submit_running(spec(group="lab", gpus=8, time_limit_s=3600, grace_s=0), "n1")
    made.wait(3600).finish(job)
    big = made.submit(spec(group="lab", gpus=8, time_limit_s=3600, grace_s=0))
    made.set_policy(starvation_s=0).settle()
    midnight_ms = ms("2026-05-02T00:00")
    assert next_wake_ms(made.state, "default", made.at) == midnight_ms
    made.at = midnight_ms
    made.round()
    assert made.job(big).state == "starting"


def test_whoever_writes_first_in_a_new_period_has_those_looked_at_who_waited_for_it():
    made = world(BudgetMode.SAFE)
    job = made.submit_running(spec(group="lab", gpus=8, time_limit_s=3600, grace_s=0), "n1")
    made.wait(3600).finish(job)
    big = made.submit(spec(group="lab", gpus=8, time_limit_s=3600, grace_s=0))
    made.settle()
    made.tell("accounting", at=ms("2026-05-02T00:00"))
    made.settle()
    assert made.job(big).state == "running"


def test_whoever_a_safe_budget_has_room_for_once_others_cost_less_than_they_could_starts_then():
    """Nothing happens: it runs on a cheap card though it would accept a dear one."""
    made = World(node("n1"), groups=[group("lab", budget_gpu_hours=5, budget_mode=BudgetMode.SAFE)])
    made.tell("admission", f.PricesSet(milli={"h100": 4_000, "a100": 1_000}, by="root"))
    made.submit_running(spec(group="lab", time_limit_s=3600, grace_s=0), "n1")
    job = made.submit(spec(group="lab", gpus=2, gpu_models=["A100"], time_limit_s=3600, grace_s=0))
    made.settle()
    assert made.reason(job) == ReasonCode.BUDGET_SHORT
    began_ms = made.at
    made.at = next_wake_ms(made.state, "default", made.at)
    made.round()
    assert made.job(job).tasks
    assert made.at - began_ms == 1_200_000


def test_those_for_whom_room_is_being_cleared_are_counted_until_a_safe_budget_has_room():
    made = World(node("n1", gpus=4), groups=[group("lab", budget_gpu_hours=7, budget_mode=BudgetMode.SAFE), group("x")])
    made.tell("admission", f.PricesSet(milli={"h100": 4_000, "a100": 1_000}, by="root"))
    made.submit_running(spec(group="lab", time_limit_s=3600, grace_s=0), ("n1", [0]))
    made.submit_running(
        spec(group="x", gpus=2, service_class=ServiceClass.OPPORTUNISTIC, grace_s=9_000), ("n1", [1, 2])
    )
    asked = {"group": "lab", "gpu_models": ["A100"], "time_limit_s": 3600, "grace_s": 0}
    first = made.submit(spec(gpus=2, **asked))
    made.settle(stops=False)
    assert first in made.state.kept.claims
    second = made.submit(spec(gpus=1, cpus=4, memory_mib=2, preempts=False, **{**asked, "time_limit_s": 7_200}))
    made.settle(stops=False)
    assert made.reason(second) == ReasonCode.BUDGET_SHORT
    began_ms = made.at
    while not made.job(second).tasks and made.at - began_ms < 3 * HOUR:
        woken = next_wake_ms(made.state, "default", made.at)
        assert woken is not None
        made.at = woken
        made.round()
    assert made.at - began_ms == 1_200_000


def test_nothing_is_lost_when_nobody_writes_for_days():
    made = world(hours=1000)
    made.submit_running(spec(group="lab", gpus=1), "n1")
    made.at = ms("2026-05-04T06:00")
    assert spent(made.state, made.at).total("lab") == 58_000 * HOUR
    made.tell("admission", f.JobTopped(job=1, among="", by="x"))
    assert spent(made.state, made.at).of_budget("lab") == 6000 * HOUR


def test_a_budget_that_gets_periods_begins_with_nothing_used_and_edits_do_not_begin_it_again():
    made = World(node("n1"), groups=[group("lab", budget_gpu_hours=10)], at=ms("2026-05-01T08:00"))
    made.submit_running(spec(group="lab", gpus=4), "n1")
    made.wait(3600)
    lab = replace(made.state.kept.groups["lab"], budget_period=BudgetPeriod.MONTH)
    made.tell("admission", f.GroupSet(group=lab, by="x"))
    assert spent(made.state, made.at).of_budget("lab") == 0
    made.wait(3600)
    made.tell("admission", f.GroupSet(group=replace(lab, weight=3), by="x"))
    assert spent(made.state, made.at).of_budget("lab") == 4000 * HOUR
    made.tell("admission", f.GroupSet(group=replace(lab, budget_period=None), by="x"))
    assert spent(made.state, made.at).of_budget("lab") == 8000 * HOUR


def test_a_restart_renews_at_the_same_moment():
    made = world()
    made.submit_running(spec(group="lab", gpus=1), "n1")
    made.state = decode_snapshot(encode_snapshot(made.state))
    made.at = ms("2026-05-02T03:00")
    made.submit(spec(group="lab", gpus=1))
    assert made.state.kept.renewed["lab"] == (ms("2026-05-02"), 4000 * HOUR)


def test_when_the_budget_ends_is_told_from_what_this_period_left():
    made = world()
    made.submit_running(spec(group="lab", gpus=1), "n1")
    made.at = ms("2026-05-02T01:00")
    made.tell("admission", f.JobTopped(job=1, among="", by="x"))
    assert next_budget_end_ms(made.state, made.at) == made.at + 9 * HOUR


def test_periods_need_a_budget_and_a_zone_that_exists():
    made = world()
    for wrong, field in (
        (group("lab", budget_period=BudgetPeriod.DAY), "budget_period"),
        (group("lab", budget_gpu_hours=1, budget_zone="Mars/Olympus"), "budget_zone"),
    ):
        problem = check_group(made.state, Draft(), wrong)
        assert problem is not None
        assert problem.field == field
