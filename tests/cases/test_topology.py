"""Links, pairs and racks: whole parts stay whole, sick devices are known, replacements go where there is room."""

import random

import pytest
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.make import node

from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.reasons import ReasonCode
from gangline_core.spec import TopologyWish

RACK = "topology.gangline.dev/rack"


def racks(**sizes: int):
    return [node(f"{rack}-{k:02}", gpus=4, labels={RACK: rack}) for rack, count in sizes.items() for k in range(count)]


@pytest.mark.parametrize("islands", [[0, 1, 0, 1, 2, 2, 3, 3], [0, 1, 2, 3, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2, 3, 3]])
def test_every_double_gets_a_linked_pair_whatever_its_numbers(islands):
    # NVIDIA/k8s-device-plugin#546
    drive = Drive(node(islands=islands))
    doubles = [drive.ask(k, gpus=2) for k in range(4)]
    drive.later(10, lambda: drive.drop(doubles[1]))
    again = drive.ask(11, gpus=2)
    drive.until(12)
    for ask in (doubles[0], *doubles[2:], again):
        [(_, (one, two))] = drive.gpus(ask)
        assert islands[one] == islands[two]


def test_singles_that_come_and_go_leave_pairs_whole():
    # NVIDIA/k8s-device-plugin#1193
    draw = random.Random(7)
    drive = Drive(node(islands=[0, 0, 1, 1, 2, 2, 3, 3]))
    for turn in range(25):
        start = drive.now + 1
        singles = [drive.ask(start, gpus=1) for _ in range(4)]
        doubles = [drive.ask(start + 1, gpus=2) for _ in range(2)]
        drive.until(start + 2)
        for ask in doubles:
            [(_, (one, two))] = drive.gpus(ask)
            assert one // 2 == two // 2, turn
        draw.shuffle(singles)
        for k, ask in enumerate([*singles, *doubles]):
            drive.later(start + 3 + k, lambda ask=ask: drive.drop(ask))
        drive.until(start + 20)


def test_a_single_takes_the_gpu_without_a_partner_wherever_it_is():
    pairs = [0, 0, 1, 1, 2, 2, 3, 3]
    drive = Drive(*[node(name, islands=pairs, labels={"name": name}) for name in ("n1", "n2")])
    for name, gpus in (("n1", 2), ("n1", 2), ("n1", 2), ("n2", 2), ("n2", 2), ("n2", 1)):
        drive.ask(0, gpus=gpus, node_selector={"name": name})
    drive.until(1)
    lone = drive.ask(2, gpus=1)
    doubles = [drive.ask(3 + k, gpus=2) for k in range(2)]
    drive.until(10)
    assert drive.where(lone) == ["n2"]
    assert all(one // 2 == two // 2 for [(_, (one, two))] in map(drive.gpus, doubles))


@pytest.mark.parametrize("sick", [(1, 3), (0, 2), (1, 2)])
def test_one_sick_gpu_per_pair_does_not_stop_two_singles(sick):
    # microsoft/hivedscheduler#25
    drive = Drive(node(gpus=4, islands=[0, 0, 1, 1]))
    for index in sick:
        drive.tell("telemetry", f.GpuFailed(node=NodeId("n1"), gpu=index, problem="xid 79"))
    gang = drive.ask(1, tasks=2, gpus=1, topology=TopologyWish(preferred="nvlink"))
    drive.until(2)
    assert sorted(gpus[0] for _, gpus in drive.gpus(gang)) == sorted(set(range(4)) - set(sick))


def test_a_required_pair_waits_with_a_reason_and_starts_when_its_gpu_is_well_again():
    drive = Drive(node(gpus=4, islands=[0, 0, 1, 1]))
    for index in (1, 3):
        drive.tell("telemetry", f.GpuFailed(node=NodeId("n1"), gpu=index, problem="xid 79"))
    gang = drive.ask(1, tasks=2, gpus=1, topology="nvlink")
    drive.until(2)
    assert drive.code(gang) == ReasonCode.TOPOLOGY
    drive.later(50, lambda: drive.tell("telemetry", f.GpuHealthy(node=NodeId("n1"), gpu=1)))
    drive.finish_all()
    assert gang.starts == [50]
    assert [gpus for _, gpus in drive.gpus(gang)] == [(0,), (1,)]


@pytest.mark.parametrize("node_first", [True, False])
def test_a_replacement_goes_where_there_is_room_and_nobody_aims_at_the_lost_node(node_first):
    # kubernetes-sigs/kueue#9210: a gang that lost a member starts anew as a whole
    drive = Drive(*[node(name, gpus=1, labels={RACK: "r"}) for name in ("n1", "n2", "n3")])
    gang = drive.ask(0, tasks=2, gpus=1, topology="rack", stop=1)
    drive.until(5)
    first, survivor = drive.where(gang)
    name = drive.tasks(gang.id)[0].id
    exited = f.TaskExited(task=name, cause=f.ExitCause.PROCESS_LOST)
    acts = [lambda: drive.lose(first), lambda: drive.tell("agent.sim", exited)]
    for act in acts if node_first else reversed(acts):
        act()
    drive.until(10)
    assert drive.is_running(gang) == [True]
    assert sorted(drive.where(gang)) == sorted({"n1", "n2", "n3"} - {first})
    assert survivor in drive.where(gang)


@pytest.mark.parametrize("node_first", [True, False])
def test_a_replacement_member_goes_to_the_free_node_while_the_survivor_stays(node_first):
    # kubernetes-sigs/kueue#9210, with a job that allows repair: n1 is lost, the new member is on n3, nobody moves
    drive = Drive(*[node(name, gpus=1, labels={RACK: "r"}) for name in ("n1", "n2", "n3")])
    gang = drive.ask(0, tasks=2, gpus=1, topology="rack", repair_s=600)
    drive.until(5)
    first, survivor = drive.where(gang)
    lost, stays = (task.id for task in drive.tasks(gang.id))
    exited = f.TaskExited(task=lost, cause=f.ExitCause.PROCESS_LOST)
    acts = [lambda: drive.lose(first), lambda: drive.tell("agent.sim", exited)]
    for act in acts if node_first else reversed(acts):
        act()
    drive.until(10)
    assert drive.is_running(gang) == [True]
    [free] = {"n1", "n2", "n3"} - {first, survivor}
    assert drive.where(gang) == [free, survivor]
    assert drive.tasks(gang.id)[1].id == stays


@pytest.mark.parametrize("failures", [0, 3])
def test_gangs_of_a_whole_rack_are_never_mixed_even_after_failed_starts(failures):
    # kai-scheduler/KAI-Scheduler#1217
    drive = Drive(*racks(r1=18, r2=18))
    first = drive.ask(0, tasks=16, gpus=4, topology="rack")
    second = drive.ask(1, tasks=16, gpus=4, topology="rack", retries=failures, start=5)
    for k in range(failures):
        drive.until(3 + 10 * k)
        member = drive.tasks(second.id)[13]
        drive.tell("agent.sim", f.TaskExited(task=member.id, cause=f.ExitCause.START_FAILED, error="no"))
        drive.empty(member.id)
        drive.until(4 + 10 * k)
        drive.close()
    drive.until(60)
    assert {name.partition("-")[0] for name in drive.where(first)} == {"r1"}
    assert {name.partition("-")[0] for name in drive.where(second)} == {"r2"}
    drive.finish_all()


@pytest.mark.parametrize(("members", "fits"), [(18, True), (19, False)])
def test_a_gang_of_a_whole_rack_fits_exactly_or_is_told_the_number(members, fits):
    drive = Drive(*racks(r1=18, r2=18))
    gang = drive.ask(0, tasks=members, gpus=4, topology="rack")
    drive.until(1)
    if fits:
        assert len(set(drive.where(gang))) == 18
    else:
        assert gang.refused.code == ReasonCode.NEVER_FITS_TOPOLOGY
        assert "rack" in drive.why(gang)
        assert str(members) in drive.why(gang) or str(4 * members) in drive.why(gang)


def test_a_rack_that_is_partly_used_is_left_for_one_that_holds_the_gang():
    drive = Drive(*racks(r1=18, r2=18))
    drive.ask(0, tasks=3, gpus=4, topology="rack")
    gang = drive.ask(1, tasks=16, gpus=4, topology="rack")
    other = drive.ask(2, tasks=16, gpus=4, topology="rack")
    drive.until(3)
    assert {name.partition("-")[0] for name in drive.where(gang)} == {"r2"}
    assert drive.code(other) == ReasonCode.TOPOLOGY


def test_a_node_that_comes_back_with_other_devices_is_judged_by_those():
    drive = Drive(node("n1", gpus=2))
    pair = drive.ask(0, gpus=2, run=10)
    drive.until(20)
    drive.see(replace(node("n1", gpus=1)))
    later = drive.ask(21, gpus=2)
    drive.until(22)
    assert pair.ended == 10
    assert later.refused is not None or drive.is_waiting(later) == [True]
