"""Gangs as other parts of a cluster say them: PodGroups, Workloads, LeaderWorkerSets, StatefulSets, Armada, KAI."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import NAMESPACE, PODS, House, opened
from tests.kubernetes.test_adopted import bound, make, pod
from tests.kubernetes.test_handing import told
from tests.kubernetes.test_owners import define, path

from dollhouse.loop import live
from gangline_core.cluster import Pool
from gangline_kubernetes.adoption import gang_of, job_of, ordered
from gangline_kubernetes.config import Config
from gangline_kubernetes.native_groups import policies_of
from gangline_kubernetes.objects import Meta, OwnerObject
from gangline_kubernetes.owner_kinds import OwnerKind


def kind_of(version: str, plural: str = "podgroups", name: str = "PodGroup") -> OwnerKind:
    """A kind of the cluster's own scheduling group."""
    return OwnerKind(f"scheduling.k8s.io/{version}", plural, name, (), lambda spec: [])


async def member(house: House, name: str, **spec: Any) -> None:
    """A pod whose spec names its group."""
    container = {"name": "c", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    body = {"schedulerName": "gangline", "containers": [container], **spec}
    await house.ask("POST", PODS, {"metadata": {"name": name}, "spec": body})


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3"])
def test_pods_of_the_clusters_own_pod_group_start_together(version: str) -> None:
    live(native_story(version))


async def native_story(version: str) -> None:
    kind = kind_of(version)
    async with opened(nodes=1, gpus=4) as house:
        await define(house, kind)
        await asyncio.sleep(61)
        group = {"schedulingGroup": {"podGroupName": "g"}}
        for number in range(2):
            await member(house, f"g-{number}", **group)
        await asyncio.sleep(10)
        assert bound(house) == {}, "nobody knows yet what the group wants"
        spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        await house.ask("POST", path(kind), {"metadata": {"name": "g"}, "spec": spec})
        await house.until(lambda: told(house, "g-0")[0] == "GangIncomplete")
        assert "2 of the 3 pods" in told(house, "g-0")[1]
        assert bound(house) == {}
        await member(house, "g-2", **group)
        await house.until(lambda: len(bound(house)) == 3)
        assert len(house.world.state.kept.jobs) == 1
        loose = {"schedulingPolicy": {"basic": {}}}
        await house.ask("POST", path(kind), {"metadata": {"name": "loose"}, "spec": loose})
        for number in range(2):
            await member(house, f"loose-{number}", schedulingGroup={"podGroupName": "loose"})
        await house.until(lambda: len(bound(house)) == 4, what="with a basic policy each is on its own")


def test_pods_of_a_workloads_part_start_together_replica_by_replica() -> None:
    live(workload_story())


async def workload_story() -> None:
    kind = kind_of("v1alpha1", "workloads", "Workload")
    async with opened(nodes=1, gpus=4) as house:
        await define(house, kind)
        await asyncio.sleep(61)
        groups = [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]
        await house.ask("POST", path(kind), {"metadata": {"name": "w"}, "spec": {"podGroups": groups}})
        for name, replica in (("a-0", "a"), ("b-0", "b"), ("a-1", "a")):
            ref = {"name": "w", "podGroup": "workers", "podGroupReplicaKey": replica}
            await member(house, name, workloadRef=ref)
        await house.until(lambda: set(bound(house)) == {"a-0", "a-1"})
        await asyncio.sleep(10)
        assert set(bound(house)) == {"a-0", "a-1"}, "each replica is a gang of its own"


def test_the_domain_that_a_pod_group_must_share_is_a_required_level() -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "example.org/rack"}]},
    }
    (policy,) = policies_of(OwnerObject(metadata=Meta(name="g"), spec=spec)).values()
    assert (policy.size, policy.level) == (2, "example.org/rack")


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingPolicy": None},
        {"schedulingPolicy": {"gang": {"minCount": "two"}}},
        {"podGroups": [None, {"policy": 3}]},
        {"podGroups": {}},
        {"minMember": 2},
        {"schedulingPolicy": {"gang": {}}, "schedulingConstraints": {"topology": [None]}},
    ],
)
def test_groups_that_cannot_be_read_harm_nobody(spec: dict[str, Any]) -> None:
    policies_of(OwnerObject(metadata=Meta(name="g"), spec=spec))


def test_a_group_of_a_leader_worker_set_is_a_gang() -> None:
    base = "leaderworkerset.sigs.k8s.io"
    words = {f"{base}/name": "serve", f"{base}/group-index": "1", f"{base}/group-key": "abc"}
    leader = pod("serve-1", labels=words, annotations={f"{base}/size": "4"})
    worker = pod("serve-1-1", labels={**words, f"{base}/worker-index": "1"}, annotations={f"{base}/size": "4"})
    other = pod("serve-2", labels={**words, f"{base}/group-key": "def"}, annotations={f"{base}/size": "4"})
    assert gang_of(leader) == gang_of(worker) != gang_of(other)
    assert gang_of(leader).size == 4


@pytest.mark.parametrize(("policy", "count"), [("Parallel", 0), ("OrderedReady", 2)])
def test_a_stateful_set_is_a_gang_when_its_pods_are_made_side_by_side(policy: str, count: int) -> None:
    live(stateful_story(policy, count))


async def stateful_story(policy: str, count: int) -> None:
    async with opened(nodes=1, gpus=2) as house:
        spec = {"replicas": 3, "podManagementPolicy": policy, "template": {"spec": {"containers": []}}}
        sets = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
        made = await house.ask("POST", sets, {"metadata": {"name": "s"}, "spec": spec})
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True}
        owners = [{**owner, "uid": made["metadata"]["uid"]}]
        for number in range(3):
            await make(house, f"s-{number}", ownerReferences=owners)
        await asyncio.sleep(20)
        assert len(bound(house)) == count, "three do not fit two GPUs"


def test_a_label_that_all_nodes_of_a_gang_must_share_is_a_required_level() -> None:
    pool = Pool(name="default", topology={"rack": "example.org/rack"})
    notes = {"armadaproject.io/gangNodeUniformityLabel": "example.org/rack"}
    assert job_of([[pod(annotations=notes)]], Config(), pool, "nvidia.com/gpu").topology.required == "rack"


def test_members_are_in_the_order_of_the_numbers_that_their_owner_gave_them() -> None:
    index, part = "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/job-global-index"
    pods = [
        pod(f"w-{suffix}", labels={part: str(job)}, annotations={index: str(number)})
        for suffix, job, number in (("zz9", 0, 2), ("a1", 0, 10), ("b7", 1, 0), ("c", 0, 0))
    ]
    (role,) = ordered(pods)
    assert [one.metadata.name for one in role] == ["w-c", "w-zz9", "w-a1", "w-b7"]
