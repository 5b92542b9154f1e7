"""Leaders that die, freeze, are cut off or have a wrong clock, and services that restart; after public reports."""

import random
from pathlib import Path

import pytest
from tests.cases.house import DECIDING, House, ask, house

from dollhouse.loop import live
from gangline_core import cycle
from gangline_core.facts import LeadershipTaken, RoundDecided, RoundOpened, TaskStarted
from gangline_core.fold import Message
from gangline_core.job import ENDS, JobState
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.telling.explain import queue
from gangline_kit.follower import as_message
from gangline_wire import codec
from gangline_wire.streams import LOG

FLEETS = {"one": {"n1": 8, "n2": 8}, "two": {"n3": 8, "n4": 8}}


def messages(world: House) -> list[Message]:
    """The whole log."""
    return [as_message(stored) for stored in world.server.streams[LOG.name].messages]


def prove_log(world: House) -> None:
    """No lane has two leaders at once, no round is decided twice, no task is started twice."""
    epochs: dict[str, int] = {}
    opened: set[tuple[str, int]] = set()
    decided: set[tuple[str, int]] = set()
    started: set[str] = set()
    for message in messages(world):
        assert message.epoch >= epochs.get(message.lane, 0), f"{message.lane} was written by an old leader"
        if message.epoch > epochs.get(message.lane, 0):
            assert any(isinstance(fact, LeadershipTaken) for fact in message.facts)
        epochs[message.lane] = message.epoch
        for fact in message.facts:
            match fact:
                case RoundOpened(pool=pool, round=number):
                    assert (pool, number) not in opened
                    opened.add((pool, number))
                case RoundDecided(pool=pool, round=number):
                    assert (pool, number) not in decided
                    decided.add((pool, number))
                case TaskStarted(task=task):
                    assert task not in started
                    started.add(task)
                case _:
                    pass


async def all_end(world: House, jobs: list[int], within_s: float = 2000) -> None:
    await world.until(lambda state: all(state.kept.jobs[job].state in ENDS for job in jobs), within_s)
    assert {world.state.kept.jobs[job].state for job in jobs} == {JobState.SUCCEEDED}
    await world.until(lambda state: not state.kept.tasks, 120)
    prove_log(world)


# --- a standby takes over (kubernetes-sigs/kueue#10495) -----------------------------------------------------------


def test_a_standby_that_takes_over_knows_all_that_happened_and_nothing_that_is_gone(tmp_path: Path) -> None:
    live(standby_story(tmp_path))


async def standby_story(tmp_path: Path) -> None:
    async with house(tmp_path, FLEETS, copies=2) as world:
        gone = list(await world.submit(*(ask(run=3, gpus=1, priority=k % 3) for k in range(100))))
        await all_end(world, gone)
        low = await world.submit(*(ask(run=500, gpus=8, priority=-1) for _ in range(3)))
        await world.reached(*low)
        for kind in DECIDING:
            await world.crash(kind)
        fit = list(await world.submit(*(ask(run=20, gpus=0.5) for _ in range(10))))
        await world.reached(*fit, within_s=15)
        (pushes,) = await world.submit(ask(run=20, gpus=8, priority=10))
        await world.reached(pushes, within_s=60)
        assert sum(world.state.kept.jobs[job].preemptions for job in low) == 1
        await all_end(world, [*gone, *low, *fit, pushes])


# --- clocks and frozen leaders (kubernetes/kubernetes#125761) -----------------------------------------------------


@pytest.mark.parametrize("offset_s", [3600, -3600])
def test_a_clock_that_is_set_an_hour_off_makes_no_second_leader(tmp_path: Path, offset_s: int) -> None:
    live(clock_story(tmp_path, offset_s))


async def clock_story(tmp_path: Path, offset_s: int) -> None:
    async with house(tmp_path, FLEETS, copies=2) as world:
        jobs: list[int] = []
        for step in range(6):
            for kind in ("queue", "placement", "telemetry"):
                world.set_clock(kind if step % 2 else f"{kind}-2", offset_s if step < 4 else step)
            jobs += await world.submit(*(ask(run=5, gpus=2) for _ in range(8)))
            await world.clock.sleep(7)
        await all_end(world, jobs)
        takers = [m.lane for m in messages(world) for fact in m.facts if isinstance(fact, LeadershipTaken)]
        assert len(takers) == len(set(takers)), "nobody lost a lane because of a clock"


@pytest.mark.parametrize("clock_s", [3600, -3600])
def test_a_process_that_begins_with_a_clock_an_hour_off_moves_nobodys_time(tmp_path: Path, clock_s: int) -> None:
    live(wrong_start_story(tmp_path, clock_s))


async def wrong_start_story(tmp_path: Path, clock_s: int) -> None:
    async with house(tmp_path, FLEETS) as world:
        jobs = list(await world.submit(*(ask(run=20, gpus=2) for _ in range(4))))
        for kind in (*DECIDING, "one", "two"):
            await world.crash(kind)
            world.restart(kind, clock_s=clock_s)
            jobs += await world.submit(ask(run=5, gpus=2))
            await world.clock.sleep(5)
        await all_end(world, jobs)
        await world.until(lambda state: not state.kept.uncharged, 60)
        assert abs(world.state.kept.at - world.clock.now_ms()) < 60_000
        hours = world.state.kept.charged["lab"] / 3_600_000 / 1000
        assert hours < (4 * 20 + 8 * 5) * 2 / 3600 * 1.5, "nobody pays for an hour that did not pass"


def test_a_clock_that_drifts_a_second_per_second_changes_no_leader(tmp_path: Path) -> None:
    live(drift_story(tmp_path))


async def drift_story(tmp_path: Path) -> None:
    async with house(tmp_path, FLEETS, copies=2) as world:
        jobs: list[int] = []
        for second in range(60):
            world.set_clock("queue", second)
            world.set_clock("placement-2", -second)
            await world.clock.sleep(1)
            if second % 10 == 0:
                jobs += await world.submit(ask(run=5, gpus=2))
        await all_end(world, jobs)
        takers = [m.lane for m in messages(world) for fact in m.facts if isinstance(fact, LeadershipTaken)]
        assert len(takers) == len(set(takers))


@pytest.mark.parametrize("frozen", [*DECIDING, "one"])
def test_a_leader_frozen_for_a_minute_wakes_up_and_writes_nothing_that_counts(tmp_path: Path, frozen: str) -> None:
    live(frozen_story(tmp_path, frozen))


async def frozen_story(tmp_path: Path, frozen: str) -> None:
    async with house(tmp_path, FLEETS, copies=2) as world:
        jobs = list(await world.submit(*(ask(run=4, gpus=4) for _ in range(12))))
        await world.clock.sleep(0.9)
        world.freeze(frozen)
        jobs += await world.submit(*(ask(run=4, gpus=4) for _ in range(12)))
        await world.clock.sleep(60)
        world.thaw(frozen)
        jobs += await world.submit(*(ask(run=4, gpus=4) for _ in range(12)))
        await all_end(world, jobs)


# --- what an old leader wanted is not done later (ray-project/ray#66199) ------------------------------------------


def test_starts_that_an_agent_could_not_see_are_done_once_or_never(tmp_path: Path) -> None:
    live(late_starts_story(tmp_path))


async def late_starts_story(tmp_path: Path) -> None:
    async with house(tmp_path, {"one": {"n1": 4}, "two": {"n2": 4}}, copies=2) as world:
        world.freeze("one")
        jobs = list(await world.submit(*(ask(run=30, gpus=1) for _ in range(8))))
        await world.until(lambda state: len(state.kept.tasks) == 8, 10)
        for kind in ("queue", "placement"):
            await world.crash(kind)
        # Cancelled and moved while their agent sleeps: when it wakes, its old orders are of no use to anybody.
        behind = [job for job in jobs if world.nodes_of(job) == ["n1"]]
        assert len(behind) == 4
        await world.until(lambda state: any(node.lost for node in state.kept.nodes.values()), 60)
        await world.clock.sleep(60)
        world.thaw("one")
        await all_end(world, jobs)
        assert {world.state.kept.jobs[job].attempt for job in behind} == {2}


# --- the same order after a restart (kubernetes-sigs/kueue#3984) --------------------------------------------------


def test_a_restart_of_everything_changes_neither_the_order_nor_the_next_decision(tmp_path: Path) -> None:
    live(order_story(tmp_path))


def order(state: State, now: int) -> list[int]:
    return [line.job.id for line in queue(state, "default", now)]


async def order_story(tmp_path: Path) -> None:
    async with house(tmp_path, FLEETS) as world:
        holders = await world.submit(*(ask(run=5000, gpus=8, priority=-2) for _ in range(4)))
        await world.reached(*holders)
        draw = random.Random(7)
        waiting = [(await world.submit(ask(run=50, gpus=8, priority=draw.randrange(-6, -2))))[0] for _ in range(50)]
        (pushes,) = await world.submit(ask(run=60, gpus=8, priority=5))
        await world.reached(pushes, state=JobState.SUCCEEDED, within_s=200)
        await world.clock.sleep(5)
        now = world.state.kept.at
        before = order(world.state, now)
        assert len(before) == 50
        services = list(world.processes)
        draw.shuffle(services)
        for name in services:
            await world.crash(name)
        for name in services[::-1]:
            world.restart(name)
        await world.clock.sleep(10)
        assert order(world.state, now) == before
        assert sorted(world.state.waiting["default"]) == sorted(before)
        # What is restored from a snapshot decides byte for byte what the one that was there decides.
        restored = decode_snapshot(encode_snapshot(world.state))
        opened = [codec.encode(cycle.open_round(s, "default", now)) for s in (world.state, restored)]
        assert opened[0] == opened[1]
        assert set(waiting) <= set(before) | {job for job in waiting if world.state.kept.jobs[job].attempt}


# --- anything at any time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_whatever_breaks_when_no_job_is_lost_doubled_or_left_holding_anything(tmp_path: Path, seed: int) -> None:
    live(chaos_story(tmp_path, random.Random(seed)))


async def chaos_story(tmp_path: Path, draw: random.Random) -> None:
    async with house(tmp_path, FLEETS, copies=2) as world:
        jobs: list[int] = []
        names = sorted(name for name in world.processes if name != "recorder")
        for _ in range(14):
            jobs += await world.submit(
                *(ask(run=draw.randrange(1, 30), gpus=draw.choice([0.5, 1, 2, 8]), tasks=draw.choice([1, 1, 3]))
                  for _ in range(draw.randrange(1, 6)))
            )  # fmt: skip
            await trouble(world, draw, draw.choice(names))
        for name in names:
            world.heal(name)
            world.thaw(name)
        await all_end(world, jobs, within_s=4000)
        await world.until(lambda state: not state.kept.uncharged, 60)


async def trouble(world: House, draw: random.Random, name: str) -> None:
    """One process has one kind of trouble for a while."""
    seconds = draw.choice([0.5, 2, 5, 12, 35, 50])
    match draw.choice(["crash", "cut", "swallow", "freeze", "delay"]):
        case "crash":
            await world.crash(name)
            await world.clock.sleep(seconds)
            world.restart(name)
        case "freeze":
            world.freeze(name)
            await world.clock.sleep(seconds)
            world.thaw(name)
        case "delay":
            world.delay(name, draw.uniform(0.01, 0.5))
            await world.clock.sleep(seconds)
            world.delay(name, 0)
        case quiet:
            world.cut(name, quietly=quiet == "swallow")
            await world.clock.sleep(seconds)
            world.heal(name)
    await world.clock.sleep(draw.uniform(0, 3))
