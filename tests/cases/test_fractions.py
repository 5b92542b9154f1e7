"""Parts of cards: one ledger in whole numbers, whatever unit a job asked in."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.make import node, role

from gangline_core.cluster import Gpu
from gangline_core.reasons import ReasonCode


def by_memory(mib: int) -> dict[str, int]:
    return {"gpus": 0, "gpu_memory_mib": mib}


def two_cards(*sizes: int):
    gpus = tuple(Gpu(index=k, model="A100", memory_mib=size) for k, size in enumerate(sizes))
    return replace(node(gpus=len(sizes)), gpus=gpus)


def test_as_many_shares_as_the_cards_memory_holds_and_not_one_more():
    # kai-scheduler/KAI-Scheduler#416
    drive = Drive(node(gpus=1, gpu_memory_mib=46_068))
    asks = drive.asks_of(24, 0, **by_memory(2000))
    drive.until(1)
    assert sum(drive.is_running(*asks)) == 23
    too_large = drive.ask(2, **by_memory(69))
    exact = drive.ask(3, **by_memory(68))
    drive.finish_all()
    assert drive.is_running(too_large, exact) == [False, True]
    assert drive.code(too_large) == ReasonCode.INSUFFICIENT_GPU_MEMORY


@pytest.mark.parametrize(
    ("card", "share"), [(46_068, 2000), (40_960, 13_653), (81_920, 11_702), (24_576, 8192), (1000, 333)]
)
def test_the_same_for_other_cards(card, share):
    drive = Drive(node(gpus=1, gpu_memory_mib=card))
    asks = drive.asks_of(card // share + 2, 0, **by_memory(share))
    drive.until(1)
    assert sum(drive.is_running(*asks)) == card // share
    rest = card - card // share * share
    over, exact = drive.ask(2, **by_memory(rest + 1)), drive.ask(3, **by_memory(rest)) if rest else None
    drive.until(4)
    assert drive.is_running(over) == [False]
    assert exact is None or drive.is_running(exact) == [True]


def test_each_card_of_a_node_counts_with_its_own_size():
    # AliyunContainerService/gpushare-scheduler-extender#219
    gib = 1024
    drive = Drive(two_cards(10 * gib, 20 * gib))
    first, second, third = (drive.ask(k, **by_memory(size * gib)) for k, size in enumerate((15, 15, 8)))
    never = drive.ask(3, **by_memory(25 * gib))
    drive.until(4)
    assert (drive.gpus(first), drive.gpus(third)) == ([("n1", (1,))], [("n1", (0,))])
    assert drive.is_waiting(second) == [True]
    assert never.refused.code in (ReasonCode.NEVER_FITS_NODE, ReasonCode.NEVER_FITS_MODEL)
    assert str(20 * gib) in drive.why(never)


def test_a_whole_card_is_never_one_that_is_shared():
    drive = Drive(node())
    share = drive.ask(0, gpus=0.2)
    whole = [drive.ask(1 + k, gpus=1) for k in range(8)]
    rest = drive.ask(10, gpus=0.8)
    late = drive.ask(11, gpus=0.05)
    drive.finish_all()
    assert sum(drive.is_running(*whole)) == 7
    assert drive.gpus(rest) == drive.gpus(share)
    assert drive.is_waiting(late) == [True]


def test_a_share_by_memory_and_a_whole_card_are_two_readings_of_one_ledger():
    drive = Drive(node(gpus=2, gpu_memory_mib=20_000))
    share = drive.ask(0, **by_memory(4000))
    one, two = drive.ask(1, gpus=1), drive.ask(2, gpus=1)
    rest = drive.ask(3, **by_memory(16_000))
    late = drive.ask(4, **by_memory(1000))
    half = drive.ask(5, gpus=0.1)
    drive.finish_all()
    assert drive.is_running(share, one, two, rest, late, half) == [True, True, False, True, False, False]


@pytest.mark.parametrize(
    "parts", [(0.1, 0.9), (0.1,) * 10, (0.33, 0.33, 0.34), (0.7, 0.2, 0.1), (0.001,) * 20 + (0.98,)]
)
def test_parts_that_add_up_to_a_card_fit_a_card(parts):
    # ray-project/ray#42683
    drive = Drive(node(gpus=1))
    asks = [drive.ask(0, gpus=part) for part in parts]
    drive.until(1)
    assert all(drive.is_running(*asks))
    assert drive.used() == 1


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_parts_given_back_in_any_order_leave_a_whole_card(order):
    drive = Drive(node(gpus=1))
    for turn in range(10):
        asks = [drive.ask(turn * 10, gpus=part) for part in (0.7, 0.2, 0.1)]
        drive.until(turn * 10)
        for k in order:
            drive.drop(asks[k])
        whole = drive.ask(turn * 10 + 1, gpus=1, run=1)
        drive.until(turn * 10 + 2)
        assert whole.ended == turn * 10 + 2
    assert sum(drive.state.use["n1"].gpu_milli) == 0


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 999), st.integers(1, 20), st.booleans()), max_size=12))
def test_no_mix_of_shares_ever_over_books_or_loses_a_thousandth(jobs):
    drive = Drive(node(gpus=2, gpu_memory_mib=40_960))
    for k, (amount, run, in_mib) in enumerate(jobs):
        asked = by_memory(amount * 40) if in_mib else {"gpus": amount / 1000}
        drive.ask(k, run=run, **asked)
    whole = drive.ask(20, tasks=2, gpus=1, run=1)
    drive.finish_all()
    assert whole.ended is not None
    assert sum(drive.state.use["n1"].gpu_milli) == 0


def test_a_gang_of_shares_with_a_lot_of_host_memory_starts():
    drive = Drive(node(gpus=4, memory_mib=256 * 1024))
    gang = drive.ask(
        0,
        roles=[
            role("head", gpus=0.1, memory_mib=121 * 1024),
            role("worker", tasks=2, gpus=0.9, memory_mib=1024),
        ],
    )
    drive.until(1)
    assert drive.is_running(gang) == [True]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_each_job_is_started_with_its_own_limit(order):
    # Project-HAMi/HAMi#404
    drive = Drive(node(gpus=1, gpu_memory_mib=40_960))
    sizes = (1024, 30_480)
    asks = {k: drive.ask(0, **by_memory(sizes[k])) for k in order}
    drive.until(1)
    for k, ask in asks.items():
        assert [share.memory_mib for task in drive.tasks(ask.id) for share in task.gpus] == [sizes[k]]
