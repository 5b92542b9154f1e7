"""Pods of one gang that may be on different nodes: launchers beside workers, heads beside groups."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import House, Object, opened
from tests.kubernetes.test_adopted import bound
from tests.kubernetes.test_handing import make, told
from tests.kubernetes.test_owners import KIND, QUEUED, Operator, define, path, spec_of, suspended
from tests.kubernetes.test_places import label, required, says

from dollhouse.loop import live
from gangline_core.job import JobState
from kubedouble.scheduler import DefaultScheduler

CPU, GPU = {"kind": "cpu"}, {"kind": "gpu"}
WANTS = {"limits": {"nvidia.com/gpu": "1"}}
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
TOLERATES = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
GANG = {"labels": {"gangline.dev/gang": "g", "gangline.dev/gang-size": "3"}}


async def taint(house: House, node: str, *taints: Object) -> None:
    """Somebody taints a node."""
    form = "application/merge-patch+json"
    await house.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": list(taints)}}, form)


async def furnished(house: House) -> None:
    """A node without a mark for launchers, two tainted ones for those who work."""
    await label(house, "n0", **CPU)
    for name in ("n1", "n2"):
        await label(house, name, **GPU)
        await taint(house, name, TAINT)
    known = house.world.state.kept.nodes
    await house.until(lambda: known["n0"].labels.get("kind") == "cpu" and all(known[n].taints for n in ("n1", "n2")))


@pytest.mark.parametrize("by_affinity", [False, True])
def test_a_launcher_for_cpu_nodes_and_workers_for_gpu_nodes_are_one_gang(by_affinity: bool) -> None:
    live(gang_story(by_affinity))


async def gang_story(by_affinity: bool) -> None:
    worker: dict[str, Any] = {"resources": WANTS, "tolerations": TOLERATES}
    worker |= {"affinity": required(says("kind", "NotIn", "cpu"))} if by_affinity else {"nodeSelector": GPU}
    async with opened(nodes=3, gpus=1) as house:
        await furnished(house)
        await make(house, "launcher", meta=GANG, nodeSelector=CPU)
        await make(house, "w-0", meta=GANG, **worker)
        await asyncio.sleep(10)
        assert bound(house) == {}, "they start together or not at all"
        await make(house, "w-1", meta=GANG, **worker)
        await house.until(lambda: len(bound(house)) == 3)
        assert bound(house)["launcher"] == "n0"
        assert {bound(house)["w-0"], bound(house)["w-1"]} == {"n1", "n2"}
        assert len(house.world.state.kept.jobs) == 1


def test_a_gang_waits_whole_while_one_of_its_roles_has_no_node() -> None:
    live(no_node_story())


async def no_node_story() -> None:
    async with opened(nodes=3, gpus=1) as house:
        await furnished(house)
        await make(house, "launcher", meta=GANG, nodeSelector={"kind": "arm"})
        for name in ("w-0", "w-1"):
            await make(house, name, meta=GANG, resources=WANTS, tolerations=TOLERATES, nodeSelector=GPU)
        await house.until(lambda: told(house, "w-0")[0] == "Unschedulable")
        assert bound(house) == {}
        house.kubelets.add_node("n3", gpus=0, labels={"kind": "arm"})
        await house.until(lambda: bound(house).get("launcher") == "n3", 90)
        assert len(bound(house)) == 3


PARTS = {
    "JobSet": lambda spec: [one["template"]["spec"]["template"] for one in spec["replicatedJobs"]],
    "PyTorchJob": lambda spec: [spec["pytorchReplicaSpecs"][name]["template"] for name in ("Master", "Worker")],
    "MPIJob": lambda spec: [spec["mpiReplicaSpecs"][name]["template"] for name in ("Launcher", "Worker")],
    "RayCluster": lambda spec: [spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]],
}


@pytest.mark.parametrize("name", list(PARTS))
@pytest.mark.parametrize("scheduler", ["gangline", "default-scheduler"])
def test_parts_of_an_owner_go_each_to_their_own_nodes(name: str, scheduler: str) -> None:
    live(owner_story(name, scheduler))


async def owner_story(name: str, scheduler: str) -> None:
    kind = KIND[name]
    async with opened(nodes=3, gpus=2) as house:
        await furnished(house)
        await define(house, kind)
        Operator(house, kind)
        DefaultScheduler(house.double)
        spec = spec_of(name, scheduler=scheduler)
        if name == "JobSet":
            one = spec["replicatedJobs"][0]
            inner = {**one["template"]["spec"], "parallelism": 1, "completions": 1}
            lead = {**one, "name": "lead", "template": {"spec": {**inner, "template": _copy(inner["template"])}}}
            one["template"]["spec"] |= {"parallelism": 2, "completions": 2}
            spec["replicatedJobs"] = [lead, one]
        first, second = PARTS[name](spec)
        first["spec"] |= {"nodeSelector": CPU}
        first["spec"]["containers"][0]["resources"] = {}
        second["spec"] |= {"nodeSelector": GPU, "tolerations": TOLERATES}
        body = {"metadata": {"name": "train", "labels": QUEUED}, "spec": spec}
        await house.ask("POST", path(kind), body)

        def trains() -> bool:
            jobs = [job for job in house.world.state.kept.jobs.values() if job.spec.name.endswith("/train")]
            return bool(jobs) and jobs[0].state == JobState.RUNNING

        await house.until(trains, 120)
        assert not suspended(house, kind, "train")
        mine = {k: node for k, node in bound(house).items() if k.startswith("train")}
        on_gpus = [node for node in mine.values() if node != "n0"]
        assert len(mine) == len(on_gpus) + 1, mine


def _copy(shape: Object) -> Object:
    return {"spec": {**shape["spec"], "containers": [dict(one) for one in shape["spec"]["containers"]]}}


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([{"key": "dedicated", "operator": "Exists"}], True),
        ([{"key": "dedicated", "operator": "Equal", "value": "x"}], True),
        ([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}], True),
        ([{"operator": "Exists"}], True),
        ([{"operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": "dedicated", "operator": "Equal", "value": ""}], False),
        ([{"key": "dedicated", "operator": "Equal", "value": "y"}], False),
        ([], False),
    ],
)
def test_a_taint_is_tolerated_exactly_as_the_cluster_has_it(tolerations: list[Object], fits: bool) -> None:
    live(taint_story(tolerations, fits))


async def taint_story(tolerations: list[Object], fits: bool) -> None:
    async with opened(nodes=1) as house:
        await taint(house, "n0", {"key": "dedicated", "value": "x", "effect": "NoSchedule"})
        await house.until(lambda: bool(house.world.state.kept.nodes["n0"].taints))
        await make(house, "p", resources=WANTS, tolerations=tolerations)
        if fits:
            await house.until(lambda: bound(house) == {"p": "n0"})
        else:
            await house.until(lambda: told(house, "p")[0] == "Unschedulable")
            assert bound(house) == {}
