"""Public reports about gangs, quota and nodes, played as pods: the same must hold on a cluster as anywhere else."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from tests.kubernetes import test_handing
from tests.kubernetes.house import JOBS, NAMESPACE, House, opened
from tests.kubernetes.test_adopted import make

from dollhouse.loop import live
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.job import ENDS, JobState
from gangline_wire.requests import SetGroup
from kubedouble.faults import Fault
from kubedouble.kubelet import Life
from kubedouble.store import Change

Object = dict[str, Any]


async def limit(house: House, **amounts: int) -> None:
    """What the group may use."""
    await house.world.ask(SetGroup(group=Group(path="lab", limit=amounts), by="root"))


def used(house: House) -> int:
    """Whole GPUs that the group uses."""
    return house.world.state.usage.get("lab", {}).get("gpu_milli", 0) // 1000


def running(house: House, name: str) -> int:
    """Pods of a Job object that run."""
    return sum(
        pod["status"].get("phase") == "Running" and pod["metadata"]["name"].startswith(name)
        for pod in house.stored("/pods")
    )


async def ended(house: House, *jobs: int, within_s: float = 300.0) -> None:
    """Wait until these jobs are over."""
    await house.until(lambda: all(house.job(job).state in ENDS for job in jobs), within_s)


# --- A: gangs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("g1", "g2"), ("g2", "g1")])
def test_two_gangs_that_each_need_all_nodes_run_one_after_the_other(names: tuple[str, str]) -> None:
    """A01 volcano-sh/volcano#3373."""
    live(both_story(names))


async def both_story(names: tuple[str, str]) -> None:
    mixed: list[Counter[str]] = []

    async with opened(nodes=4, life=lambda pod: Life(run_s=60.0)) as house:

        def look(change: Change) -> None:
            if change.storage == "/pods":
                here = [pod for pod in house.stored("/pods") if pod["status"].get("phase") in ("Pending", "Running")]
                count = Counter(pod["metadata"]["name"][:2] for pod in here)
                if len(count) > 1:
                    mixed.append(count)

        house.double.store.listeners.append(look)
        await asyncio.gather(
            *(house.apply(name, tasks=4, gpus=8, command=["x"]) for name in names), return_exceptions=True
        )
        await house.until(lambda: len(house.world.state.kept.jobs) == 2)
        began = asyncio.get_running_loop().time()
        await ended(house, 1, 2)
        assert asyncio.get_running_loop().time() - began < 130
        assert not mixed, "no gang holds a part of what the other needs"
        assert {house.job(1).state, house.job(2).state} == {JobState.SUCCEEDED}


def test_two_gangs_of_bare_pods_that_come_mixed_are_bound_one_after_the_other() -> None:
    """A01, with pods of somebody else whose members arrive in turns."""
    live(mixed_story())


async def mixed_story() -> None:
    async with opened(nodes=2, gpus=2) as house:
        for number in range(4):
            for gang in ("a", "b"):
                words = {"scheduling.x-k8s.io/pod-group": gang, "gangline.dev/gang-size": "4"}
                await make(house, f"{gang}-{number}", annotations=words)
        await house.until(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in house.stored("/pods")) == 4)
        await asyncio.sleep(30)
        bound = [pod for pod in house.stored("/pods") if pod["spec"].get("nodeName")]
        assert len({pod["metadata"]["name"][0] for pod in bound}) == 1
        for pod in bound:
            house.kubelets.finish(pod, 0)
        await house.until(lambda: all(pod["spec"].get("nodeName") for pod in house.stored("/pods")))


def test_a_stream_of_gangs_is_worked_off_and_nobody_holds_a_part() -> None:
    """A02 kubernetes-sigs/scheduler-plugins#117."""
    live(stream_story())


async def stream_story() -> None:
    sizes = [(5 * k % 8) + 1 for k in range(16)]
    async with opened(nodes=2, life=lambda pod: Life(run_s=30.0)) as house:
        began = asyncio.get_running_loop().time()
        for number, size in enumerate(sizes):
            await house.apply(f"s{number}", tasks=size, gpus=1, command=["x"])
            await asyncio.sleep(5)
        await house.until(lambda: len(house.world.state.kept.jobs) == len(sizes))
        await ended(house, *range(1, len(sizes) + 1), within_s=600)
        # 16 GPUs, 30 s each, and gangs that do not fill them: twice the least possible is far below a deadlock.
        assert asyncio.get_running_loop().time() - began < 2 * sum(sizes) * 30 / 16


def test_a_gang_that_lost_a_node_is_released_whole_and_starts_whole() -> None:
    """A04 volcano-sh/volcano#5805 and K10 skypilot-org/skypilot#825: every member's node is watched."""
    live(broken_story())


async def broken_story() -> None:
    async with opened(nodes=3, gpus=1, loss_s=20.0) as house:
        await house.apply("gang", tasks=3, gpus=1, command=["x"], grace="1s")
        await house.phase("gang", "Running")
        house.kubelets.remove("n2")
        await house.until(lambda: house.job(1).state == JobState.WAITING)
        await house.until(lambda: used(house) == 0)
        assert running(house, "gang") == 0, "nothing is held by a gang that does not run"
        await house.apply("single", gpus=1, command=["x"])
        await house.phase("single", "Running")
        house.kubelets.add_node("n2", gpus=1)
        await asyncio.sleep(10)
        assert running(house, "gang") == 0, "the room of two is not held for a gang of three"
        (pod,) = (one for one in await house.pods() if one["metadata"]["name"].startswith("single"))
        house.kubelets.finish(pod, 0)
        await house.until(lambda: running(house, "gang") == 3)


def test_a_gang_above_its_limit_starts_no_member_and_whole_once_the_limit_is_raised() -> None:
    """A07 kai-scheduler/KAI-Scheduler#500."""
    live(limited_story())


async def limited_story() -> None:
    async with opened(nodes=2) as house:
        await limit(house, gpu_milli=4000)
        await house.apply("gang", tasks=6, gpus=1, command=["x"])
        found = await house.phase("gang", "Refused")
        assert found["status"]["reason"] == "NeverFitsLimit"
        assert "4" in found["status"]["message"]
        assert not house.stored("/pods")
        await limit(house, gpu_milli=6000)
        await house.phase("gang", "Running", within_s=150)
        assert running(house, "gang") == 6


def test_a_member_whose_image_never_comes_gives_the_others_room_back() -> None:
    """A08 dstackai/dstack#4146, with a start limit."""
    live(stuck_story())


async def stuck_story() -> None:
    def life(pod: Object) -> Life:
        slow = pod["metadata"]["name"].startswith("gang") and pod["spec"]["nodeName"] == "n1"
        return Life(start_s=10_000.0 if slow else 0.0)

    async with opened(nodes=2, life=life) as house:
        await house.apply("gang", tasks=2, gpus=8, command=["x"], start_limit="30s", retries=0)
        await house.until(lambda: running(house, "gang") == 1)
        began = asyncio.get_running_loop().time()
        await house.until(lambda: house.job(1).state not in (JobState.STARTING, JobState.RUNNING), 60)
        assert asyncio.get_running_loop().time() - began < 40
        await house.apply("other", gpus=8, command=["x"], priority=10)
        await house.phase("other", "Running")


# --- B: quota ---------------------------------------------------------------------------------------------


def test_a_refused_duplicate_charges_nothing() -> None:
    """B01 kubernetes/kubernetes#76787."""
    live(duplicate_story())


async def duplicate_story() -> None:
    async with opened(nodes=1) as house:
        await limit(house, gpu_milli=8000)
        await house.apply("a", gpus=2, command=["x"])
        await house.phase("a", "Running")
        for _ in range(10):
            with pytest.raises(AssertionError, match="already exists"):
                await house.apply("a", gpus=2, command=["x"])
        assert used(house) == 2
        assert len(house.world.state.kept.jobs) == 1


def test_quota_comes_back_exactly_when_the_last_pod_is_gone() -> None:
    """B05 kubernetes-sigs/kueue#14811 and B10 ray-project/ray#18872."""
    live(exact_story())


async def exact_story() -> None:
    async with opened(nodes=1, life=lambda pod: Life(stop_s=20.0)) as house:
        await limit(house, gpu_milli=4000)
        await house.apply("g", tasks=4, gpus=1, command=["x"], grace="60s")
        await house.apply("w", tasks=4, gpus=1, command=["x"], grace="60s")
        await house.phase("g", "Running")
        await house.ask("DELETE", f"{JOBS}/g")
        await house.until(lambda: house.job(1).state == JobState.STOPPING)
        await asyncio.sleep(10)
        assert used(house) == 4, "its pods are there, and so is what they use"
        assert running(house, "w") == 0
        await house.phase("w", "Running")
        assert used(house) == 4
        await house.ask("DELETE", f"{JOBS}/w")
        await house.until(lambda: not house.stored("gangline.dev/jobs"))
        assert used(house) == 0


def test_a_job_deleted_while_its_pods_are_being_made_leaves_no_usage() -> None:
    """B10: killed while some members are pending."""
    live(early_story())


async def early_story() -> None:
    async with opened(nodes=1, life=lambda pod: Life(start_s=2.0)) as house:
        for number in range(6):
            house.double.faults.add(Fault(method="POST", path="/pods", delay_s=0.3 * number))
            await house.apply(f"k{number}", tasks=3, gpus=1, command=["x"], grace="1s")
            await asyncio.sleep(0.2 * number)
            await house.ask("DELETE", f"{JOBS}/k{number}")
            await house.until(lambda: not house.stored("gangline.dev/jobs"))
            await house.until(lambda: not house.stored("/pods"))
        assert not any(any(use.gpu_milli) for use in house.world.state.use.values())


def test_no_mix_of_fractions_and_memory_slips_below_a_gpu_limit() -> None:
    """B13 kai-scheduler/KAI-Scheduler#1668."""
    live(mix_story())


async def mix_story() -> None:
    async with opened(nodes=1, gpus=2, mode="annotation") as house:
        await limit(house, gpu_milli=1000)
        # Nodes have 81,559 MiB per GPU: each of these is half of one, however it is written.
        notes = {
            "by-fraction": {"gpu-fraction": "0.5"},
            "by-memory": {"gpu-memory": "40779"},
            "third": {"gpu-fraction": "0.3"},
            "whole": {"gangline.dev/gpu-count": "1"},
        }
        for name, note in notes.items():
            await test_handing.make(house, name, env=test_handing.TAKES, meta={"annotations": note})
        await asyncio.sleep(20)
        assert house.world.state.usage["lab"]["gpu_milli"] <= 1000
        bound = [pod["metadata"]["name"] for pod in house.stored("/pods") if pod["spec"].get("nodeName")]
        assert len(bound) == 2


def test_a_full_gpu_limit_stops_no_pod_without_gpus() -> None:
    """B14 volcano-sh/volcano#5001."""
    live(dimension_story())


async def dimension_story() -> None:
    async with opened(nodes=2) as house:
        await limit(house, gpu_milli=8000, cpu_milli=100_000)
        for number in range(16):
            await make(house, f"p{number}")
        await house.until(lambda: used(house) == 8)
        await house.apply("c", gpus=0, cpus=2, command=["x"])
        await house.phase("c", "Running", within_s=10)
        assert used(house) == 8


def test_lowering_a_limit_and_restarting_keeps_what_runs() -> None:
    """B16 apache/yunikorn-core#1068."""
    live(lowered_story())


async def lowered_story() -> None:
    async with opened(nodes=1) as house:
        await limit(house, gpu_milli=8000)
        for name, gpus in (("a", 3), ("b", 3), ("c", 2)):
            await house.apply(name, gpus=gpus, command=["x"])
            await house.phase(name, "Running")
        await limit(house, gpu_milli=4000)
        for name in ("kubernetes", "placement", "queue"):
            await house.world.crash(name)
            house.world.restart(name)
        await house.apply("d", gpus=1, command=["x"])
        await asyncio.sleep(30)
        assert used(house) == 8
        assert [running(house, name) for name in "abcd"] == [1, 1, 1, 0]
        await house.ask("DELETE", f"{JOBS}/a")
        await house.ask("DELETE", f"{JOBS}/c")
        await house.phase("d", "Running", within_s=90)


# --- K: nodes ---------------------------------------------------------------------------------------------


def test_what_a_node_that_was_cut_off_says_later_does_not_touch_the_second_run() -> None:
    """K01 kubernetes/kubernetes#30972."""
    live(cut_off_story())


async def cut_off_story() -> None:
    async with opened(nodes=2, gpus=4, loss_s=60.0) as house:
        await house.apply("j", gpus=4, command=["x"], grace="1s")
        (node,) = (await house.phase("j", "Running"))["status"]["nodes"]
        house.kubelets.lose(node)
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING, 120)
        assert house.world.state.use[node].gpu_milli == [1000] * 4, "its GPUs are blocked until it is seen again"
        house.kubelets.silent.discard(node)
        house.kubelets.set_ready(node, "True")
        for pod in house.stored("/pods"):
            if pod["spec"]["nodeName"] == node:
                house.kubelets.hear(Change(0, "/pods", "MODIFIED", pod))
        await house.until(lambda: not any(house.world.state.use[node].gpu_milli))
        assert house.job(1).attempt == 2
        assert house.job(1).state == JobState.RUNNING


def test_short_silences_of_a_kubelet_move_nothing_however_many_there_are() -> None:
    """K02 skypilot-org/skypilot#10155 and K07 kubernetes/kubernetes#118559."""
    live(blips_story())


async def blips_story() -> None:
    async with opened(nodes=2, loss_s=60.0) as house:
        await house.apply("j", gpus=8, command=["x"])
        (node,) = (await house.phase("j", "Running"))["status"]["nodes"]
        for _ in range(10):
            house.kubelets.set_ready(node, "Unknown")
            await asyncio.sleep(20)
            house.kubelets.set_ready(node, "True")
            await asyncio.sleep(5)
        assert house.job(1).attempt == 1
        assert house.job(1).state == JobState.RUNNING
        assert not house.world.state.kept.nodes[node].lost


def counts(node: Object, gpus: int) -> Object:
    """The node with so many GPUs by its device plugin's word."""
    room = {**node["status"]["allocatable"], "nvidia.com/gpu": str(gpus)}
    return {**node, "status": {**node["status"], "allocatable": room}}


def test_a_node_with_more_in_use_than_there_is_has_no_room() -> None:
    """K05 volcano-sh/volcano#1818."""
    live(shrunk_story())


async def shrunk_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("j0", gpus=8, command=["x"])
        await house.phase("j0", "Running")
        house.kubelets.change_node("n0", lambda node: counts(node, 6))
        await asyncio.sleep(2)
        house.kubelets.change_node("n0", lambda node: {**node, "metadata": {**node["metadata"], "annotations": {}}})
        await house.apply("j1", gpus=6, command=["x"])
        for name in ("placement", "kubernetes"):
            await house.world.crash(name)
            house.world.restart(name)
        await asyncio.sleep(20)
        assert running(house, "j1") == 0
        assert running(house, "j0") == 1, "a difference between what is there and what is in use kills nothing"
        assert house.job(2).state == JobState.WAITING


def test_a_gpu_count_that_blinks_evicts_nothing_and_places_nothing() -> None:
    """K11 armadaproject/armada#4390."""
    live(blink_story())


async def blink_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("wide", gpus=4, command=["x"])
        for number in range(3):
            await house.apply(f"s{number}", gpus=1, command=["x"])
        for name in ("wide", "s0", "s1", "s2"):
            await house.phase(name, "Running")
        house.kubelets.change_node("n0", lambda node: counts(node, 0))
        await asyncio.sleep(1)
        await house.apply("j", gpus=1, command=["x"])
        await asyncio.sleep(9)
        assert running(house, "j") == 0, "nothing new while more is in use than there is"
        house.kubelets.change_node("n0", lambda node: counts(node, 8))
        await house.phase("j", "Running")
        assert {house.job(number).attempt for number in range(1, 5)} == {1}
        assert all(house.job(number).state == JobState.RUNNING for number in range(1, 5))


def test_a_job_of_which_a_node_lost_power_is_not_shown_as_running() -> None:
    """K10: the gang's other members are not the only ones that are watched."""
    live(power_story())


async def power_story() -> None:
    async with opened(nodes=5, loss_s=30.0) as house:
        await house.apply("g", tasks=4, gpus=8, command=["x"], grace="1s")
        found = await house.phase("g", "Running")
        house.kubelets.lose(found["status"]["nodes"][2])
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING, 120)
        nodes = {task.node for task in house.world.state.tasks_of(house.world.state.kept.jobs[JobId(1)])}
        assert found["status"]["nodes"][2] not in nodes
        assert len(nodes) == 4


# --- P: watching ------------------------------------------------------------------------------------------


def test_a_pod_deleted_while_the_server_is_away_gives_its_room_to_the_next() -> None:
    """P04 kubernetes/kubernetes#51313, with a node that comes back under its name."""
    live(unseen_story())


async def unseen_story() -> None:
    async with opened(nodes=1) as house:
        await make(house, "p", gpus=8)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        house.double.faults.away = True
        house.double.store.hang_up()
        await asyncio.sleep(1)
        house.kubelets.remove("n0")
        house.kubelets.silent.discard("n0")
        house.kubelets.add_node("n0")
        house.double.store.compact()
        await asyncio.sleep(5)
        house.double.faults.away = False
        await make(house, "q", gpus=8)
        await house.until(lambda: any(pod["spec"].get("nodeName") == "n0" for pod in house.stored("/pods")), 120)
        assert [pod["metadata"]["name"] for pod in house.stored("/pods", NAMESPACE)] == ["q"]


@pytest.mark.parametrize("fault", ["is_cut", "is_cut_after"])
def test_a_binding_whose_request_or_answer_was_lost_is_made_once(fault: str) -> None:
    """P05 kubernetes/kubernetes#28883, for pods of others."""
    live(binding_story(fault))


async def binding_story(fault: str) -> None:
    async with opened(nodes=2) as house:
        house.double.faults.add(Fault(method="POST", path="/binding", **{fault: True}))
        await make(house, "p", gpus=8)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        (pod,) = house.stored("/pods")
        use = {node: sum(use.gpu_milli) for node, use in house.world.state.use.items()}
        assert use == {pod["spec"]["nodeName"]: 8000, **{n: 0 for n in use if n != pod["spec"]["nodeName"]}}
        assert house.job(1).attempt == 1


SAID_ON_THE_WAY = {
    "nothing": Fault(is_empty=True),
    "a conflict that is none": Fault(status=409, reason="Conflict", message="the object has been modified"),
    "a proxy's failure": Fault(status=502, is_bare=True),
}


@pytest.mark.parametrize("what", SAID_ON_THE_WAY)
def test_a_binding_that_was_not_made_is_made_whatever_was_said_on_the_way(what: str) -> None:
    """P05: an answer without an object, or a conflict with nobody, says nothing of where the pod is."""
    live(unmade_story(replace(SAID_ON_THE_WAY[what], method="POST", path="/binding")))


async def unmade_story(fault: Fault) -> None:
    async with opened(nodes=2) as house:
        house.double.faults.add(fault)
        await make(house, "p", gpus=8)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        (pod,) = house.stored("/pods")
        use = {node: sum(use.gpu_milli) for node, use in house.world.state.use.items()}
        assert {node for node, taken in use.items() if taken} == {pod["spec"]["nodeName"]}


def test_a_pod_that_was_answered_with_nothing_is_made_once() -> None:
    """P02 and P05: neither failed for words that nobody can read, nor made twice."""
    live(unread_story())


async def unread_story() -> None:
    async with opened(nodes=2) as house:
        house.double.faults.add(Fault(method="POST", path="/pods", is_empty=True))
        await house.apply("j", gpus=8, tasks=2, command=["x"])
        await house.phase("j", "Running")
        assert len(house.stored("/pods")) == 2
        assert house.job(1).attempt == 1
