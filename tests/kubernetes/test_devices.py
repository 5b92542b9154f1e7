"""Which devices a pod gets, and who says so: by count, by annotation, by claims that we allocate."""

from typing import Any

from tests.kubernetes.house import House, opened

from dollhouse.loop import live

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """The plain environment of a pod's container."""
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}


def test_in_mode_annotation_pods_of_one_node_get_different_devices() -> None:
    live(annotation_story())


async def annotation_story() -> None:
    async with opened(nodes=1, mode="annotation") as house:
        uuids = ",".join(f"GPU-{k}" for k in range(8))
        note = {"gangline.dev/gpu-uuids": uuids}
        house.kubelets.change_node("n0", lambda n: {**n, "metadata": {**n["metadata"], "annotations": note}})
        await house.until(lambda: house.world.state.kept.nodes["n0"].gpus[0].uuid == "GPU-0")
        await house.apply("gang", tasks=4, gpus=2, command=["sleep"])
        await house.phase("gang", "Running")
        pods = await house.pods()
        seen = [variables(pod)["NVIDIA_VISIBLE_DEVICES"].split(",") for pod in pods]
        assert sorted(uuid for some in seen for uuid in some) == sorted(uuids.split(","))
        for pod in pods:
            assert "nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"]["limits"]
            indexes = pod["metadata"]["annotations"]["gangline.dev/gpus"].split(",")
            assert variables(pod)["CUDA_VISIBLE_DEVICES"] == ",".join(f"GPU-{k}" for k in indexes)


def test_in_mode_annotation_two_shares_of_one_gpu_are_on_one_gpu() -> None:
    live(share_story())


async def share_story() -> None:
    async with opened(nodes=1, gpus=1, mode="annotation") as house:
        await house.apply("half", tasks=2, gpus="500m", command=["sleep"])
        await house.phase("half", "Running")
        pods = await house.pods()
        assert [variables(pod)["NVIDIA_VISIBLE_DEVICES"] for pod in pods] == ["0", "0"]


def test_in_mode_count_a_share_of_a_gpu_fails_with_advice() -> None:
    live(count_share_story())


async def count_share_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await house.apply("half", gpus="500m", command=["sleep"])
        found = await house.phase("half", "Failed")
        assert "use mode annotation or dra" in found["status"]["message"]


async def offer(house: House, node: str, count: int) -> None:
    """A DRA driver publishes a node's devices."""
    devices = [
        {
            "name": f"gpu-{k}",
            "attributes": {"uuid": {"string": f"GPU-{k}"}, "productName": {"string": "NVIDIA H100"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for k in range(count)
    ]
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    await house.ask("POST", SLICES, {"metadata": {"name": f"{node}-gpus"}, "spec": spec})


def test_in_mode_dra_claims_are_allocated_device_by_device_and_reserved_for_their_pod() -> None:
    live(dra_story())


async def dra_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 4)
        await house.until(lambda: len(house.world.state.kept.nodes["n0"].gpus) == 4)
        assert house.world.state.kept.nodes["n0"].gpus[0].model == "NVIDIA-H100"
        await house.apply("gang", tasks=2, gpus=2, command=["sleep"])
        await house.phase("gang", "Running")
        claims = house.stored("resource.k8s.io/resourceclaims")
        results = [one["status"]["allocation"]["devices"]["results"] for one in claims]
        chosen = [device["device"] for some in results for device in some]
        assert sorted(chosen) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        pods = {pod["metadata"]["uid"]: pod for pod in await house.pods()}
        for one in claims:
            (holder,) = one["status"]["reservedFor"]
            pod = pods[holder["uid"]]
            assert pod["spec"]["resourceClaims"][0]["resourceClaimName"] == one["metadata"]["name"]
            assert pod["spec"]["nodeName"] == "n0"
        for pod in pods.values():
            house.kubelets.finish(pod, 0)
        await house.phase("gang", "Succeeded")
        await house.until(lambda: not house.stored("resource.k8s.io/resourceclaims"))
