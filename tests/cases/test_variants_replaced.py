"""Public reports about machines that are not what they were: renamed cards, other cards, two machines with one card."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.cases.test_variants_places import slice_of
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu, MigSlice, Node
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain
from gangline_gateway.show import node_view

LAYOUTS = {
    "halves": (("3g.20gb", 0, 4), ("3g.20gb", 4, 4)),
    "small": tuple(("1g.5gb", k, 1) for k in range(7)),
    "mixed": (("4g.20gb", 0, 4), ("2g.10gb", 4, 2), ("1g.5gb", 6, 1)),
    "whole": (("7g.40gb", 0, 8),),
}


def books(world: World) -> None:
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}
    assert all(amount >= 0 for use in world.state.usage.values() for amount in use.values())


def again(world: World) -> None:
    """Everybody forgets what is not in the log."""
    world.state = decode_snapshot(encode_snapshot(world.state))


def cut(layout: str, name: str = "n1") -> Node:
    """A machine of one card that is cut into these slices; "off" and "free" are not cut, and cut as tasks come."""
    slices = tuple(
        MigSlice(profile=profile, start=start, size=size, uuid=f"MIG-{layout}-{k}")
        for k, (profile, start, size) in enumerate(LAYOUTS.get(layout, ()))
    )
    mig = "" if layout == "off" else "a100-40gb"
    card = Gpu(index=0, model="A100", memory_mib=40_960, uuid=f"GPU-{name}", mig=mig, slices=slices)
    return replace(node(name, gpus=1), gpus=(card,))


# --- I: a card's model is spelt otherwise by a newer driver (opendatahub-io/opendatahub-operator#3331) ----------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("dimension", ["gpu_milli:A100", "gpu_milli:NVIDIA A100-SXM4-40GB", "gpu_milli"])
def test_a_model_that_is_renamed_under_running_work_leaves_books_that_hold(dimension: str, restart: bool) -> None:
    world = World(node("n1"), groups=[group("q", limit={dimension: 6000})])
    old = [world.submit_running(spec(gpus=2, group="q"), "n1") for _ in range(2)]
    renamed = node("n1", model="NVIDIA A100-SXM4-40GB")
    world.see(renamed).wait(1)
    if restart:
        again(world)
    books(world)
    new = [world.submit(gpus=2, group="q") for _ in range(2)]
    world.settle()
    books(world)
    assert [world.job(job).state for job in old] == [JobState.RUNNING] * 2
    if dimension == "gpu_milli":
        assert [world.job(job).state for job in new] == [JobState.RUNNING, JobState.WAITING]
    world.finish(*[job for job in (*old, *new) if world.tasks(job)])
    world.settle()
    world.finish(*[job for job in new if world.tasks(job)])
    books(world)
    assert not any(use for use in world.state.usage.values())


def test_a_job_that_names_a_renamed_model_waits_or_runs_by_the_new_name_and_a_limit_of_the_old_one_frees_nothing() -> (
    None
):
    drive = Drive(node("n1", model="H100"), groups=[group("q", limit=gpu_amount(4, "H100"))])
    first = drive.ask(0, gpus=4, gpu_models=["H100"], group="q", run=100)
    waits = drive.ask(5, gpus=4, gpu_models=["H100"], group="q")
    drive.until(6)
    drive.see(node("n1", model="H100-NVL"))
    drive.until(10)
    assert drive.is_running(first, waits) == [True, False]
    either = drive.ask(20, gpus=4, gpu_models=["H100", "H100-NVL"], group="q", run=10)
    drive.until(21)
    assert drive.is_running(either) == [True]
    drive.until(200)
    assert drive.is_waiting(waits) == [True]
    assert "0 of 0 suitable ones" in drive.why(waits)
    drive.see(node("n1", model="H100"))
    drive.until(210)
    assert drive.is_running(waits) == [True]


# --- K, H: memory, CPUs or cards of a machine become fewer under running work (volcano-sh/volcano#1818) ---------------


@pytest.mark.parametrize("kind", ["whole", "share", "memory"])
@pytest.mark.parametrize(("before", "after"), [(40_960, 40_330), (40_330, 40_960), (40_960, 81_920), (81_920, 20_480)])
def test_memory_of_cards_that_changes_under_running_work_comes_and_goes_without_a_rest(
    before: int, after: int, kind: str
) -> None:
    asks: dict[str, dict[str, Any]] = {
        "whole": {"gpus": 2}, "share": {"gpus": 0.5}, "memory": {"gpus": 0, "gpu_memory_mib": 20_000},
    }  # fmt: skip
    world = World(node("n1", gpus=2, gpu_memory_mib=before))
    jobs = [world.submit_running(spec(**asks[kind]), "n1") for _ in range(1 if kind == "whole" else 2)]
    world.see(node("n1", gpus=2, gpu_memory_mib=after)).wait(1)
    late = [world.submit(**asks[kind]) for _ in range(8)]
    world.settle()
    for k in range(2):
        held = [share for task in world.state.kept.tasks.values() for share in task.gpus if share.index == k]
        assert sum(share.milli for share in held) <= 1000
        new = [share for job in late for task in world.tasks(job) for share in task.gpus if share.index == k]
        assert not new or sum(share.memory_mib for share in held) <= after
    books(world)
    again(world)
    everybody = [job for job in (*jobs, *late) if world.tasks(job)]
    world.finish(*everybody)
    for job in late:
        world.cancel(job)
    use = world.state.use[NodeId("n1")]
    assert (sum(use.gpu_milli), sum(use.gpu_memory_mib), use.cpu_milli) == (0, 0, 0)
    books(world)


@pytest.mark.parametrize(
    "fewer", [{"cpus": 4}, {"memory_mib": 2048}, {"devices": {"rdma": 1}}, {"devices": {}}, {"tasks_max": 2}]
)
def test_fewer_of_anything_than_is_held_is_no_room_and_no_reason_to_kill(fewer: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"gpus": 8, "cpus": 16, "memory_mib": 16_384, "devices": {"rdma": 8}, "tasks_max": 20}
    world = World(node("n1", **whole))
    asked: dict[str, Any] = {"gpus": 1, "cpus": 2, "memory_mib": 2048, "devices": {"rdma": 1}}
    jobs = [world.submit_running(spec(**asked), "n1") for _ in range(4)]
    world.see(node("n1", **{**whole, **fewer})).wait(1)
    late = world.submit(**asked)
    world.settle()
    assert world.job(late).state == JobState.WAITING
    assert [world.job(job).state for job in jobs] == [JobState.RUNNING] * 4
    again(world)
    world.see(node("n1", **whole)).wait(1)
    world.settle()
    assert world.job(late).state == JobState.RUNNING
    world.finish(*jobs, late)
    books(world)
    assert world.state.use[NodeId("n1")].cpu_milli == 0


# --- K: a machine of the same name with other cards (kubernetes/kubernetes#51313, Project-HAMi/HAMi#2592) -------------


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("other", ["fewer", "other model", "none", "other numbers", "cut"])
def test_a_machine_that_comes_back_under_its_name_with_other_cards_gives_none_that_is_held_or_missing(
    other: str, lost: bool
) -> None:
    shapes: dict[str, Node] = {
        "fewer": node("n1", gpus=2),
        "other model": node("n1", gpus=4, model="T4", gpu_memory_mib=16_384),
        "none": node("n1", gpus=0),
        "other numbers": replace(
            node("n1", gpus=4), gpus=tuple(replace(gpu, index=gpu.index + 4) for gpu in node("n1", gpus=4).gpus)
        ),
        "cut": replace(node("n1", gpus=1), gpus=cut("halves").gpus),
    }
    world = World(node("n1", gpus=4), groups=[group("q")])
    held = [world.submit_running(spec(gpus=1, group="q"), "n1") for _ in range(3)]
    before = [task.id for job in held for task in world.tasks(job)]
    if lost:
        world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=60_000))
    machine = shapes[other]
    world.tell("agent.sim", f.NodeSeen(node=machine, alive=() if lost else tuple(before)))
    late = [world.submit(gpus=1, group="q") for _ in range(5)]
    for _ in range(3):
        world.wait(1).settle()
        known = {gpu.index for gpu in machine.gpus if not gpu.mig}
        taken = [share.index for task in world.state.kept.tasks.values() for share in task.gpus]
        new = [share.index for job in late for task in world.tasks(job) for share in task.gpus]
        assert set(new) <= known
        assert len(taken) == len(set(taken)), "none is given that is held"
        books(world)
        world.finish(*[job for job in held if world.tasks(job)])
        again(world)
    use = world.state.use[NodeId("n1")]
    held_now = [job for job in (*held, *late) if world.tasks(job)]
    assert sum(use.gpu_milli) == 1000 * len(held_now)
    world.finish(*held_now)
    assert sum(world.state.use[NodeId("n1")].gpu_milli) == 0


# --- K: one card, two machines (NVIDIA/k8s-device-plugin#1193 and reports of machines cloned with their identity) -----


def told(gpu: Gpu) -> Gpu:
    """The card with an identity such as a driver tells."""
    return replace(gpu, uuid=f"GPU-{int(gpu.uuid[5]):08x}-0000-0000-0000-{gpu.index:012x}")


def cards_in_use(world: World) -> list[str]:
    """The identity of every card that somebody has, once per share."""
    held = [(task.node, share.index) for task in world.state.kept.tasks.values() for share in task.gpus]
    return [gpu.uuid for name, k in held for gpu in world.state.kept.nodes[name].gpus if gpu.index == k]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_card_that_two_machines_announce_is_given_out_once_and_by_the_second_when_the_first_is_gone(
    is_full: bool, shared: int, restart: bool
) -> None:
    # The host was renamed and its agent began anew; or a cluster's node has an agent of its own.
    own, others = (tuple(map(told, node(name, gpus=2).gpus)) for name in ("n1", "n2"))
    first = replace(node("n1", gpus=2), gpus=own)
    cards = own[:shared] + others[shared:]
    other = replace(node("n2", gpus=2), agent="two", gpus=cards)
    third = replace(node("n3", gpus=2), agent="three", gpus=cards)
    world = World(first)
    jobs = [world.submit(gpus=1) for _ in range(4)]
    if is_full:
        world.settle()
    for machine in (other, third):
        world.tell(f"agent.{machine.agent}", f.NodeSeen(node=machine))
    if restart:
        again(world)
    world.settle()
    assert sorted(cards_in_use(world)) == [gpu.uuid for gpu in own]
    assert node_view(world.state, world.state.kept.nodes[NodeId("n2")]).why.startswith("has a card of node n1")
    assert "same machine as another" in str(explain(world.state, jobs[3], world.at))
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=60_000))
    if restart:
        again(world)
    world.wait(1).settle()
    [now] = {task.node for job in jobs for task in world.tasks(job)}
    assert now == "n2", "the first of those that wait, and one of them"
    assert [world.state.kept.nodes[NodeId(name)].twin for name in ("n1", "n2", "n3")] == ["", "", "n2"]
    world.see(first).wait(1).settle()
    assert world.state.kept.nodes[NodeId("n1")].twin == "n2", "whoever comes back finds its cards with the other"
    assert {task.node for job in jobs for task in world.tasks(job)} == {"n2"}
    world.tell("agent.two", f.NodeSeen(node=replace(other, gpus=())))
    world.settle()
    assert world.state.kept.nodes[NodeId("n1")].takes_work
    assert len(cards_in_use(world)) == len(set(cards_in_use(world)))


# --- H: the slices of a card change while a slice runs (Project-HAMi/HAMi#948, #3077) ---------------------------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("after", [*LAYOUTS, "off", "free"])
@pytest.mark.parametrize("before", [*LAYOUTS, "free"])
def test_a_card_that_is_cut_anew_under_a_running_slice_gives_nothing_that_lies_over_it(
    before: str, after: str, restart: bool
) -> None:
    wanted = {"halves": "3g.20gb", "small": "1g.5gb", "mixed": "2g.10gb", "whole": "7g.40gb", "free": "3g.20gb"}
    world = World(cut(before))
    first = world.submit(spec(roles=slice_of(wanted[before])))
    world.settle()
    assert world.job(first).state == JobState.RUNNING
    world.see(cut(after)).wait(1)
    if restart:
        again(world)
    late = [world.submit(spec(roles=slice_of(profile))) for profile in (*wanted.values(), "1g.5gb", "2g.10gb")]
    late += [world.submit(gpus=0.25), world.submit(gpus=0, gpu_memory_mib=10_000), world.submit(gpus=1)]
    world.settle()
    assert world.job(first).state == JobState.RUNNING
    shares = [share for task in world.state.kept.tasks.values() for share in task.gpus]
    masks = [share.slots for share in shares]
    assert all(not one & two for k, one in enumerate(masks) for two in masks[k + 1 :])
    whole = [share for share in shares if not share.slots]
    assert not whole, "what is not a slice has no room beside one"
    books(world)
    world.finish(*[job for job in (first, *late) if world.tasks(job)])
    for job in late:
        if world.job(job).state == JobState.WAITING:
            world.cancel(job)
    world.settle()
    use = world.state.use[NodeId("n1")]
    assert (sum(use.gpu_milli), sum(use.gpu_memory_mib)) == (0, 0)
    fits = world.submit(gpus=1) if after == "off" else world.submit(spec(roles=slice_of(wanted[after])))
    world.settle()
    assert world.job(fits).state == JobState.RUNNING


def test_a_card_that_is_cut_under_whole_cards_and_shares_gives_no_slice_until_they_are_gone() -> None:
    for asked in ({"gpus": 1}, {"gpus": 0.5}, {"gpus": 0, "gpu_memory_mib": 10_000}):
        for layout in ("halves", "free"):
            world = World(cut("off"))
            first = world.submit_running(spec(**asked), "n1")
            world.see(cut(layout)).wait(1)
            small = world.submit(spec(roles=slice_of("3g.20gb")))
            world.settle()
            assert world.job(small).state == JobState.WAITING, (asked, layout)
            world.finish(first)
            world.settle()
            assert world.job(small).state == JobState.RUNNING, (asked, layout)


# --- K04: all machines of a kind are closed for a while (armadaproject/armada#4946) -----------------------------------


@pytest.mark.parametrize("how", ["drained", "lost", "problem", "quarantine", "gpus away", "other pool"])
def test_a_job_for_machines_that_are_all_closed_just_now_waits_and_is_not_refused(how: str) -> None:
    drive = Drive(node("n1", model="H200"), node("n2", model="T4"), node("n3", model="T4", pool="other"))
    machine = node("n1", model="H200")
    acts: dict[str, tuple[f.Fact, f.Fact]] = {
        "drained": (
            f.DrainSet(node=machine.id, drained=True, by="admin"),
            f.DrainSet(node=machine.id, drained=False, by="admin"),
        ),
        "lost": (f.NodeLost(node=machine.id, silent_ms=60_000), f.NodeSeen(node=machine)),
        "problem": (f.NodeSeen(node=replace(machine, problem="NVML: Unknown Error")), f.NodeSeen(node=machine)),
        "quarantine": (f.NodeQuarantined(node=machine.id, problem="x"), f.NodeQuarantined(node=machine.id, problem="")),
        "gpus away": (f.NodeSeen(node=replace(machine, gpus=())), f.NodeSeen(node=machine)),
        "other pool": (
            f.NodeAssigned(node=machine.id, pool="other", by="admin"),
            f.NodeAssigned(node=machine.id, pool="", by="admin"),
        ),
    }
    lane = {
        "drained": "admission", "other pool": "admission", "quarantine": "telemetry",
        "problem": "agent.sim", "gpus away": "agent.sim",
    }  # fmt: skip
    away, back = acts[how]
    drive.later(10, lambda: drive.tell(lane.get(how, "telemetry"), away))
    job = drive.ask(20, gpus=8, gpu_models=["H200"])
    drive.later(100, lambda: drive.tell(lane.get(how, "agent.sim"), back))
    drive.until(50)
    if how not in ("other pool", "gpus away"):
        assert job.refused is None
        assert drive.is_waiting(job) == [True]
    drive.until(120)
    if job.refused is None:
        assert drive.is_running(job) == [True]


# --- G: labels of a level change under a running gang (kubernetes-sigs/kueue#8748) ------------------------------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("repair_s", [0, 600])
def test_nodes_that_move_to_other_racks_under_a_gang_move_nobody_and_a_new_member_stands_by_the_new_labels(
    repair_s: int, restart: bool
) -> None:
    rack = "topology.gangline.dev/rack"

    def at(name: str, where: str) -> Node:
        return node(name, gpus=1, labels={rack: where})

    drive = Drive(*(at(f"n{k}", "r1") for k in range(3)), at("n3", "r2"), at("n4", "r2"))
    gang = drive.ask(0, tasks=2, gpus=1, topology="rack", repair_s=repair_s)
    drive.until(10)
    first, second = drive.where(gang)
    assert first == "n3", "the rack that it fills"
    drive.see(at(second, "r1"))
    if restart:
        drive.restart()
    drive.until(20)
    assert drive.where(gang) == [first, second]
    drive.lose(first)
    drive.until(30)
    assert drive.is_running(gang) == [True]
    assert {drive.state.kept.nodes[NodeId(name)].labels[rack] for name in drive.where(gang)} == {"r1"}
    assert (drive.job(gang.id).attempt == 1) is bool(repair_s)
    drive.finish_all()


# --- K01: a machine that comes back with its tasks while the second attempt waits (hashicorp/nomad#12680, #15483) -----


@pytest.mark.parametrize("answers", ["alive", "dead", "alive, then its lease ran out"])
@pytest.mark.parametrize("pinned", [False, True])
def test_tasks_of_a_lost_machine_that_come_back_are_stopped_once_and_the_job_runs_once(
    answers: str, pinned: bool
) -> None:
    machine = node("n1", gpus=4, labels={"host": "n1"})
    drive = Drive(machine, node("n2", gpus=1))
    job = drive.ask(0, gpus=4, stop=20, retries=0, node_selector={"host": "n1"} if pinned else {})
    drive.until(10)
    old = [task.id for task in drive.tasks(job.id)]
    drive.lose("n1")
    drive.until(30)
    assert drive.is_waiting(job) == [True]
    drive.tell("agent.sim", f.NodeSeen(node=machine, alive=() if answers == "dead" else tuple(old)))
    drive.until(31)
    assert all(drive.job(job.id).attempt == 1 or name not in drive.job(job.id).tasks for name in old)
    assert bool(drive.job(job.id).tasks) is (answers == "dead")
    if answers == "alive, then its lease ran out":
        drive.tell("agent.sim", f.TaskExited(task=old[0], cause=f.ExitCause.BUS_LOST, exit_code=143))
    if answers != "dead":
        drive.tell("agent.sim", f.GpusEmpty(tasks=tuple(old)))
    drive.until(60)
    assert drive.is_running(job) == [True]
    assert (drive.job(job.id).attempt, len(drive.state.kept.tasks)) == (2, 1)
