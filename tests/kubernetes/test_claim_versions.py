"""Claims and devices in every version that clusters serve them in: the newest that is there is used."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.kubernetes.house import NAMESPACE, PODS, MemoryTransport, opened

from dollhouse.clock import LoopClock
from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kit.ids import CountedIds
from gangline_kubernetes.api import Api
from gangline_kubernetes.claim_versions import FLAT, NEWEST, READ, served
from gangline_kubernetes.devices import Claim, Device, DeviceRequest
from kubedouble.faults import Fault
from kubedouble.server import Double

Object = dict[str, Any]
GROUP = "resource.k8s.io"


def serving(*versions: str) -> Any:
    """Makes a server serve claims in these versions only, in this order."""

    def prepare(double: Double) -> None:
        for kind in [one for one in double.kinds if one.group == GROUP and one.version == "v1"]:
            double.kinds.drop(kind.group, kind.plural)
            for version in versions:
                double.kinds.add(replace(kind, version=version.rpartition("/")[2]))

    return prepare


async def asked(*versions: str, fault: Fault | None = None) -> str:
    """Which version is taken of these."""
    double = Double(lambda: 0.0)
    serving(*versions)(double)
    if fault is not None:
        double.faults.add(fault)
    return await served(Api(MemoryTransport(double), LoopClock(), CountedIds()))


def test_the_newest_version_that_is_served_is_taken() -> None:
    async def story() -> None:
        assert await asked(NEWEST) == NEWEST
        assert await asked(FLAT, f"{GROUP}/v1beta2") == f"{GROUP}/v1beta2"
        assert await asked(FLAT) == FLAT
        assert await asked() == NEWEST, "which is what /readyz then misses"
        assert await asked(f"{GROUP}/v9") == NEWEST
        assert await asked(FLAT, fault=Fault(path=f"/apis/{GROUP}", is_cut=True, times=9)) == FLAT, "asked until told"

    live(story())


def test_requests_and_devices_say_the_same_in_every_version() -> None:
    told = {"attributes": {"uuid": {"string": "GPU-1"}}, "capacity": {"memory": {"value": "80Gi"}}}
    flat, nested = (msgspec.convert({"name": "gpu-0", **words}, Device) for words in (told, {"basic": told}))
    assert flat.told.attributes == nested.told.attributes
    assert nested.told.capacity["memory"].value == "80Gi"
    wish = {"deviceClassName": "gpu.nvidia.com", "count": 2}
    flat, nested = (msgspec.convert({"name": "r", **words}, DeviceRequest) for words in (wish, {"exactly": wish}))
    for one in (flat, nested):
        assert one.wants is not None
        assert (one.wants.device_class_name, one.wants.count) == ("gpu.nvidia.com", 2)
    assert msgspec.convert({"name": "r", "firstAvailable": [{}]}, DeviceRequest).wants is None
    assert msgspec.convert({"metadata": {}, "spec": {"devices": {"requests": [{"name": "r", **wish}]}}}, Claim)


@pytest.mark.parametrize("version", READ)
def test_claims_are_made_and_given_in_the_version_that_the_cluster_has(version: str) -> None:
    live(version_story(version))


async def version_story(version: str) -> None:
    async with opened(nodes=1, gpus=0, mode="dra", prepare=serving(version)) as house:
        memory = {"capacity": {"memory": {"value": "80Gi"}}}
        told = [{"attributes": {"uuid": {"string": f"GPU-{k}"}}, **memory} for k in range(3)]
        devices = [
            {"name": f"gpu-{k}", **({"basic": words} if version == FLAT else words)} for k, words in enumerate(told)
        ]
        pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": "n0", "pool": pool, "devices": devices}
        await house.ask("POST", f"/apis/{version}/resourceslices", {"metadata": {"name": "n0-gpus"}, "spec": spec})
        await house.until(lambda: len(house.world.state.kept.nodes["n0"].gpus) == 3)
        assert house.world.state.kept.nodes["n0"].gpus[2].uuid == "GPU-2"
        await house.apply("train", gpus=2, command=["x"])
        await house.phase("train", "Running")
        (claim,) = house.stored(f"{GROUP}/resourceclaims")
        assert claim["apiVersion"] == version
        (request,) = claim["spec"]["devices"]["requests"]
        wish = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2}
        assert request == {"name": "gpus", **(wish if version == FLAT else {"exactly": wish})}
        assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
        # Somebody else's pod names a template of claims.
        one = {"deviceClassName": "gpu.nvidia.com"}
        requests = [{"name": "g", **(one if version == FLAT else {"exactly": one})}]
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": requests}}}}
        await house.ask("POST", f"/apis/{version}/namespaces/{NAMESPACE}/resourceclaimtemplates", template)
        container = {"name": "c", "image": "x:1", "resources": {"claims": [{"name": "g"}]}}
        uses = [{"name": "g", "resourceClaimTemplateName": "one"}]
        body = {"schedulerName": "gangline", "containers": [container], "resourceClaims": uses}
        await house.ask("POST", PODS, {"metadata": {"name": "other"}, "spec": body})
        await house.until(lambda: len(house.world.state.kept.jobs) == 2 and house.job(2).state == JobState.RUNNING)
        for pod in house.stored("/pods"):
            house.kubelets.finish(pod, 0)
        await house.until(lambda: house.job(2).state == JobState.SUCCEEDED)
        await asyncio.sleep(5)
        left = house.stored(f"{GROUP}/resourceclaims")
        assert not [one for one in left if (one.get("status") or {}).get("allocation")]
