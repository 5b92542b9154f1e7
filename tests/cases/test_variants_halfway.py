"""Public reports in which somebody changes something while an act is half done: quotas, terms, policies, machines."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.cases.drive import Ask, Drive
from tests.make import T0, gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.cluster import LevelRule
from gangline_core.door.edits import JobEdit
from gangline_core.groups import User
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.reserving.windows import Window


def owed(path: str, gpus: float, **fields: Any) -> Any:
    return group(path, guaranteed=gpu_amount(gpus), **fields)


def edit(drive: Drive, ask: Ask, **terms: Any) -> None:
    drive.tell("admission", f.JobEdited(job=ask.id, edit=JobEdit(**terms), by="admin"))


def hold(drive: Drive, ask: Ask, *, held: bool = True) -> None:
    drive.tell("admission", f.HoldSet(job=ask.id, held=held, by="admin"))


def circles(drive: Drive) -> set[tuple[int, int]]:
    """Pairs of which each had to go for the other."""
    pairs = {(eviction.victim, eviction.beneficiary) for eviction in drive.evicted}
    return {pair for pair in pairs if pair[::-1] in pairs}


# --- A, B: a quota is changed while a gang starts (apache/yunikorn-core#1068, volcano-sh/volcano#3517) ----------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("change", ["limit", "above", "user", "zero", "job limit", "running jobs"])
def test_a_gang_that_starts_while_its_limit_falls_below_it_starts_whole_and_nobody_follows(
    change: str, restart: bool
) -> None:
    drive = Drive(node(), groups=[group("top"), group("top/q")], users=[User(name="ada", group="top/q")])
    gang = drive.ask(0, tasks=4, gpus=1, group="top/q", start=30, run=100)
    acts: dict[str, Callable[[], object]] = {
        "limit": lambda: drive.set_group("top/q", limit=gpu_amount(2)),
        "above": lambda: drive.set_group("top", limit=gpu_amount(2)),
        "user": lambda: drive.tell(
            "admission", f.UserSet(user=User(name="ada", group="top/q", limit=gpu_amount(2)), by="admin")
        ),
        "zero": lambda: drive.set_group("top/q", limit=gpu_amount(0)),
        "job limit": lambda: drive.set_group("top/q", job_limit=gpu_amount(2), limit=gpu_amount(1)),
        "running jobs": lambda: drive.set_group("top", limit={"jobs": 0}),
    }
    drive.later(10, acts[change])
    if restart:
        drive.later(11, drive.restart)
    late = drive.ask(9, gpus=1, group="top/q", not_before_ms=T0 + 12_000)
    drive.until(29)
    assert (drive.used("top"), drive.is_waiting(late)) == (4, [True])
    drive.until(31)
    assert (gang.starts, drive.used("top/q"), drive.evicted) == ([30], 4, [])
    drive.until(200)
    assert gang.ended == 130
    # What is still cut to nothing keeps everybody out; what was cut to two lets one in when the gang is gone.
    assert bool(late.starts) is (change not in ("zero", "running jobs"))


# --- C, E: guarantees change hands while victims stop (kubernetes-sigs/kueue#13662) -----------------------------------


@pytest.mark.parametrize("when", [11, 20, 39])
@pytest.mark.parametrize("stop", [(5, 30), (30, 5), (30, 30)])
def test_a_guarantee_that_changes_hands_while_victims_stop_evicts_nobody_in_a_circle(
    stop: tuple[int, int], when: int
) -> None:
    drive = Drive(node(gpus=8), groups=[owed("a", 4), owed("b", 0), group("c")])
    one, two = (drive.ask(0, gpus=2, group="b", stop=s) for s in stop)
    drive.asks_of(4, 0, gpus=1, group="c", stop=3)
    owner = drive.ask(10, tasks=4, gpus=1, group="a", run=300)
    drive.later(when, lambda: drive.set_group("a", guaranteed=gpu_amount(0)))
    drive.later(when, lambda: drive.set_group("b", guaranteed=gpu_amount(4)))
    drive.finish_all(4000)
    assert circles(drive) == set()
    assert owner.ended is not None
    assert all(drive.is_running(one, two)), "what b is owed now, it has in the end"


@pytest.mark.parametrize("first", [2, 20, 60])
def test_a_victim_that_stops_early_does_not_come_back_before_its_slower_fellow_is_gone(first: int) -> None:
    # kubernetes-sigs/kueue#13662: each alone is within its group's guarantee, and only one of lower rank reclaims
    groups = [owed("low", 4), owed("high", 2), group("high/x")]
    drive = Drive(node("n1", gpus=2), node("n2", gpus=2), groups=groups)
    victims = [drive.ask(0, gpus=2, group="high/x", priority=50, stop=s) for s in (first, 62 - first)]
    drive.until(5)
    gang = drive.ask(10, tasks=2, gpus=2, group="low", run=100)
    drive.finish_all(5000)
    assert len(drive.evicted) <= 2
    assert circles(drive) == set()
    assert gang.ended is not None or all(drive.is_running(*victims)), "somebody works"


# --- E: the one for whom victims stop is changed (kubernetes/kubernetes#54501, armadaproject/armada#5071) -------------


TWISTS: dict[str, Callable[[Drive, Ask], object]] = {
    "lower than its victims": lambda drive, high: edit(drive, high, priority=-10),
    "held": lambda drive, high: hold(drive, high),
    "begins in a day": lambda drive, high: edit(drive, high, not_before_ms=T0 + 86_400_000),
    "deadline over": lambda drive, high: edit(drive, high, deadline_ms=T0 + 21_000),
    "other pool": lambda drive, high: edit(drive, high, pool="other"),
    "level below": lambda drive, high: edit(drive, high, level="low"),
    "runs into a window": lambda drive, high: drive.tell(
        "admission",
        f.WindowSet(window=Window(name="w", pool="default", start_ms=T0 + 25_000, end_ms=T0 + 90_000), by="admin"),
    ),
    "group closed": lambda drive, high: drive.set_group("h", closing=True),
    "group may use nothing": lambda drive, high: drive.set_group("h", limit=gpu_amount(0)),
    "no eviction any more": lambda drive, high: drive.set_policy(preemption=False),
    "another order": lambda drive, high: drive.set_policy(ordering="fifo"),
    "another formula": lambda drive, high: drive.set_policy(formula="-1000 * priority"),
    "strict level": lambda drive, high: drive.set_policy(levels={"normal": LevelRule(strict=True)}),
    "node to another pool": lambda drive, high: drive.tell(
        "admission", f.NodeAssigned(node=NodeId("n1"), pool="other", by="admin")
    ),
}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("twist", TWISTS)
def test_whatever_becomes_of_the_one_for_whom_victims_stop_room_is_used_and_nobody_goes_in_a_circle(
    twist: str, restart: bool
) -> None:
    drive = Drive(node("n1"), node("n2", gpus=1, pool="other"), groups=[group("h"), group("l")])
    low = [drive.ask(0, gpus=1, group="l", stop=30, run=400) for _ in range(8)]
    high = drive.ask(10, gpus=8, priority=100, group="h", run=100)
    drive.later(20, lambda: TWISTS[twist](drive, high))
    if restart:
        drive.later(21, drive.restart)
    small = [drive.ask(22 + k, gpus=1, group="l", run=50) for k in range(4)]
    drive.until(38)
    assert len(drive.evicted) == 8
    drive.until(200)
    if not high.starts and twist != "node to another pool":
        assert all(ask.starts for ask in small), "room that its heir cannot take is for the others"
    drive.until(5000)
    assert circles(drive) == set()
    assert len(drive.evicted) <= 16
    if twist != "node to another pool":
        assert all(ask.ended is not None for ask in (*low, *small))
    drive.close()


# --- D: policies change while a date stands (chaos/slurm#43, kubernetes-sigs/kueue#8309) ------------------------------


POLICIES: list[dict[str, Any]] = [
    {"ordering": "fifo"},
    {"ordering": "fair_share", "half_life_s": 60},
    {"ordering": "shortest_predicted"},
    {"formula": "-1000 * priority + age_hours"},
    {"backfill_depth": 0},
    {"backfill_depth": 5},
    {"backfill": False},
    {"levels": {"normal": LevelRule(strict=True)}},
    {"starvation_s": 0},
    {"unlimited_run_percent": 100},
]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_whatever_policy_comes_while_a_date_stands_the_dated_job_starts_and_nobody_is_starved(
    policy: dict[str, Any], restart: bool
) -> None:
    drive = Drive(node(), policy={"preemption": False, "starvation_s": 300})
    drive.ask(0, gpus=6, run=100, limit=100)
    big = drive.ask(1, gpus=8, run=50, limit=50, priority=100)
    stream = [drive.ask(2 + 14 * k, gpus=2, run=60, limit=60) for k in range(30)]
    drive.later(40, lambda: drive.set_policy(**policy))
    if restart:
        drive.later(41, drive.restart)
    drive.later(70, lambda: drive.set_policy(ordering="weighted", backfill_depth=1))
    drive.until(700)
    assert big.starts
    assert big.starts[0] <= 1 + 300 + 2 * 60
    drive.finish_all()
    assert all(ask.starts for ask in stream)
    assert all(drive.job(ask.id).state == JobState.SUCCEEDED for ask in stream)
