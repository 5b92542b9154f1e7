"""Public reports about terms of jobs at their edges: deadlines over, times of nothing, cycles, caps."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Ask, Drive
from tests.make import HOUR, T0, gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.door.arrays import lookup
from gangline_core.door.draft import Draft
from gangline_core.door.edits import JobEdit
from gangline_core.door.job_rights import Standing, check_edit
from gangline_core.groups import BudgetPeriod
from gangline_core.ids import JobId
from gangline_core.job import ENDS, JobState
from gangline_core.limits.budget_periods import period_end_ms, period_start_ms
from gangline_core.limits.calendar import Season, is_on
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.spec import ArraySpec, Dependency, DependencyKind, Elastic, ResizeKind


def elements(drive: Drive, array: Ask) -> list[Ask]:
    return [ask for job, ask in drive.asks.items() if job in drive.state.kept.jobs and drive.job(job).array == array.id]


def edit(drive: Drive, ask: Ask, **terms: Any) -> Any:
    """An administrator's edit through the door; what the door has against it."""
    wanted = JobEdit(**terms)
    problem = check_edit(
        drive.state, Draft(), job=ask.id, edit=wanted, standing=Standing.ADMIN, by="admin", at=drive.at
    )
    if problem is None:
        drive.tell("admission", f.JobEdited(job=ask.id, edit=wanted, by="admin"))
    return problem


# --- deadlines that are over (D02, E07) -------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline_s", [-1000, 0, 9.999, 10])
def test_a_deadline_that_is_over_is_refused_at_the_door_and_its_name_is_free(deadline_s: float) -> None:
    drive = Drive(node(), groups=[group("q", queued_jobs_max=1)])
    late = drive.ask(10, name="x", gpus=1, group="q", deadline_ms=T0 + round(deadline_s * 1000))
    fine = drive.ask(11, name="x", gpus=1, group="q", run=1)
    drive.until(20)
    assert late.refused is not None
    assert late.refused.code == ReasonCode.DEADLINE
    assert fine.ended == 12


@pytest.mark.parametrize(
    "state", ["waiting", "held", "suspended", "starting", "follows", "claims", "reserved", "stopping"]
)
@pytest.mark.parametrize("restart", [False, True])
def test_a_deadline_that_passes_in_any_state_ends_the_job_and_leaves_its_room_to_others(
    state: str, restart: bool
) -> None:
    drive = Drive(node(gpus=4), policy={"starvation_s": 0})
    first = drive.ask(0, gpus=4, run=500, limit=500, stop=30, priority=-1 if state == "claims" else 50)
    fields: dict[str, Any] = {"gpus": 4, "run": 1000, "stop": 10, "start": 60 if state == "starting" else 0}
    if state in ("starting", "suspended", "stopping"):
        drive.later(5, lambda: drive.drop(first))
    after = [Dependency(job=1, kind=DependencyKind.ANY)] if state == "follows" else []
    job = drive.ask(40, deadline_ms=T0 + 60_000, after=after, **fields)
    if state in ("held", "suspended"):
        drive.later(45, lambda: drive.tell("admission", f.HoldSet(job=job.id, held=True, by="ada")))
    if state == "stopping":
        drive.later(55, lambda: drive.drop(job))
    if restart:
        drive.later(50, drive.restart)
    small = drive.ask(62, gpus=1, run=10, priority=60)
    drive.until(59)
    assert drive.job(job.id).state not in ENDS
    drive.until(1500)
    # What started is stopped by its agent, whose clock this world leaves out.
    if state not in ("starting",):
        assert drive.job(job.id).state in ENDS, drive.why(job)
    if state in ("held", "suspended"):
        assert drive.job(job.id).state == JobState.CANCELLED or drive.job(job.id).state in ENDS
    if state not in ("starting",):
        assert small.ended is not None
        assert recompute(drive.state) == {}


def test_a_deadline_moved_into_the_past_or_before_the_end_is_refused_or_ends_the_job_at_once() -> None:
    drive = Drive(node(gpus=2))
    runs, waits = drive.ask(0, gpus=2, run=500, stop=5), drive.ask(1, gpus=2, run=10)
    drive.until(20)
    for ask in (runs, waits):
        problem = edit(drive, ask, deadline_ms=T0 + 1000)
        assert problem is not None or drive.job(ask.id).state in (*ENDS, JobState.STOPPING)
    drive.until(30)
    assert drive.is_running(runs) == [True]
    assert drive.is_waiting(waits) == [True]


# --- time limits shorter than the grace, and of one second (D01, D02) -------------------------------------------------


@pytest.mark.parametrize(("limit", "grace"), [(1, 600), (5, 30), (1, 0), (60, 86_400)])
def test_a_time_limit_shorter_than_the_grace_gives_the_date_that_both_allow(limit: int, grace: int) -> None:
    drive = Drive(node(gpus=4), policy={"preemption": False})
    drive.ask(0, gpus=3, run=100, limit=100, grace_s=0)
    big = drive.ask(1, gpus=4, run=50, priority=9)
    for k in range(3):
        drive.ask(2 + 10 * k, gpus=1, run=10_000, limit=limit, grace_s=grace)
    drive.until(1000)
    assert big.starts
    assert big.starts[0] <= max(100, 22 + limit + grace)
    drive.finish_all()


@pytest.mark.parametrize("terms", [
    {"estimate_s": 10_000, "limit": 10}, {"protected_s": -1, "limit": 10}, {"protected_s": 10**9},
    {"retries": 2**31 - 1, "code": 1, "run": 1}, {"grace_s": 10**6, "stop": 10}, {"start_limit_s": 1, "start": 1},
    {"not_before_ms": T0 - HOUR}, {"priority": 2**31 - 1}, {"priority": -(2**31)}, {"repair_s": 10**9},
])  # fmt: skip
def test_terms_at_their_edges_hold_up_neither_the_job_nor_those_behind_it(terms: dict[str, Any]) -> None:
    drive = Drive(node(gpus=2))
    odd = drive.ask(0, **{"gpus": 2, "run": 5, **terms})
    behind = drive.ask(1, gpus=1, run=5, priority=terms.get("priority", 0))
    drive.until(200)
    if terms.get("code"):
        drive.drop(odd)
        drive.until(210)
    assert odd.refused is not None or drive.job(odd.id).state in ENDS
    assert behind.ended is not None


# --- dependencies: cycles, numbers to come, arrays (torque#377, ROCm/spur#259) ----------------------------------------


@pytest.mark.parametrize("follows", ["itself", "the next", "its element", "element of the next", "0", "-1", "2**53"])
@pytest.mark.parametrize("kind", list(DependencyKind))
def test_a_job_that_names_a_number_to_come_is_refused_whoever_gets_it(follows: str, kind: DependencyKind) -> None:
    drive = Drive(node(), groups=[group("q")])
    ended = drive.ask(0, gpus=1, group="q", run=1)
    drive.until(5)
    own = ended.id + 1
    named = {
        "itself": (own, -1), "the next": (own + 1, -1), "its element": (own, 0), "element of the next": (own + 2, 0),
        "0": (0, -1), "-1": (-1, -1), "2**53": (2**53, -1),
    }[follows]  # fmt: skip
    array = ArraySpec(ranges=((0, 3, 1),)) if "element" in follows else None
    job = drive.ask(6, gpus=1, group="q", array=array, after=[Dependency(job=named[0], index=named[1], kind=kind)])
    drive.until(10)
    assert job.refused is not None
    assert job.refused.code == ReasonCode.UNKNOWN_DEPENDENCY
    assert drive.state.unfinished.get("q", 0) == 0


@pytest.mark.parametrize("kind", list(DependencyKind))
@pytest.mark.parametrize("ends", ["well", "one fails", "one cancelled", "all cancelled", "cap", "held", "times out"])
def test_who_follows_an_array_starts_after_its_last_element_or_never_and_says_so(
    ends: str, kind: DependencyKind
) -> None:
    drive = Drive(node(gpus=4))
    array = drive.ask(
        0, gpus=1, run=50, limit=30 if ends == "times out" else 0, hold=ends == "held",
        array=ArraySpec(ranges=((0, 5, 1),), at_most=2 if ends == "cap" else 0),
    )  # fmt: skip
    follower = drive.ask(1, gpus=4, run=5, after=[Dependency(job=1, kind=kind)])
    drive.until(10)
    match ends:
        case "one fails":
            drive.fail(elements(drive, array)[1])
        case "one cancelled":
            drive.tell("admission", f.CancelRequested(job=JobId(array.id + 6), by="ada"))
        case "all cancelled":
            drive.drop(array)
        case "held":
            assert not elements(drive, array)
            drive.tell("admission", f.HoldSet(job=array.id, held=False, by="ada"))
    drive.until(1000)
    went_well = ends in ("well", "cap", "held")
    runs = kind == DependencyKind.ANY or (kind == DependencyKind.OK) == went_well
    assert bool(follower.starts) is runs, drive.why(follower)
    if runs:
        last = max((ask.ended for ask in elements(drive, array) if ask.ended is not None), default=10)
        assert follower.starts[0] >= last
    else:
        assert drive.code(follower) == ReasonCode.DEPENDENCY_FAILED
    drive.finish_all()


# --- arrays in the middle of things (B07, slurm's array limits) -------------------------------------------------------


@pytest.mark.parametrize("act", ["cancel", "hold", "cap to one", "cap to none", "cancel twice", "close group"])
@pytest.mark.parametrize("at", [5, 15, 35])
def test_an_array_that_is_stopped_while_half_of_it_starts_leaves_no_element_behind(act: str, at: int) -> None:
    drive = Drive(node(gpus=6), groups=[group("q")])
    array = drive.ask(
        0, tasks=2, gpus=1, group="q", start=30, stop=20, run=200, array=ArraySpec(ranges=((0, 19, 1),), at_most=4)
    )
    other = drive.ask(1, gpus=6, group="q", user="bob", run=10, priority=-1)
    acts = {
        "cancel": lambda: drive.drop(array),
        "hold": lambda: drive.tell("admission", f.HoldSet(job=array.id, held=True, by="ada")),
        "cap to one": lambda: edit(drive, array, at_most=1),
        "cap to none": lambda: edit(drive, array, at_most=0),
        "cancel twice": lambda: (drive.drop(array), drive.drop(array), drive.restart()),
        "close group": lambda: drive.set_group("q", closing=True),
    }
    drive.later(at, acts[act])
    drive.until(at + 60)
    if act.startswith("cancel"):
        assert all(drive.job(ask.id).state in ENDS for ask in elements(drive, array))
        assert other.starts
        assert array.id not in drive.state.unfinished
    if act == "hold":
        assert other.starts
        drive.tell("admission", f.HoldSet(job=array.id, held=False, by="ada"))
    drive.finish_all(20_000)
    if not act.startswith("cancel"):
        done = [ask for ask in elements(drive, array) if drive.job(ask.id).state == JobState.SUCCEEDED]
        assert len(done) == 20
    assert recompute(drive.state) == {}


def test_elements_beyond_the_cap_say_that_the_cap_keeps_them_and_a_stranger_passes() -> None:
    # ROCm/spur#618: no reason was told
    drive = Drive(node(gpus=8))
    array = drive.ask(0, gpus=1, run=100, array=ArraySpec(ranges=((1, 9, 1),), at_most=2))
    other = drive.ask(1, gpus=6, run=10)
    drive.until(5)
    assert other.starts == [1]
    beyond = lookup(drive.state, JobId(array.id + 9))
    assert beyond is not None
    assert beyond.reason is not None
    assert sentence(beyond.reason).startswith("2 of at most 2 elements")
    drive.finish_all()


# --- sizes of nothing, one and most (J07, dlrover) --------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(ResizeKind))
@pytest.mark.parametrize(("minimum", "count", "maximum"), [(0, 1, 8), (1, 1, 8), (8, 8, 8), (0, 8, 8), (1, 8, 8)])
def test_sizes_of_none_one_and_all_are_reached_and_left_again(
    kind: ResizeKind, minimum: int, count: int, maximum: int
) -> None:
    drive = Drive(node(gpus=8))
    job = drive.ask(0, tasks=count, minimum=minimum, maximum=maximum, gpus=1, elastic=Elastic(kind=kind))
    for second in (50, 100, 150):
        drive.until(second)
    assert drive.job(job.id).sizes["worker"] == 8
    high = drive.ask(160, gpus=8 - max(1, minimum), priority=50, run=100) if minimum < 8 else None
    drive.until(200)
    if high is not None:
        assert drive.is_running(high) == [True]
        assert drive.job(job.id).sizes.get("worker", 0) in (max(1, minimum), minimum) or drive.evicted
    for second in range(250, 1500, 50):
        drive.until(second)
    assert drive.job(job.id).sizes["worker"] == 8
    drive.drop(job)
    drive.until(4000)
    assert recompute(drive.state) == {}


@settings(max_examples=15, deadline=None)
@given(asked=st.lists(st.tuples(st.integers(1, 40), st.sampled_from([1, 2, 4, 7, 8])), min_size=2, max_size=6))
def test_whatever_sizes_are_asked_for_while_members_come_and_go_the_last_word_holds(
    asked: list[tuple[int, int]],
) -> None:
    # dask/distributed#3892, ray-project/ray#62128: answers to an older wish came after a newer one
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), policy={"elastic_growth": False})
    job = drive.ask(0, tasks=2, minimum=1, maximum=8, gpus=1, start=12, stop=17)
    at = 20.0
    for gap, size in asked:
        at += gap
        drive.later(
            at, lambda size=size: drive.tell("admission", f.ResizeAsked(job=job.id, role="worker", size=size, by="a"))
        )
        drive.later(at + 0.5, drive.restart)
    drive.until(at + 400)
    assert drive.job(job.id).sizes == {"worker": asked[-1][1]}
    assert drive.used() == asked[-1][1]
    assert drive.job(job.id).attempt == 1
    drive.close()


# --- R: midnights that do not exist, half hours, days that were skipped (kelektiv/node-cron#563) ----------------------


ZONES = [
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Atlantic/Azores",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Pacific/Chatham",
    "Europe/Berlin",
]


@pytest.mark.parametrize("zone", ZONES)
def test_a_budget_of_a_day_begins_once_on_every_day_also_where_midnight_does_not_exist(zone: str) -> None:
    place, start = ZoneInfo(zone), datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000
    daily = group("q", budget_gpu_hours=8, budget_period=BudgetPeriod.DAY, budget_zone=zone)
    begins: list[tuple[int, int]] = []
    for hour in range(365 * 24):
        at = round(start) + hour * HOUR
        begin, end = period_start_ms(daily, at), period_end_ms(daily, at)
        assert begin <= at < end
        if not begins or begins[-1] != (begin, end):
            begins.append((begin, end))
    assert all(one[1] == two[0] for one, two in pairwise(begins)), "no moment is in none"
    days = [datetime.fromtimestamp(begin / 1000, place).date() for begin, _ in begins]
    assert all((two - one).days == 1 for one, two in pairwise(days)), "every local day once"


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("begins", [0, 10, 30, 150, 1430])
def test_a_limit_of_some_hours_is_on_once_a_day_where_clocks_change_by_any_amount(zone: str, begins: int) -> None:
    season = Season(name="x", start_minute=begins, end_minute=(begins + 45) % 1440, zone=zone, limit=gpu_amount(0))
    start = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    on = [is_on(season, start + k * 15 * 60_000) for k in range(364 * 96)]
    times = sum(1 for before, now in pairwise(on) if now and not before)
    assert 362 <= times <= 365
    assert 364 * 3 - 12 <= sum(on) <= 364 * 3 + 12, "45 minutes a day, whatever clocks do"
