"""Room that is there in total but not in one place, and room that is there for GPUs but not for the rest."""

import pytest
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

from gangline_core.reasons import ReasonCode
from gangline_core.spec import Toleration, TopologyWish
from gangline_core.telling.explain import explain


def test_enough_in_total_but_not_on_one_node_is_said_with_both_numbers():
    # volcano-sh/volcano#3948: jobs are not moved here
    drive = Drive(*[node(f"n{k}", labels={"name": f"n{k}"}) for k in (1, 2, 3)])
    for name, sizes in (("n1", (4, 2, 1)), ("n2", (4, 2)), ("n3", (4, 2, 1))):
        for gpus in sizes:
            drive.ask(0, gpus=gpus, node_selector={"name": name})
    waiting = drive.ask(1, gpus=4)
    drive.finish_all()
    assert drive.code(waiting) == ReasonCode.FRAGMENTED_GPUS
    assert drive.why(waiting) == "Needs 4 GPUs on one node; at its turn 4 were free, at most 2 on one node (n2)."
    # Jobs that are bound to their node by a selector cannot move; see tests/core/test_moves.py for those that can.
    assert explain(drive.state, waiting.id, drive.at).shortfall.moves is None
    assert not drive.evicted


def test_quota_that_no_node_can_use_is_not_held():
    # kubernetes-sigs/kueue#4329
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), groups=[group("q", limit=gpu_amount(8))])
    large = drive.ask(0, gpus=8, group="q")
    small = drive.asks_of(4, 1, gpus=1, group="q")
    drive.finish_all()
    assert large.refused.code == ReasonCode.NEVER_FITS_NODE
    assert large.refused.numbers["needed"] == 8
    assert all(drive.is_running(*small))
    assert drive.used("q") == 4


@pytest.mark.parametrize("limit", [0, 600])
def test_a_job_that_waits_for_the_one_large_node_does_not_hold_up_the_small_ones(limit):
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), node("big"), groups=[group("q", limit=gpu_amount(8))])
    drive.ask(0, gpus=8, run=600, limit=600)
    large = drive.ask(1, gpus=8, group="q", run=10)
    small = drive.asks_of(4, 2, gpus=1, group="q", run=600, limit=limit)
    drive.until(3)
    assert (drive.is_waiting(large), drive.is_running(*small), drive.used("q")) == ([True], [True] * 4, 4)
    drive.finish_all()
    assert all(ask.starts == [2] for ask in small)


def test_services_pack_so_that_training_finds_whole_nodes():
    # volcano-sh/volcano#5078
    drive = Drive(*[node(f"n{k:02}", devices={"slots": 4}) for k in range(12)])
    service = drive.ask(0, tasks=8, gpus=1, devices={"slots": 1})
    training = drive.ask(1, tasks=10, gpus=8)
    drive.until(2)
    assert drive.is_running(service, training) == [True, True]
    assert sorted(drive.where(service).count(name) for name in set(drive.where(service))) == [4, 4]


def test_a_bounded_spread_leaves_training_its_whole_nodes():
    # volcano-sh/volcano#5078: "at most 4 per node" said as a wish of the job itself
    drive = Drive(*[node(f"n{k:02}") for k in range(12)])
    service = drive.ask(0, tasks=8, gpus=1, topology=TopologyWish(spread_level="node", spread_most=4))
    training = drive.ask(1, tasks=10, gpus=8)
    drive.until(2)
    assert drive.is_running(service, training) == [True, True]
    assert sorted(drive.where(service).count(name) for name in set(drive.where(service))) == [4, 4]


def test_single_replicas_pack_too():
    drive = Drive(*[node(f"n{k:02}", devices={"slots": 4}) for k in range(12)])
    replicas = [drive.ask(k, gpus=1, devices={"slots": 1}) for k in range(8)]
    training = drive.ask(10, tasks=10, gpus=8)
    drive.until(11)
    assert drive.is_running(training) == [True]
    assert len({drive.where(ask)[0] for ask in replicas}) == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_free_gpu_without_memory_or_slot_is_no_room(order):
    # kai-scheduler/KAI-Scheduler#306
    drive = Drive(
        node("n1", memory_mib=2048, devices={"containers": 100}),
        node("n2", devices={"containers": 0}),
        node("n3", gpus=1, devices={"containers": 100}),
    )
    kinds = [{"gpus": 1, "memory_mib": 4096}, {"gpus": 2, "memory_mib": 1024}]
    asks = {k: drive.ask(0, devices={"containers": 1}, **kinds[k]) for k in order}
    third = drive.ask(1, gpus=1, memory_mib=4096, devices={"containers": 1})
    drive.finish_all()
    assert (drive.where(asks[0]), drive.where(asks[1])) == (["n3"], ["n1"])
    assert drive.is_waiting(third) == [True]
    assert drive.why(third) == "Needs 1 of device containers on one node; at most 0 are free there."


def test_a_job_no_node_has_memory_beside_gpus_for_is_told_which():
    drive = Drive(node("n1", memory_mib=4096), node("n2", gpus=0, memory_mib=65_536))
    refused = drive.ask(0, gpus=1, memory_mib=8192)
    drive.until(1)
    assert refused.refused is not None
    assert "8192" in drive.why(refused)
    fits = drive.ask(2, gpus=1, memory_mib=4000)
    waits = drive.ask(3, gpus=1, memory_mib=4000)
    drive.until(4)
    assert drive.is_running(fits, waits) == [True, False]
    assert drive.code(waits) == ReasonCode.INSUFFICIENT_MEMORY


def test_closed_and_marked_nodes_are_no_room():
    # kubernetes-sigs/kueue#3401
    drive = Drive(node("n1"), node("n2", taints=["special"]), node("n3"), node("n4"))
    busy = drive.ask(0, gpus=4)
    drive.until(1)
    assert drive.where(busy) == ["n1"]
    drive.drain("n1")
    drive.lose("n3")
    whole = drive.ask(2, gpus=8)
    special = drive.ask(3, gpus=4, tolerations=(Toleration(key="special"),))
    more = drive.ask(4, gpus=4)
    drive.until(5)
    assert (drive.where(whole), drive.where(special), drive.is_running(busy, more)) == (
        ["n4"],
        ["n2"],
        [True, False],
    )
    drive.drain("n1", drained=False)
    drive.until(6)
    assert drive.where(more) == ["n1"]
