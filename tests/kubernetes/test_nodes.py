"""Nodes as the cluster has them: what is closed, taken by others, tainted, or comes back under the same name."""

from tests.kubernetes.house import Object, opened
from tests.make import role, spec

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.nodes import Terms, describe, taken_by
from gangline_kubernetes.objects import KubeNode, Meta, NodeStatus, Pod
from gangline_kubernetes.quantities import mebibytes, milli, whole


def test_closed_tainted_and_unready_nodes_are_no_room() -> None:
    """K04."""
    live(closed_story())


async def closed_story() -> None:
    async with opened(nodes=4) as house:

        def cordon(node: Object, closed: bool) -> Object:
            return {**node, "spec": {**node["spec"], "unschedulable": closed}}

        taint = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
        (first,) = await house.world.submit(
            spec(group="lab", user="ann", roles=[role(gpus=4)], node_selector={"kubernetes.io/hostname": "n0"})
        )
        await house.world.until(lambda state: state.kept.jobs[first].state == JobState.RUNNING)
        house.kubelets.change_node("n0", lambda node: cordon(node, True))
        house.kubelets.change_node("n1", lambda node: {**node, "spec": {**node["spec"], "taints": taint}})
        house.kubelets.set_ready("n2", "False")
        await house.world.until(lambda state: bool(state.kept.nodes["n0"].problem and state.kept.nodes["n2"].problem))
        await house.apply("j", gpus=8, command=["sleep"])
        assert (await house.phase("j", "Running"))["status"]["nodes"] == ["n3"]
        await house.apply("k", gpus=4, tolerations=["team=x"], command=["sleep"])
        assert (await house.phase("k", "Running"))["status"]["nodes"] == ["n1"]
        assert house.world.state.kept.jobs[first].state == JobState.RUNNING
        await house.apply("waits", gpus=4, command=["sleep"])
        await house.phase("waits", "Waiting")
        house.kubelets.change_node("n0", lambda node: cordon(node, False))
        assert (await house.phase("waits", "Running"))["status"]["nodes"] == ["n0"]


def test_room_that_pods_of_others_take_is_seen_and_comes_back() -> None:
    live(foreign_story())


async def foreign_story() -> None:
    async with opened(nodes=1) as house:
        asked = {"requests": {"nvidia.com/gpu": "6", "cpu": "90"}, "limits": {"nvidia.com/gpu": "6"}}
        body = {
            "metadata": {"name": "foreign"},
            "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "x:1", "resources": asked}]},
        }
        await house.ask("POST", "/api/v1/namespaces/default/pods", body)
        await house.until(lambda: len(house.world.state.kept.nodes["n0"].gpus) == 2)
        assert house.world.state.kept.nodes["n0"].cpu_milli == 6_000
        # It fits once they are gone, so it waits and is not refused as one that never could.
        await house.apply("train", gpus=4, cpus=60, command=["sleep"])
        await house.phase("train", "Waiting")
        await house.ask("DELETE", "/api/v1/namespaces/default/pods/foreign")
        await house.phase("train", "Running", within_s=120)


def test_a_node_that_comes_back_under_its_name_starts_empty() -> None:
    """P04, second half."""
    live(reborn_story())


async def reborn_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=8, command=["sleep"])
        await house.phase("train", "Running")
        house.kubelets.remove("n0")
        await house.until(lambda: house.world.state.kept.nodes["n0"].lost)
        house.kubelets.silent.discard("n0")
        house.kubelets.add_node("n0")
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING)
        assert len([pod for pod in house.stored("/pods") if pod["status"]["phase"] == "Running"]) == 1


def test_a_replacement_member_is_not_put_on_the_survivors_node() -> None:
    """G07: the gang moves as a whole, and nobody aims at the node that is not ready."""
    live(replacement_story())


async def replacement_story() -> None:
    async with opened(nodes=3, gpus=8, loss_s=10.0) as house:
        await house.apply("gang", tasks=2, gpus=8, command=["sleep"])
        await house.phase("gang", "Running")
        lost = house.status("gang")["nodes"][0]
        house.kubelets.lose(lost)
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING)
        nodes = sorted(house.world.state.kept.tasks[task].node for task in house.job(1).tasks)
        assert len(set(nodes)) == 2
        assert lost not in nodes


def test_quantities_are_read_as_the_cluster_writes_them() -> None:
    assert [milli(text) for text in ("2", "500m", "0.5", "1e3", 4)] == [2000, 500, 500, 1_000_000, 4000]
    assert [mebibytes(text) for text in ("1Gi", "1536Ki", "1G", "129e6")] == [1024, 1, 953, 123]
    assert mebibytes("1536Ki", up=True) == 2
    assert [whole(text) for text in ("8", "nonsense", "")] == [8, 0, 0]


def test_a_nodes_gpus_are_read_from_labels_and_the_device_plugins_count() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100", "nvidia.com/gpu.memory": "40960", "gangline.dev/pool": "big"}
    allocatable = {"cpu": "63500m", "memory": "256Gi", "nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "7", "pods": "9"}
    notes = {"gangline.dev/gpu-uuids": "GPU-a,GPU-b"}
    node = KubeNode(
        metadata=Meta(name="n", labels=labels, annotations=notes), status=NodeStatus(allocatable=allocatable)
    )
    found = describe(node, Terms(agent="kubernetes.k", pool="default", gpu_resource="nvidia.com/gpu"))
    assert [(gpu.index, gpu.model, gpu.memory_mib, gpu.uuid) for gpu in found.gpus] == [
        (0, "NVIDIA-A100", 40960, "GPU-a"),
        (1, "NVIDIA-A100", 40960, "GPU-b"),
    ]
    assert (found.pool, found.cpu_milli, found.memory_mib) == ("big", 63_500, 262_144)
    assert found.devices == {"nvidia.com/mig-1g.5gb": 7}
    assert found.problem == "not ready"
    assert found.is_watched


def test_a_kubelet_takes_so_many_pods_and_those_of_others_count() -> None:
    """F05: places for containers are room like any other."""
    terms = Terms(agent="k", pool="default", gpu_resource="nvidia.com/gpu")
    meta = Meta(name="n0", labels={})
    foreign = taken_by([Pod(metadata=Meta(name="a")), Pod(metadata=Meta(name="b"))])
    node = KubeNode(metadata=meta, status=NodeStatus(allocatable={"cpu": "4", "pods": "10"}))
    assert describe(node, terms, taken=foreign).tasks_max == 8
    silent = KubeNode(metadata=meta, status=NodeStatus(allocatable={"cpu": "4"}))
    assert describe(silent, terms, taken=foreign).tasks_max is None
