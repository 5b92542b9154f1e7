"""The door to time."""

import asyncio

import pytest

from gangline_kit import clock as clocks
from gangline_kit.clock import ManualClock, SystemClock


class Machine:
    """A machine whose clocks the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_s = 1_000_000.0
        self.steady_s = 50.0
        monkeypatch.setattr(clocks.time, "time", lambda: self.wall_s)
        monkeypatch.setattr(clocks, "_steady_s", lambda: self.steady_s)

    def run(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("jump_s", [3600, -3600])
def test_a_wall_clock_set_by_an_hour_moves_neither_facts_nor_deadlines(machine: Machine, jump_s: int) -> None:
    """Field case N02."""
    clock = SystemClock()
    before_ms, before_s = clock.now_ms(), clock.monotonic_s()
    machine.run(2)
    machine.wall_s += jump_s
    assert clock.now_ms() - before_ms == 2000
    assert clock.monotonic_s() - before_s == 2
    assert clock.step_s() == jump_s


def test_small_corrections_are_followed(machine: Machine) -> None:
    clock = SystemClock()
    before_ms = clock.now_ms()
    machine.run(10)
    machine.wall_s += 0.5
    assert clock.now_ms() - before_ms == 10_500


def test_time_never_goes_back(machine: Machine) -> None:
    clock = SystemClock()
    before_ms = clock.now_ms()
    machine.run(0.1)
    machine.wall_s -= 0.9
    assert clock.now_ms() == before_ms
    machine.run(2)
    assert clock.now_ms() > before_ms


async def test_a_manual_clock_wakes_sleepers_in_order_and_at_their_time() -> None:
    clock = ManualClock(now_ms=1000)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now_ms()))
        await clock.sleep(1)
        woken.append((name, clock.now_ms()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 5))
        group.create_task(sleeper("early", 2))
        await asyncio.sleep(0)
        await clock.advance(1)
        assert woken == []
        await clock.advance(10)
    assert woken == [("early", 3000), ("early", 4000), ("late", 6000), ("late", 7000)]
    assert clock.now_ms() == 12_000


def test_a_clock_that_is_clearly_wrong_takes_over_the_time_of_the_bus() -> None:
    clock = SystemClock()
    right = clock.now_ms()
    assert abs(clock.agree(right - 400)) < 1
    assert abs(clock.now_ms() - right) < 300, "small differences are the network's"
    assert round(clock.agree(right - 3_600_000)) == 3600
    assert abs(clock.now_ms() - (right - 3_600_000)) < 2000
    assert round(clock.agree(right)) == -3600
    assert abs(clock.now_ms() - right) < 2000
