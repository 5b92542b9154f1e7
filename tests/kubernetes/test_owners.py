"""Objects of others that wait suspended: let go when all their pods have a place, suspended when they make way."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.kubernetes.house import CRDS, NAMESPACE, House, opened
from tests.kubernetes.test_adopted import bound, make

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.config import Config
from gangline_kubernetes.objects import Meta, Owner, OwnerObject, Pod
from gangline_kubernetes.owner_kinds import (
    GROUPS,
    KINDS,
    Group,
    OwnerKind,
    Part,
    gated,
    index_of,
    is_held,
    parts_of,
    pods_of,
    unsuspended,
)
from kubedouble.patches import merge as merged
from kubedouble.scheduler import DefaultScheduler
from kubedouble.store import Change

Object = dict[str, Any]
KIND = {kind.name: kind for kind in KINDS}
QUEUED = {"kueue.x-k8s.io/queue-name": "lab"}
PART_LABELS = {
    "Job": "",
    "JobSet": "jobset.sigs.k8s.io/replicatedjob-name",
    "PyTorchJob": "training.kubeflow.org/replica-type",
    "TFJob": "training.kubeflow.org/replica-type",
    "MPIJob": "training.kubeflow.org/job-role",
    "RayJob": "ray.io/group",
    "RayCluster": "ray.io/group",
}
"""By which label the pods of each kind's own controller say which part they are of."""


def template(*, scheduler: str = "gangline", gpus: int = 1) -> Object:
    """A pod template of so many GPUs."""
    container = {"name": "c", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"spec": {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}}


def replicas(field: str, **more: Any) -> Object:
    """A training job of one master and two workers."""
    words = {"Launcher" if field == "mpiReplicaSpecs" else "Master": 1, "Worker": 2}
    return {
        "runPolicy": {"suspend": True},
        field: {name: {"replicas": count, "template": template(**more)} for name, count in words.items()},
    }


def ray(**more: Any) -> Object:
    """A head and two workers."""
    workers = [{"groupName": "gpu", "replicas": 2, "template": template(**more)}]
    return {"headGroupSpec": {"template": template(**more)}, "workerGroupSpecs": workers}


def spec_of(kind: str, **more: Any) -> Object:
    """A suspended owner of three pods."""
    match kind:
        case "Job":
            indexed = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
            return {"suspend": True, **indexed, "template": template(**more)}
        case "JobSet":
            inner = {"spec": {"parallelism": 3, "completions": 3, "template": template(**more)}}
            return {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 1, "template": inner}]}
        case "PyTorchJob":
            return replicas("pytorchReplicaSpecs", **more)
        case "TFJob":
            return replicas("tfReplicaSpecs", **more)
        case "MPIJob":
            return replicas("mpiReplicaSpecs", **more)
        case "RayJob":
            return {"suspend": True, "rayClusterSpec": ray(**more)}
        case _:
            return {"suspend": True, **ray(**more)}


def path(kind: OwnerKind) -> str:
    """The collection of a kind in the team's namespace."""
    return f"/apis/{kind.group_version}/namespaces/{NAMESPACE}/{kind.plural}"


async def define(house: House, kind: OwnerKind) -> None:
    """Make the kind known, as its operator's installation does; built-in kinds are."""
    group, _, version = kind.group_version.partition("/")
    if group == "batch":
        return
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower(), "listKind": f"{kind.name}List"}
    one = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    spec = {
        "group": group,
        "names": names,
        "scope": "Namespaced",
        "versions": [{**one, "subresources": {"status": {}}}],
    }
    await house.ask("POST", CRDS, {"metadata": {"name": f"{kind.plural}.{group}"}, "spec": spec})


class Operator:
    """What every kind's controller does: pods while the owner is not suspended, none while it is."""

    def __init__(self, house: House, kind: OwnerKind) -> None:
        """It acts from now on."""
        self.house, self.kind, self.made = house, kind, 0
        house.double.store.listeners.append(self.hear)

    def hear(self, change: Change) -> None:
        """An owner changed."""
        group = self.kind.group_version.partition("/")[0]
        if change.storage == f"{group}/{self.kind.plural}":
            asyncio.get_running_loop().call_later(0.2, self.reconcile, change.after["metadata"]["name"])

    def reconcile(self, name: str) -> None:
        """Bring the owner's pods into being, or end them."""
        group = self.kind.group_version.partition("/")[0]
        found = self.house.double.store.get(f"{group}/{self.kind.plural}", NAMESPACE, name)
        pods = self.house.double.kinds.find("", "v1", "pods")
        assert pods is not None
        uid = found["metadata"]["uid"] if found is not None else ""
        mine = [pod for pod in self.house.stored("/pods") if uid in owners_of(pod)]
        spec = dict(found["spec"]) if found is not None else {}
        is_off = bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))
        if is_off:
            for pod in mine:
                if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") != "Succeeded":
                    self.house.double.verbs.delete(pods, NAMESPACE, pod["metadata"]["name"])
        elif found is not None:
            for part in parts_of(self.kind, OwnerObject(metadata=Meta(name=name), spec=spec)):
                self._bring(pods, found, part, mine)

    def _bring(self, pods: Any, found: Object, part: Part, mine: list[Object]) -> None:
        """As many pods of a part as there shall be, each index once; those beyond are deleted."""
        label = PART_LABELS[self.kind.name]
        named = [pod for pod in mine if not label or pod["metadata"]["labels"][label] == part.name]
        here = {
            int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]): pod
            for pod in named
            if "deletionTimestamp" not in pod["metadata"] or pod["status"].get("phase") == "Succeeded"
        }
        for index in sorted(set(range(part.count)) - set(here)):
            self._make(pods, found, part.name, index, part.template)
        for index, pod in here.items():
            if index >= part.count:
                self.house.double.verbs.delete(pods, NAMESPACE, pod["metadata"]["name"])

    def _make(self, pods: Any, found: Object, part: str, index: int, shape: Object) -> None:
        self.made += 1
        label = PART_LABELS[self.kind.name]
        labels = {label: part} if label else {}
        above = {"apiVersion": self.kind.group_version, "kind": self.kind.name, "controller": True}
        meta = {
            "name": f"{found['metadata']['name']}-{self.made}",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [{**above, "name": found["metadata"]["name"], "uid": found["metadata"]["uid"]}],
        }
        spec = dict(shape["spec"])
        self.house.double.verbs.create(pods, NAMESPACE, {"metadata": meta, "spec": spec})


def owners_of(pod: Object) -> list[str]:
    """Uids of a pod's owners."""
    return [one["uid"] for one in pod["metadata"].get("ownerReferences") or ()]


def suspended(house: House, kind: OwnerKind, name: str) -> bool:
    """Whether the owner is suspended."""
    group = kind.group_version.partition("/")[0]
    found = house.double.store.get(f"{group}/{kind.plural}", NAMESPACE, name) or {}
    spec = found["spec"]
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


async def apply_owner(house: House, kind: OwnerKind, name: str, **more: Any) -> None:
    """Somebody makes a suspended owner with a queue's name on it."""
    meta = {"name": name, "labels": QUEUED}
    await house.ask("POST", path(kind), {"metadata": meta, "spec": spec_of(kind.name, **more)})


async def admitted_story(name: str) -> None:
    kind = KIND[name]
    async with opened(nodes=1, gpus=3) as house:
        await define(house, kind)
        operator = Operator(house, kind)
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await apply_owner(house, kind, "train")
        await house.until(lambda: len(house.world.state.kept.jobs) == 2, 90)
        await asyncio.sleep(20)
        assert suspended(house, kind, "train"), "there is no room for three"
        assert operator.made == 0, "no pod exists before all have a place"
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: house.job(2).state == JobState.RUNNING)
        assert not suspended(house, kind, "train")
        mine = [pod for pod in house.stored("/pods") if pod["metadata"]["name"].startswith("train")]
        assert sorted(pod["metadata"]["annotations"]["gangline.dev/gpus"] for pod in mine) == ["0", "1", "2"]
        assert len(house.world.state.kept.jobs) == 2, "its pods are no jobs of their own"
        for pod in mine:
            house.kubelets.finish_named(NAMESPACE, pod["metadata"]["name"])
        await house.until(lambda: house.job(2).state == JobState.SUCCEEDED)


@pytest.mark.parametrize("name", list(KIND))
def test_a_suspended_owner_is_let_go_when_all_its_pods_have_a_place(name: str) -> None:
    live(admitted_story(name))


def test_an_owner_that_makes_way_is_suspended_and_let_go_again_later() -> None:
    live(way_story())


async def way_story() -> None:
    kind = KIND["Job"]
    async with opened(nodes=1, gpus=3) as house:
        operator = Operator(house, kind)
        await apply_owner(house, kind, "train")
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        await house.apply("urgent", tasks=1, gpus=3, priority=100, command=["x"])
        await house.phase("urgent", "Running", 120)
        assert suspended(house, kind, "train"), "else its controller would make the pods anew"
        assert house.job(1).state == JobState.WAITING, "it keeps its place in the queue"
        await house.until(lambda: operator.made == 3)
        (pod,) = await house.pods(**{"gangline.dev/job": "2"})
        house.kubelets.finish(pod, 0)
        await house.until(lambda: house.job(1).state == JobState.RUNNING, 120)
        assert operator.made == 6
        assert not suspended(house, kind, "train")


def test_a_cancelled_owner_stays_suspended_until_it_is_asked_for_again() -> None:
    live(cancelled_story())


async def cancelled_story() -> None:
    from gangline_wire.requests import CancelJob

    kind = KIND["PyTorchJob"]
    async with opened(nodes=1, gpus=3) as house:
        await define(house, kind)
        Operator(house, kind)
        await apply_owner(house, kind, "train")
        await house.until(lambda: bool(house.world.state.kept.jobs) and house.job(1).state == JobState.RUNNING, 90)
        await house.world.ask(CancelJob(job=1, by="root", why="enough"))
        await house.until(lambda: house.job(1).state == JobState.CANCELLED)
        await asyncio.sleep(60)
        assert suspended(house, kind, "train")
        assert len(house.world.state.kept.jobs) == 1, "what was cancelled is not taken up again by itself"
        notes = {"metadata": {"annotations": {"gangline.dev/stopped-job": None}}}
        await house.ask("PATCH", f"{path(kind)}/train", notes, "application/merge-patch+json")
        await house.until(lambda: house.job(2).state == JobState.RUNNING)


def test_a_deleted_owner_ends_its_job() -> None:
    live(deleted_story())


async def deleted_story() -> None:
    kind = KIND["Job"]
    async with opened(nodes=1, gpus=3) as house:
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await apply_owner(house, kind, "big")
        await house.until(lambda: house.job(2).state == JobState.WAITING)
        await house.ask("DELETE", f"{path(kind)}/big")
        await house.until(lambda: house.job(2).state == JobState.CANCELLED)


def test_pods_of_a_queue_without_our_scheduler_are_kept_to_their_nodes() -> None:
    live(others_story())


async def others_story() -> None:
    kind = KIND["Job"]
    async with opened(nodes=2, gpus=2) as house:
        Operator(house, kind)
        DefaultScheduler(house.double)
        await apply_owner(house, kind, "train", scheduler="default-scheduler", gpus=2)
        await asyncio.sleep(10)
        assert suspended(house, kind, "train"), "three pods of two GPUs do not fit"
        house.kubelets.add_node("n2", gpus=2)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        assert sorted(bound(house).values()) == ["n0", "n1", "n2"]
        for name in bound(house):
            house.kubelets.finish_named(NAMESPACE, name)
        await house.until(lambda: house.job(1).state == JobState.SUCCEEDED)


@pytest.mark.parametrize("scheduler", ["gangline", "hami-scheduler"])
def test_an_owner_that_asks_for_parts_of_gpus_of_another_scheduler_is_told_so(scheduler: str) -> None:
    live(shared_story(scheduler))


async def shared_story(scheduler: str) -> None:
    kind = KIND["Job"]
    async with opened(nodes=1, gpus=1) as house:
        spec = spec_of("Job", scheduler=scheduler)
        spec["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpumem": "3000"}}
        await house.ask("POST", path(kind), {"metadata": {"name": "thirds", "labels": QUEUED}, "spec": spec})
        word = "nvidia.com/gpumem is given only by the scheduler"
        await house.until(lambda: any(word in one["message"] for one in house.stored("/events", NAMESPACE)))
        assert suspended(house, kind, "thirds")


def test_pods_of_an_owner_that_is_not_suspended_are_a_gang_too() -> None:
    live(chain_story())


async def chain_story() -> None:
    kind = KIND["PyTorchJob"]
    async with opened(nodes=1, gpus=2) as house:
        await define(house, kind)
        await asyncio.sleep(61)
        made = await house.ask("POST", path(kind), {"metadata": {"name": "t"}, "spec": replicas("pytorchReplicaSpecs")})
        above = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "t", "uid": made["metadata"]["uid"]}
        patch = {"spec": {"runPolicy": {"suspend": False}}}
        await house.ask("PATCH", f"{path(kind)}/t", patch, "application/merge-patch+json")
        for number in range(3):
            await make(house, f"t-{number}", ownerReferences=[{**above, "controller": True}])
        await asyncio.sleep(20)
        assert bound(house) == {}, "two of three would fit"
        house.kubelets.add_node("n1", gpus=1)
        await house.until(lambda: len(bound(house)) == 3)


GROUP_WORDS = {
    "scheduling.x-k8s.io": "scheduling.x-k8s.io/pod-group",
    "scheduling.volcano.sh": "scheduling.k8s.io/group-name",
    "scheduling.run.ai": "pod-group-name",
}


@pytest.mark.parametrize("group", GROUPS[:3], ids=lambda one: one.group_version)
def test_a_pod_group_of_another_scheduler_says_how_many_belong_together(group: Group) -> None:
    live(group_story(group))


async def group_story(group: Group) -> None:
    kind = OwnerKind(group.group_version, group.plural, "PodGroup", (), lambda spec: [])
    async with opened(nodes=1, gpus=3) as house:
        await define(house, kind)
        await asyncio.sleep(61)
        await house.ask("POST", path(kind), {"metadata": {"name": "g"}, "spec": {"minMember": 3}})
        words = {GROUP_WORDS[group.group_version.partition("/")[0]]: "g"}
        for number in range(2):
            await make(house, f"g-{number}", annotations=words)
        await asyncio.sleep(30)
        assert bound(house) == {}, "one is missing"
        await make(house, "g-2", annotations=words)
        await house.until(lambda: len(bound(house)) == 3)


def test_the_shape_of_every_kind_is_three_pods() -> None:
    for kind in KINDS:
        found = OwnerObject(metadata=Meta(name="o", namespace="n", labels=QUEUED), spec=spec_of(kind.name))
        pods = pods_of(parts_of(kind, found), found)
        assert sum(len(part) for part in pods) == 3, kind.name
        assert all(pod.metadata.labels == QUEUED for part in pods for pod in part)
        assert gated(kind, found, Config()) == {}, "these are bound by us"
        others = replace(found, spec=spec_of(kind.name, scheduler="x"))
        text = str(gated(kind, others, Config()))
        assert text.count("'schedulingGates': [{'name': 'gangline.dev/queued'}]") == len(pods), kind.name
        held = replace(others, spec=merged(others.spec, gated(kind, others, Config())["spec"]))
        assert is_held(parts_of(kind, held), Config()), kind.name
        assert not is_held(parts_of(kind, others), Config()), kind.name
        text = str(unsuspended(kind, found))
        assert "'suspend': False" in text


def test_a_pod_says_which_of_its_part_it_is() -> None:
    kind = KIND["JobSet"]
    found = OwnerObject(
        metadata=Meta(name="o"),
        spec={"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4}}}]},
    )
    (part,) = parts_of(kind, found)
    assert part.count == 8
    labels = {"jobset.sigs.k8s.io/job-index": "1", "jobset.sigs.k8s.io/replicatedjob-replicas": "2"}
    notes = {"batch.kubernetes.io/job-completion-index": "3"}
    owner = Owner(kind="Job", name="o-w-1", uid="u", controller=True)
    pod = Pod(metadata=Meta(name="p", labels=labels, annotations=notes, owner_references=(owner,)))
    assert index_of(kind, part, pod) == 7


def test_more_pods_than_a_job_may_have_are_not_even_listed() -> None:
    found = OwnerObject(metadata=Meta(name="o"), spec={"parallelism": 2_147_483_647, "template": {"spec": {}}})
    with pytest.raises(msgspec.ValidationError, match="asks for 2147483647 pods"):
        pods_of(parts_of(KIND["Job"], found), found)
