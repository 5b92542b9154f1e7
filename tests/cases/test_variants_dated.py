"""Public reports with dates: windows, reservations, dependencies and seasons, for gangs, arrays and unlike nodes."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.cases.drive import Ask, Drive
from tests.cases.test_variants_mixed import elements, size
from tests.make import T0, gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.limits.calendar import Season
from gangline_core.reasons import ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.spec import ArraySpec, Dependency, DependencyKind

DAY = 86_400


def keep(drive: Drive, *nodes: str, begin: int, end: int, at: float = 0, **fields: Any) -> None:
    """An administrator keeps nodes from one second to another."""
    window = Window(
        name=f"w{begin}",
        pool="default",
        start_ms=T0 + begin * 1000,
        end_ms=T0 + end * 1000,
        nodes=tuple(map(NodeId, nodes)),
        **fields,
    )
    drive.later(at, lambda: drive.tell("admission", f.WindowSet(window=window, by="admin")))


def pair() -> Drive:
    return Drive(node("n1", gpus=4), node("n2", gpus=4))


# --- windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "starts"), [(60, 10), (61, 200), (0, 200)])
@pytest.mark.parametrize("restart", [None, 50])
def test_a_gang_starts_before_a_window_only_if_it_must_have_gone_with_its_grace_before_it(
    limit: int, starts: int, restart: int | None
) -> None:
    drive = pair()
    keep(drive, "n2", begin=100, end=200)
    gang = drive.ask(10, tasks=2, gpus=4, run=60, limit=limit)
    if restart is not None:
        drive.later(restart, drive.restart)
    drive.until(150)
    if starts == 200:
        assert drive.code(gang) in (ReasonCode.WINDOW, ReasonCode.INSUFFICIENT_GPUS)
    drive.finish_all()
    assert gang.starts == [starts]


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_a_window_closes_its_node_and_no_other_to_members_without_a_limit(tasks: int) -> None:
    drive = pair()
    keep(drive, "n1", begin=500, end=900)
    gang = drive.ask(0, tasks=tasks, gpus=1, run=300)
    drive.until(1)
    assert set(drive.where(gang)) == {"n2"}
    more = drive.ask(2, tasks=4, gpus=1, run=60, limit=400)
    drive.until(3)
    assert drive.is_running(more) == [True]
    drive.finish_all()


@pytest.mark.parametrize("whom", ["groups", "users"])
def test_a_window_that_is_kept_for_some_is_theirs_however_many_others_wait(whom: str) -> None:
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), groups=[group("a"), group("b")])
    kept: dict[str, Any] = {"groups": ("a",)} if whom == "groups" else {"users": ("bob",)}
    keep(drive, begin=100, end=400, **kept)
    others = [drive.ask(50 + k, gpus=4, run=200, group="b", limit=200) for k in range(6)]
    own = drive.ask(120, tasks=2, gpus=4, run=100, group="a", user="bob", limit=100)
    drive.finish_all()
    assert own.starts == [120]
    assert [ask.starts[0] for ask in others] == [400, 400, 600, 600, 800, 800]


def test_a_window_that_comes_over_a_running_gang_lets_it_end() -> None:
    drive = pair()
    gang = drive.ask(0, tasks=2, gpus=4, run=300)
    keep(drive, "n1", begin=100, end=200, at=20)
    late = drive.ask(30, gpus=1, run=10, limit=60)
    drive.finish_all()
    assert (gang.ended, late.starts) == (300, [300])


# --- dependencies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(DependencyKind))
@pytest.mark.parametrize("broken", [False, True])
def test_an_array_of_gangs_waits_for_a_gang_and_its_elements_for_room_only(kind: DependencyKind, broken: bool) -> None:
    drive = pair()
    first = drive.ask(0, tasks=2, gpus=4, run=50, code=int(broken))
    drive.until(1)
    array = drive.ask(
        5, tasks=2, gpus=2, run=30, array=ArraySpec(ranges=((1, 3, 1),)), after=[Dependency(job=first.id, kind=kind)]
    )
    drive.until(20)
    drive.restart()
    drive.finish_all()
    meant = {DependencyKind.OK: not broken, DependencyKind.ANY: True, DependencyKind.NOT_OK: broken}[kind]
    begun = sorted(start for element in elements(drive, array) for start in element.starts)
    assert begun == ([50, 50, 80] if meant else [])


@pytest.mark.parametrize("length", [2, 5])
def test_a_chain_costs_no_quota_while_it_waits_and_is_broken_at_its_first_failure(length: int) -> None:
    drive = Drive(node("n1", gpus=4), groups=[group("a", limit=gpu_amount(4))])
    chain: list[Ask] = []
    for k in range(length):
        drive.until(k + 1)
        after = [chain[-1].id] if chain else []
        chain.append(drive.ask(k + 1, gpus=4, group="a", run=20, code=int(k == length - 2), after=after))
        drive.until(k + 1)
    drive.finish_all()
    assert [bool(ask.starts) for ask in chain] == [True] * (length - 1) + [False]
    assert drive.code(chain[-1]) == ReasonCode.DEPENDENCY_FAILED


# --- reservations, preemption, unlike nodes -------------------------------------------------------------------


@pytest.mark.parametrize("when", [20, 55, 80])
@pytest.mark.parametrize("restart", [False, True])
def test_a_reserved_gang_starts_right_behind_whoever_preempted_its_room(when: int, restart: bool) -> None:
    drive = pair()
    old = drive.ask(0, gpus=4, run=60, limit=60)
    gang = drive.ask(1, tasks=2, gpus=4, run=30, limit=30)
    small = [drive.ask(2 + k, gpus=1, run=40, limit=50) for k in range(6)]
    drive.until(10)
    high = drive.ask(when, gpus=4, priority=100, run=25, limit=25)
    if restart:
        drive.later(when + 1, drive.restart)
    drive.finish_all()
    assert high.starts[0] == when
    assert len(gang.starts) <= 2
    assert old.ended is not None
    assert gang.ended is not None
    assert gang.ended <= max(when + 25 + 60, 60 + 30 + 25 + 50), "nobody without a date passes it twice"
    assert all(ask.ended is not None for ask in small)


@pytest.mark.parametrize("models", [("H100", "A100"), ("A100", "H100"), ("A100",)])
@pytest.mark.parametrize("tasks", [2, 3])
def test_a_gang_on_unlike_nodes_takes_the_first_kind_it_named_that_holds_it(
    models: tuple[str, ...], tasks: int
) -> None:
    drive = Drive(
        *(node(f"h{k}", gpus=2, model="H100") for k in range(2)),
        *(node(f"a{k}", gpus=4, model="A100") for k in range(3)),
    )
    gang = drive.ask(0, roles=[role("w", tasks=tasks, gpus=2, gpu_models=models)], same_model=True, run=10)
    drive.until(1)
    holds = {"H100": tasks <= 2, "A100": True}
    kind = next(model for model in models if holds[model])
    assert {name[0] for name in drive.where(gang)} == {kind[0].lower()}
    drive.finish_all()


@pytest.mark.parametrize("limit", [3, 4, 6])
def test_an_elastic_job_grows_to_its_groups_limit_and_gives_room_to_an_important_neighbour(limit: int) -> None:
    drive = Drive(node("n1", gpus=8), groups=[group("a", limit=gpu_amount(limit))])
    grown = drive.ask(0, tasks=2, minimum=1, maximum=8, gpus=1, group="a")
    drive.until(100)
    assert size(drive, grown) == limit
    high = drive.ask(110, gpus=2, group="a", priority=100, run=50)
    drive.until(111)
    drive.restart()
    drive.until(120)
    assert drive.is_running(high) == [True]
    assert drive.used("a") == limit
    drive.until(1_000)
    assert size(drive, grown) == limit
    assert len(drive.evicted) == 0


# --- seasons --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns", "Pacific/Chatham", "UTC"])
@pytest.mark.parametrize("hour", [6, 22])
def test_a_gang_above_a_limit_starts_when_the_season_of_its_zone_begins(zone: str, hour: int) -> None:
    night = Season(
        name="n", start_minute=hour * 60, end_minute=(hour * 60 + 180) % 1440, zone=zone, limit=gpu_amount(8)
    )
    drive = Drive(node("n1", gpus=8), groups=[group("a", limit=gpu_amount(2), seasons=(night,))])
    here = datetime.fromtimestamp(T0 / 1000, tz=ZoneInfo(zone))
    begins = here.replace(hour=hour, minute=0, second=0, microsecond=0)
    begins += timedelta(days=int(begins + timedelta(hours=3) <= here))
    due = max(0.0, (begins - here).total_seconds())
    gang = drive.ask(0, tasks=2, gpus=4, group="a", run=60)
    plain = drive.ask(0, gpus=2, group="a", run=DAY * 2)
    drive.later(1_000, drive.restart)
    drive.until(due - 1 if due > 1 else 0)
    if due > 1:
        assert drive.is_waiting(gang) == [True]
    drive.drop(plain)
    drive.finish_all()
    assert gang.starts == [due]


def test_a_cancelled_head_gives_its_date_to_the_next_gang() -> None:
    drive = pair()
    drive.ask(0, tasks=2, gpus=2, run=100, limit=100)
    head = drive.ask(1, tasks=2, gpus=4, run=50, limit=50)
    after = drive.ask(2, tasks=2, gpus=3, run=50, limit=50)
    drive.later(40, lambda: drive.drop(head))
    drive.later(41, drive.restart)
    drive.finish_all()
    assert (head.starts, after.starts) == ([], [100])
    assert drive.job(head.id).state == JobState.CANCELLED
