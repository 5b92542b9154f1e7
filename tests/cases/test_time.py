"""The hour that does not exist and the hour that comes twice, and how long is long."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from tests.make import HOUR, World, group, node, spec

from gangline_core import facts as f
from gangline_core.groups import BudgetPeriod
from gangline_core.limits.calendar import Season, is_on
from gangline_core.limits.spending import spent
from gangline_wire.jobfile_order import read_moment
from gangline_wire.problem import WrongValueError

MOMENTS = {
    "2026-07-01T02:00:00+02:00": 1_782_864_000_000,
    "2026-07-01 00:00:00z": 1_782_864_000_000,
    "2026-07-01t00:00:00.25Z": 1_782_864_000_250,
    "1969-12-31T23:59:59Z": 0,
    "9999-12-31T23:59:59Z": 253_402_300_799_000,
    "9999-12-31T23:59:59-14:00": None,
    "10000-01-01T00:00:00Z": None,
    "2026-12-31T24:00:00Z": None,
    "2026-06-30T23:59:60Z": None,
    "2026-02-29T00:00:00Z": None,
    "2026-W27-3T00:00:00Z": None,
    "20260701T000000Z": None,
    "2026-07-01T00Z": None,
    "2026-07-01T00:00:00+0200": None,
    "2026-07-01T00:00:00": None,
    "2026-07-01": None,
    "\u0662026-07-01T00:00:00Z": None,
    "": None,
}


@pytest.mark.parametrize(("text", "ms"), MOMENTS.items())
def test_a_moment_is_read_by_one_grammar_and_lies_in_a_year_that_calendars_have(text: str, ms: int | None) -> None:
    if ms is None:
        with pytest.raises(WrongValueError):
            read_moment(text)
    else:
        assert read_moment(text) == ms


DAYS = {  # kelektiv/node-cron#563: the days of 2026 on which clocks change, and how long they last
    ("America/New_York", "2026-03-08"): 23,
    ("America/New_York", "2026-11-01"): 25,
    ("Europe/Berlin", "2026-03-29"): 23,
    ("Europe/Berlin", "2026-10-25"): 25,
    ("Australia/Lord_Howe", "2026-04-05"): 24.5,
    ("Europe/Berlin", "2026-06-01"): 24,
}


def midnight(zone: str, day: str, later_days: int = 0) -> int:
    year, month, number = map(int, day.split("-"))
    return int(datetime(year, month, number + later_days, tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(("zone", "day"), sorted(DAYS))
def test_a_days_use_of_eight_gpus_is_as_long_as_the_day(zone, day):
    start = midnight(zone, day)
    lab = group("lab", budget_gpu_hours=10_000, budget_period=BudgetPeriod.DAY, budget_zone=zone)
    world = World(node(), groups=[lab], at=start - 5 * HOUR)
    job = world.submit_running(spec(group="lab", gpus=8), "n1")
    world.at = start + round(DAYS[zone, day] * HOUR) - 1
    world.tell("admission", f.JobTopped(job=job, among="", by="x"))
    almost = spent(world.state, world.at + 1).of_budget("lab")
    assert almost == round(8000 * DAYS[zone, day] * HOUR)
    world.at += 1
    world.tell("admission", f.JobTopped(job=job, among="", by="x"))
    assert spent(world.state, world.at).of_budget("lab") == 0
    assert world.state.kept.renewed["lab"][0] == world.at


@pytest.mark.parametrize(("zone", "day"), sorted(DAYS))
def test_a_window_of_the_whole_local_day_covers_every_minute_of_it_and_no_other(zone, day):
    start, hours = midnight(zone, day), DAYS[zone, day]
    weekday = datetime.fromisoformat(day).weekday()
    season = Season(name="day", start_minute=0, end_minute=1440, days=(weekday,), zone=zone)
    inside = [is_on(season, start + minute * 60_000) for minute in range(round(hours * 60))]
    assert all(inside)
    assert not is_on(season, start - 1)
    assert not is_on(season, start + round(hours * HOUR))


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin"])
def test_what_begins_each_day_at_half_past_two_begins_once_on_every_day_of_the_year(zone):
    season = Season(name="x", start_minute=150, end_minute=210, zone=zone)
    at, on = midnight(zone, "2026-01-01"), []
    for _ in range(365 * 24 * 4 + 8):
        on.append(is_on(season, at))
        at += 15 * 60_000
    begins = sum(not before and after for before, after in zip([False, *on], on, strict=False))
    assert begins == 365
