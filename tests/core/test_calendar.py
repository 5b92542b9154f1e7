"""Limits by the clock: true in every zone, on the days with 23 and 25 hours, and a round opens when one changes."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import T0, World, gpu_amount, group, node

from gangline_core.job import JobState
from gangline_core.limits.calendar import Season, is_on, next_change_ms
from gangline_core.limits.quota import Ledger
from gangline_core.reasons import ReasonCode
from gangline_core.wake import next_wake_ms

ZONES = ("America/New_York", "Europe/Berlin")
SHORT_DAYS = {"America/New_York": (2026, 3, 8), "Europe/Berlin": (2026, 3, 29)}
LONG_DAYS = {"America/New_York": (2026, 11, 1), "Europe/Berlin": (2026, 10, 25)}
HOUR_MS = 3_600_000


def ms(zone: str, day: tuple[int, int, int], hour: int = 0, minute: int = 0, fold: int = 0) -> int:
    return int(datetime(*day, hour, minute, fold=fold, tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def hours_on(season: Season, begin: int, end: int) -> float:
    """Hours of the span in which the season lasts, minute by minute."""
    return sum(is_on(season, minute) for minute in range(begin, end, 60_000)) / 60


@pytest.mark.parametrize("zone", ZONES)
def test_a_season_of_the_whole_day_lasts_23_and_25_hours_when_clocks_change(zone: str) -> None:
    # kelektiv/node-cron#563: eight busy GPUs make 184 and 200 GPU-hours of such a day
    season = Season("day", 0, 1440, zone=zone, days=(6,))
    for day, hours in ((SHORT_DAYS[zone], 23), (LONG_DAYS[zone], 25)):
        begin = ms(zone, day) - 3 * HOUR_MS
        assert hours_on(season, begin, begin + 40 * HOUR_MS) == hours
        assert 8 * hours in (184, 200)


@pytest.mark.parametrize("zone", ZONES)
def test_a_start_that_does_not_exist_is_the_moment_after_the_gap(zone: str) -> None:
    season = Season("early", 150, 240, zone=zone)
    day = SHORT_DAYS[zone]
    assert not is_on(season, ms(zone, day, 1, 59))
    assert is_on(season, ms(zone, day, 3, 0))
    assert not is_on(season, ms(zone, day, 4, 0))


@pytest.mark.parametrize("zone", ZONES)
def test_a_season_over_a_time_that_comes_twice_happens_once(zone: str) -> None:
    season = Season("early", 90, 120, zone=zone)
    begin = ms(zone, LONG_DAYS[zone])
    edges, at = [], begin
    while (change := next_change_ms([season], at)) is not None and change < begin + 25 * HOUR_MS:
        edges.append(change)
        at = change
    # Its end comes twice and is meant the second time, so that the season is never cut short.
    assert len(edges) == 2
    assert edges[1] - edges[0] == 90 * 60_000


def test_a_night_goes_over_midnight_and_belongs_to_the_day_it_starts_on() -> None:
    friday = Season("night", 22 * 60, 6 * 60, days=(4,))
    night = datetime(2026, 7, 3, 22, tzinfo=UTC)  # a Friday
    assert is_on(friday, int(night.timestamp() * 1000))
    assert is_on(friday, int((night + timedelta(hours=7, minutes=59)).timestamp() * 1000))
    assert not is_on(friday, int((night + timedelta(hours=8)).timestamp() * 1000))
    assert not is_on(friday, int((night + timedelta(days=1)).timestamp() * 1000))


@given(st.integers(0, 1439), st.integers(1, 1440), st.sampled_from(["UTC", *ZONES]), st.integers(0, 366 * 24 * 60))
def test_nothing_changes_before_the_next_change(start: int, end: int, zone: str, minute: int) -> None:
    if start == end:
        return
    season = Season("x", start, end, zone=zone)
    now = ms("UTC", (2026, 1, 1)) + minute * 60_000
    change = next_change_ms([season], now)
    if change is None:
        assert (start, end) == (0, 1440)
        return
    assert change > now
    probes = range(now, change, max(60_000, (change - now) // 7))
    assert len({is_on(season, probe) for probe in probes}) == 1


def test_a_limit_of_the_night_holds_at_night_and_a_round_opens_when_it_begins() -> None:
    begins = datetime.fromtimestamp(T0 / 1000, tz=UTC) + timedelta(hours=1)
    minute = begins.hour * 60 + begins.minute
    night = Season("night", minute, (minute + 60) % 1440 or 1440, limit=gpu_amount(8))
    world = World(node(gpus=8), groups=[group("a", limit=gpu_amount(2), seasons=(night,))])
    job = world.submit(gpus=4, group="a")
    world.settle()
    assert world.reason(job) == ReasonCode.GROUP_LIMIT
    wake = next_wake_ms(world.state, "default", world.at)
    assert wake is not None
    assert 0 < wake - world.at <= HOUR_MS
    world.at = wake
    assert world.round() is not None
    assert world.job(job).state == JobState.STARTING


def test_a_limit_that_shrinks_by_the_clock_stops_nobody() -> None:
    begins = datetime.fromtimestamp(T0 / 1000, tz=UTC)
    minute = begins.hour * 60 + begins.minute
    now = Season("now", minute, (minute + 60) % 1440 or 1440, limit=gpu_amount(8))
    world = World(node(gpus=8), groups=[group("a", limit=gpu_amount(2), seasons=(now,))])
    job = world.submit(gpus=4, group="a")
    world.settle()
    world.wait(7200)
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert Ledger(world.state, world.at).fault(world.job(world.submit(group="a")), gpu_amount(1)) is not None


def test_the_zones_are_those_we_ship_whatever_the_machine_has(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    tokyo = (files("tzdata") / "zoneinfo" / "Asia" / "Tokyo").read_bytes()
    (tmp_path / "Europe" / "Berlin").write_bytes(tokyo)
    (tmp_path / "Moon").write_bytes(tokyo)
    program = (
        "from zoneinfo import ZoneInfo; ZoneInfo('Europe/Berlin')\n"
        "from gangline_core.limits.calendar import Season, is_on, zone_exists\n"
        "noon = Season(name='noon', start_minute=720, end_minute=780, zone='Europe/Berlin')\n"
        "print(is_on(noon, 1_770_030_000_000), zone_exists('Moon'), zone_exists('Europe/Berlin'))"
    )
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert told.split() == ["True", "False", "True"]
