"""Reports about the door and the queue (A to E, M, Q, R) once more in every dimension that a limit can count in."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node, role

from gangline_core.groups import Group, User
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ArraySpec, Dependency, DependencyKind

CARD = 40_960
NIC = {"devices": {"nic": 16}}
LIMITS: dict[str, dict[str, int]] = {
    "gpus": gpu_amount(8),
    "gpus of the only model": {"gpu_milli:a100": 8_000},
    "GPU memory": {"gpu_memory_mib": 8 * CARD},
    "CPUs": {"cpu_milli": 8_000},
    "memory": {"memory_mib": 8 * 1024},
    "devices": {"device:nic": 8},
}
HOLDERS: dict[str, Callable[[dict[str, int]], tuple[list[Group], list[User]]]] = {
    "group": lambda limit: ([group("lab", limit=limit)], []),
    "parent": lambda limit: ([group("top", limit=limit), group("top/lab")], []),
    "user": lambda limit: ([group("lab")], [User(name="ada", group="lab", limit=limit)]),
    "each user": lambda limit: ([group("lab", user_limit=limit)], []),
}


def three_nodes(**fields: Any) -> Drive:
    return Drive(*(node(f"n{k}", **NIC) for k in range(3)), **fields)


def units(count: int, path: str) -> dict[str, Any]:
    """A job that counts `count` units in every dimension."""
    return {"gpus": count, "cpus": count, "memory_mib": 1024 * count, "devices": {"nic": count}, "group": path}


# --- D05, sentence by dimension and holder: a stream of small ones below a limit (kueue#8309) ---------------------


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("dimension", LIMITS)
def test_below_no_limit_of_anybody_do_small_jobs_keep_a_large_one_out_for_ever(dimension: str, holder: str) -> None:
    groups, users = HOLDERS[holder](LIMITS[dimension])
    path = groups[-1].path
    drive = three_nodes(groups=groups, users=users)
    for second in range(0, 900, 5):
        drive.ask(second, run=60, limit=60, grace_s=0, **units(1, path))
    large = drive.ask(61, run=30, limit=30, grace_s=0, **units(8, path))
    drive.until(900)
    assert large.starts, drive.why(large)
    assert large.starts[0] <= 260, "those before it, and the longest time limit"


# --- A07, C02: what can never be below a limit, by dimension (KAI#500, kueue#6947) --------------------------------


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("dimension", LIMITS)
def test_whatever_is_too_much_for_a_limit_of_anybody_is_refused_and_blocks_nobody(dimension: str, holder: str) -> None:
    groups, users = HOLDERS[holder](LIMITS[dimension])
    path = groups[-1].path
    drive = three_nodes(groups=groups, users=users)
    never = drive.ask(0, roles=[role(tasks=3, gpus=3, cpus=3, memory_mib=3 * 1024, devices={"nic": 3})], group=path)
    fits = drive.ask(1, run=10, **units(8, path))
    drive.until(5)
    assert never.refused is not None
    assert never.refused.code == ReasonCode.NEVER_FITS_LIMIT
    assert drive.is_running(fits) == [True]


# --- B16: a limit that is lowered below what waits (yunikorn-core#1068, kueue#746) --------------------------------


@pytest.mark.parametrize("dimension", LIMITS)
def test_who_is_shut_out_by_a_lowered_limit_says_so_and_keeps_nothing_from_others(dimension: str) -> None:
    limit = LIMITS[dimension]
    drive = three_nodes(groups=[group("lab", limit=limit)])
    drive.ask(0, run=200, limit=400, **units(6, "lab"))
    shut = drive.ask(1, run=50, **units(8, "lab"))
    drive.later(10, lambda: drive.set_group("lab", limit={what: amount * 7 // 8 for what, amount in limit.items()}))
    small = [drive.ask(second, run=600, limit=900, **units(1, "lab")) for second in (20, 21)]
    drive.until(30)
    assert drive.is_running(small[0]) == [True], drive.why(small[0])
    assert drive.is_waiting(shut, small[1]) == [True, True]
    assert drive.code(shut) == ReasonCode.GROUP_LIMIT
    drive.until(300)
    assert drive.is_running(small[1]) == [True]
    drive.later(310, lambda: drive.set_group("lab", limit=limit))
    drive.finish_all()
    assert shut.ended is not None


# --- C01, C04: what is owed is owed in every dimension (kueue#3405, volcano#4825) ---------------------------------


@pytest.mark.parametrize("dimension", LIMITS)
def test_an_owner_gets_back_what_it_is_guaranteed_in_whatever_it_is_counted(dimension: str) -> None:
    """A guarantee of anything but GPUs takes none of these from others (decision 0006): there no job asks for any."""
    promised = {what: amount // 2 for what, amount in LIMITS[dimension].items()}
    without = {"gpus": 0} if dimension in {"CPUs", "memory", "devices"} else {}
    groups = [group("owner", guaranteed=promised), group("borrower")]
    drive = Drive(node("n1", gpus=8, cpus=8, memory_mib=8 * 1024, devices={"nic": 8}), groups=groups)
    lent = [drive.ask(0, run=10_000, **{**units(1, "borrower"), **without}) for _ in range(8)]
    owner = drive.ask(10, run=100, **{**units(4, "owner"), **without})
    drive.until(60)
    assert drive.is_running(owner) == [True], drive.why(owner)
    assert sum(drive.is_running(*lent)) == 4
    more = drive.ask(70, run=100, **{**units(1, "owner"), **without})
    drive.until(90)
    assert drive.is_waiting(more) == [True], "beyond its guarantee it waits"
    assert len(drive.evicted) == 4
    assert "beyond a guarantee is only lent" in drive.notes(more)


# --- B14: a dimension that is full, or promised, is no matter of who does not use it (volcano#5001) ---------------


@pytest.mark.parametrize("dimension", [what for what in LIMITS if what not in {"CPUs", "memory"}])
def test_who_uses_no_gpu_and_no_device_starts_beside_a_dated_gang(dimension: str) -> None:
    drive = three_nodes(groups=[group("lab", limit=LIMITS[dimension])])
    drive.ask(0, run=500, limit=1000, **units(6, "lab"))
    gang = drive.ask(1, run=50, limit=100, **units(8, "lab"))
    plain = drive.ask(2, run=5_000, gpus=0, cpus=4, group="lab")
    drive.until(10)
    assert drive.is_waiting(gang) == [True]
    assert drive.is_running(plain) == [True]


# --- B04: two borrowers of one instant in one dimension (kueue#804) -----------------------------------------------


@pytest.mark.parametrize("dimension", LIMITS)
def test_of_two_of_one_instant_only_as_many_start_as_a_limit_holds(dimension: str) -> None:
    groups = [group("top", limit=LIMITS[dimension]), group("top/a"), group("top/b")]
    drive = three_nodes(groups=groups)
    asks = [drive.ask(0, run=50, **units(5, path)) for path in ("top/a", "top/b")]
    drive.until(10)
    assert sorted(drive.is_running(*asks)) == [False, True]
    drive.finish_all()
    assert all(ask.ended is not None for ask in asks)


# --- E01, E07: room that is cleared below a limit, by dimension (kueue#2821, kubernetes#54501) --------------------


@pytest.mark.parametrize("dimension", LIMITS)
def test_what_an_important_job_clears_below_a_limit_is_its_own_however_many_small_ones_come(dimension: str) -> None:
    drive = three_nodes(groups=[group("lab", limit=LIMITS[dimension])])
    drive.asks_of(8, run=10_000, stop=30, grace_s=60, **units(1, "lab"))
    important = drive.ask(10, run=50, priority=100, **units(8, "lab"))
    for second in range(11, 60, 2):
        drive.ask(second, run=60, limit=60, grace_s=0, **units(1, "lab"))
    drive.until(60)
    assert important.starts, drive.why(important)
    assert important.starts[0] <= 42
    assert len(drive.evicted) == 8
    drive.until(300)
    assert len(drive.evicted) == 8, "and nobody evicts anybody again"


# --- D01: who may jump below a limit of GPU memory (snakemake#301) ------------------------------------------------


def test_below_a_limit_of_gpu_memory_who_ends_in_time_may_pass_and_others_not() -> None:
    drive = three_nodes(groups=[group("lab", limit=LIMITS["GPU memory"])])
    drive.ask(0, run=100, limit=100, grace_s=0, **units(6, "lab"))
    large = drive.ask(1, run=30, limit=30, **units(8, "lab"))
    short, long = (drive.ask(2, run=run, limit=run, grace_s=0, **units(2, "lab")) for run in (50, 200))
    elsewhere = drive.ask(5, run=300, **units(8, ""))
    drive.finish_all()
    assert (short.starts, large.starts, elsewhere.starts) == ([2], [100], [5])
    assert long.starts[0] >= 130


# --- A01, D04: two cards of unlike memory below one limit of it ---------------------------------------------------


@pytest.mark.parametrize("first", ["A100", "T4"])
def test_a_limit_of_gpu_memory_counts_the_card_that_a_job_came_to(first: str) -> None:
    groups = [group("lab", limit={"gpu_memory_mib": 4 * CARD})]
    drive = Drive(node("n1"), node("n2", model="T4", gpu_memory_mib=CARD // 4), groups=groups)
    named = drive.ask(0, run=100, gpus=4, gpu_models=[first], group="lab")
    other = drive.ask(1, run=100, gpus=4, gpu_models=["T4" if first == "A100" else "A100"], group="lab")
    drive.until(10)
    assert drive.is_running(named) == [True]
    assert drive.is_waiting(other) == [True], "A100 take the whole limit, and leave nothing for T4; nor the other way"
    drive.finish_all()
    assert other.ended is not None


# --- B07, Q05: elements of an array give back, dimension by dimension ---------------------------------------------


@pytest.mark.parametrize("dimension", LIMITS)
def test_elements_give_back_what_they_held_one_by_one_to_whoever_waits_below_the_limit(dimension: str) -> None:
    drive = three_nodes(groups=[group("lab", limit=LIMITS[dimension])])
    array = drive.ask(0, run=100, limit=200, array=ArraySpec(ranges=((0, 7, 1),)), **units(1, "lab"))
    waits = drive.ask(1, run=50, limit=60, **units(8, "lab"))
    drive.until(50)
    assert drive.is_waiting(waits) == [True]
    drive.finish_all()
    assert (array.refused, waits.refused) == (None, None)
    assert waits.starts == [100]


# --- B10, Q04: a chain below a limit, of which one is cancelled (ray#18872) ---------------------------------------


@pytest.mark.parametrize("kind", list(DependencyKind))
@pytest.mark.parametrize("code", [0, 1])
def test_whoever_follows_counts_only_from_its_start_and_follows_as_it_said(kind: DependencyKind, code: int) -> None:
    drive = three_nodes(groups=[group("lab", limit=gpu_amount(8))])
    first = drive.ask(0, run=100, code=code, **units(4, "lab"))
    drive.until(1)
    follows = drive.ask(2, run=50, after=[Dependency(first.id, kind=kind)], **units(8, "lab"))
    beside = drive.ask(3, run=300, limit=300, **units(4, "lab"))
    drive.until(50)
    assert drive.is_running(first, beside) == [True, True], "who only follows keeps no quota"
    drive.finish_all()
    wanted = {DependencyKind.OK: code == 0, DependencyKind.NOT_OK: code == 1, DependencyKind.ANY: True}[kind]
    assert bool(follows.starts) == wanted
