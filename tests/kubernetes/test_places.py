"""Pods of others are where they say that they may be, or are told what of it is not heeded."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import NAMESPACE, House, Object, opened
from tests.kubernetes.test_adopted import bound
from tests.kubernetes.test_handing import make, told
from tests.kubernetes.test_owners import KIND, Operator, define, path, spec_of, suspended

from dollhouse.loop import live
from gangline_kubernetes.affinities import AFFINITIES_MAX, Affinities, allows, label_of, selector_of
from gangline_kubernetes.objects import Meta, Pod, PodSpec
from kubedouble.affinity import may_be_on
from kubedouble.faults import Fault
from kubedouble.scheduler import DefaultScheduler

MERGE_PATCH = "application/merge-patch+json"
GPU = {"limits": {"nvidia.com/gpu": "1"}}


def required(*expressions: Object, **more: Any) -> Object:
    """A required node affinity of one term."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions), **more}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def says(key: str, operator: str, *values: str) -> Object:
    """One expression."""
    return {"key": key, "operator": operator, "values": list(values)}


async def label(house: House, node: str, **labels: str) -> None:
    """Somebody labels a node."""
    await house.ask("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}}, MERGE_PATCH)


@pytest.mark.parametrize(
    "affinity",
    [
        required(says("disk", "In", "ssd")),
        required(says("disk", "In", "ssd", "nvme")),
        required(says("disk", "NotIn", "hdd")),
        required(says("generation", "Gt", "3")),
        required(says("disk", "Exists"), says("old", "DoesNotExist"), says("disk", "NotIn", "hdd")),
        required(matchFields=[says("metadata.name", "In", "n1")]),
    ],
)
def test_a_required_node_affinity_is_heeded(affinity: Object) -> None:
    live(affinity_story(affinity))


async def affinity_story(affinity: Object) -> None:
    async with opened(nodes=3, gpus=2) as house:
        await label(house, "n0", disk="hdd", generation="3")
        await label(house, "n1", disk="ssd", generation="5")
        await label(house, "n2", disk="hdd", old="yes")
        for number in range(3):
            await make(house, f"p{number}", resources=GPU, affinity=affinity)
        await house.until(lambda: len(bound(house)) == 2)
        await asyncio.sleep(40)
        assert set(bound(house).values()) == {"n1"}, "and the third waits for that node"
        assert {pod["status"]["phase"] for pod in house.stored("/pods")} == {"Running", "Pending"}


def test_a_node_that_comes_to_fit_takes_the_pod_that_waits_for_it() -> None:
    live(later_story())


async def later_story() -> None:
    async with opened(nodes=2, gpus=1) as house:
        await label(house, "n0", disk="ssd")
        anything = required(says("disk", "In", "ssd", "nvme"))
        await make(house, "first", resources=GPU, affinity=anything)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await make(house, "second", resources=GPU, affinity=anything)
        await house.until(lambda: told(house, "second")[0] == "Unschedulable")
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await asyncio.sleep(10)
        await label(house, "n1", disk="nvme")
        await house.until(lambda: bound(house).get("second") == "n1")


def test_a_lost_node_that_an_affinity_allows_keeps_nobody_from_the_others() -> None:
    live(lost_story())


async def lost_story() -> None:
    async with opened(nodes=2, gpus=1) as house:
        house.kubelets.lose("n0")
        await house.until(lambda: house.world.state.kept.nodes["n0"].lost, 120)
        await make(house, "p", resources=GPU, affinity=required(says("disk", "NotIn", "hdd")))
        await house.until(lambda: bound(house) == {"p": "n1"})
        house.kubelets.set_ready("n0", "True")
        await make(house, "q", resources=GPU, affinity=required(says("disk", "NotIn", "hdd")))
        await house.until(lambda: bound(house).get("q") == "n0", 120)


def test_an_affinity_that_no_node_fits_yet_is_told_and_the_first_that_does_is_taken() -> None:
    live(none_story())


async def none_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "p", resources=GPU, affinity=required(says("disk", "In", "a", "b")))
        await house.until(lambda: told(house, "p")[0] != "")
        house.kubelets.add_node("n1", gpus=1, labels={"disk": "b"})
        await house.until(lambda: bound(house) == {"p": "n1"}, 90)


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ({}, {"annotations": {"gangline.dev/topology-required": "rack"}}, "topology"),
        ({}, {"labels": {"gangline.dev/pool": "other"}}, "gangline.dev/pool"),
    ],
)
def test_members_say_alike_what_a_job_says_once(one: Object, other: Object, word: str) -> None:
    live(alike_story(one, other, word))


async def alike_story(one: Object, other: Object, word: str) -> None:
    words = {"gangline.dev/gang": "g", "gangline.dev/gang-size": "2"}
    async with opened(nodes=1) as house:
        await make(house, "a", meta={"labels": words}, **one)
        await make(house, "b", meta={**other, "labels": {**words, **other.get("labels", {})}})
        await house.until(lambda: told(house, "b")[0] == "PlaceNotGiven")
        assert word in told(house, "a")[1]


APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
SPREAD = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"affinity": {"podAntiAffinity": APART}}, "podAntiAffinity"),
        ({"affinity": {"podAffinity": APART}}, "podAffinity"),
        ({"topologySpreadConstraints": [SPREAD]}, "ScheduleAnyway"),
    ],
)
def test_what_is_not_heeded_is_told_and_nothing_is_bound(spec: Object, word: str) -> None:
    live(unheeded_story(spec, word))


async def unheeded_story(spec: Object, word: str) -> None:
    async with opened(nodes=1) as house:
        await make(house, "p", resources=GPU, **spec)
        await house.until(lambda: told(house, "p")[0] == "PlaceNotGiven")
        assert word in told(house, "p")[1]
        assert bound(house) == {}
        await make(house, "wish", topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}])
        await house.until(lambda: set(bound(house)) == {"wish"})


def node(name: str = "n", **labels: str) -> Meta:
    """A node's words of itself."""
    return Meta(name=name, labels=labels)


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([], False),
        ([{}], False),
        ([{"matchExpressions": [says("a", "In", "1")]}, {"matchExpressions": [says("b", "Exists")]}], True),
        ([{"matchExpressions": [says("b", "Lt", "4")]}], True),
        ([{"matchExpressions": [says("b", "Lt", "3")]}], False),
        ([{"matchExpressions": [says("c", "Gt", "3")]}], False),
        ([{"matchExpressions": [says("c", "NotIn", "3"), says("c", "DoesNotExist")]}], True),
        ([{"matchExpressions": [says("b", "Exists")], "matchFields": [says("metadata.name", "In", "m")]}], False),
    ],
)
def test_terms_mean_what_the_cluster_means_by_them(terms: list[Object], fits: bool) -> None:
    asked = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    here = {"metadata": {"name": "n", "labels": {"b": "3"}}}
    assert allows(terms, node(b="3")) is fits
    assert may_be_on({"spec": {"affinity": asked}}, here) is fits


def test_there_are_only_so_many_affinities_at_a_time() -> None:
    known = Affinities()
    pods = [
        Pod(metadata=Meta(), spec=PodSpec(affinity=required(says("a", "NotIn", str(number)))))
        for number in range(AFFINITIES_MAX + 1)
    ]
    taken = [known.hold(str(number), [pod]) for number, pod in enumerate(pods)]
    assert taken == [True] * AFFINITIES_MAX + [False]
    known.drop("0")
    assert known.hold("another", pods[-1:])
    assert len(known.labels(node())) == AFFINITIES_MAX
    (word,) = selector_of(pods[1])
    assert word == label_of([{"matchExpressions": [says("a", "NotIn", "1")]}])


def test_the_webhook_of_job_sets_lets_only_marks_selectors_tolerations_and_gates_change() -> None:
    live(webhook_story())


async def webhook_story() -> None:
    kind = KIND["JobSet"]
    async with opened(nodes=0) as house:
        await define(house, kind)
        body = {"metadata": {"name": "j"}, "spec": {**spec_of("JobSet", scheduler="x"), "suspend": True}}
        await house.ask("POST", path(kind), body)
        (part,) = body["spec"]["replicatedJobs"]
        inner = part["template"]["spec"]["template"]["spec"]
        inner["affinity"] = required(says("a", "Exists"))
        with pytest.raises(AssertionError, match="immutable"):
            await house.ask("PATCH", f"{path(kind)}/j", {"spec": {"replicatedJobs": [part]}}, MERGE_PATCH)
        del inner["affinity"]
        inner["nodeSelector"] = {"a": "b"}
        changed = {"spec": {"replicatedJobs": [part], "suspend": False}}
        await house.ask("PATCH", f"{path(kind)}/j", changed, MERGE_PATCH)
        inner["nodeSelector"] = {"a": "c"}
        with pytest.raises(AssertionError, match="immutable"):
            await house.ask("PATCH", f"{path(kind)}/j", {"spec": {"replicatedJobs": [part]}}, MERGE_PATCH)


def test_a_kubelet_refuses_a_pod_that_may_not_be_on_its_node() -> None:
    live(kubelet_story())


async def kubelet_story() -> None:
    async with opened(nodes=1) as house:
        for name, more in (("a", {"nodeSelector": {"x": "y"}}), ("b", {"affinity": required(says("x", "Exists"))})):
            await make(house, name, schedulerName="other", nodeName="n0", **more)

        def refused() -> bool:
            pods = [pod["status"] for pod in house.stored("/pods")]
            return [(one["phase"], one.get("reason")) for one in pods] == [("Failed", "NodeAffinity")] * 2

        await house.until(refused)


VOLUMES = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"


def test_a_pod_is_bound_when_its_volumes_are() -> None:
    live(volume_story())


async def volume_story() -> None:
    async with opened(nodes=1) as house:
        volumes = [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "plain", "emptyDir": {}},
        ]
        await make(house, "p", resources=GPU, volumes=volumes)
        await house.until(lambda: "claim data is not there" in told(house, "p")[1])
        for name in ("data", "p-scratch"):
            await house.ask("POST", VOLUMES, {"metadata": {"name": name}, "spec": {}})
        await house.until(lambda: "volumeBindingMode Immediate" in told(house, "p")[1])
        assert told(house, "p")[0] == "PlaceNotGiven"
        await asyncio.sleep(60)
        assert bound(house) == {}, "its kubelet would wait for a volume for ever"
        for name in ("data", "p-scratch"):
            await house.ask("PATCH", f"{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}}, MERGE_PATCH)
        await house.until(lambda: bound(house) == {"p": "n0"})


ZONE = "topology.kubernetes.io/zone"


async def volume(house: House, name: str, zone: str, *, is_labelled: bool = False) -> None:
    """A volume of one zone, and the claim that has it."""
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [says(ZONE, "In", zone)]}]}}
    meta: Object = {"name": f"pv-{name}", "labels": {ZONE: zone} if is_labelled else {}}
    spec = {} if is_labelled else {"nodeAffinity": affinity}
    await house.ask("POST", "/api/v1/persistentvolumes", {"metadata": meta, "spec": spec})
    await house.ask("POST", VOLUMES, {"metadata": {"name": name}, "spec": {"volumeName": f"pv-{name}"}})
    await house.ask("PATCH", f"{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}}, MERGE_PATCH)


def mounts(*names: str) -> list[Object]:
    """Volumes of a pod."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


@pytest.mark.parametrize("is_labelled", [False, True])
def test_a_pod_goes_where_its_volume_can_be_reached(is_labelled: bool) -> None:
    live(reach_story(is_labelled))


async def reach_story(is_labelled: bool) -> None:
    async with opened(nodes=3, gpus=1) as house:
        for node_name, zone in (("n0", "a"), ("n1", "b"), ("n2", "a")):
            await label(house, node_name, **{ZONE: zone})
        await volume(house, "data", "b", is_labelled=is_labelled)
        for name in ("p", "q"):
            await make(house, name, resources=GPU, volumes=mounts("data"))
        await house.until(lambda: bound(house) in ({"p": "n1"}, {"q": "n1"}))
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await asyncio.sleep(20)
        (first,) = bound(house)
        house.kubelets.finish_named(NAMESPACE, first)
        await house.until(lambda: bound(house) == {"p": "n1", "q": "n1"}, 60, "the other waits for that zone")


def test_volumes_in_different_zones_are_reached_from_nowhere() -> None:
    live(nowhere_story())


async def nowhere_story() -> None:
    async with opened(nodes=2, gpus=1) as house:
        await label(house, "n0", **{ZONE: "a"})
        await label(house, "n1", **{ZONE: "b"})
        await volume(house, "one", "a")
        await volume(house, "two", "b")
        await make(house, "p", resources=GPU, volumes=mounts("one", "two"))
        await house.until(lambda: told(house, "p")[0] == "Unschedulable")
        assert bound(house) == {}


@pytest.mark.parametrize("scheduler", ["gangline", "default-scheduler"])
def test_an_owner_goes_where_the_volumes_of_its_pods_can_be_reached(scheduler: str) -> None:
    live(owner_reach_story(scheduler))


async def owner_reach_story(scheduler: str) -> None:
    kind = KIND["PyTorchJob"]
    async with opened(nodes=2, gpus=4) as house:
        await label(house, "n0", **{ZONE: "a"})
        await label(house, "n1", **{ZONE: "b"})
        await volume(house, "data", "b")
        await define(house, kind)
        Operator(house, kind)
        DefaultScheduler(house.double)
        spec = spec_of("PyTorchJob", scheduler=scheduler)
        for part in spec["pytorchReplicaSpecs"].values():
            part["template"]["spec"]["volumes"] = mounts("data")
        body = {"metadata": {"name": "t", "labels": {"kueue.x-k8s.io/queue-name": "lab"}}, "spec": spec}
        await house.ask("POST", path(kind), body)
        await house.until(lambda: len(bound(house)) == 3, 120)
        assert set(bound(house).values()) == {"n1"}


def test_a_suspended_owner_is_told_of_a_volume_that_nobody_chooses() -> None:
    live(owner_unbound_story())


async def owner_unbound_story() -> None:
    async with opened(nodes=1) as house:
        spec = spec_of("Job")
        spec["template"]["spec"]["volumes"] = mounts("data")
        body = {"metadata": {"name": "t", "labels": {"kueue.x-k8s.io/queue-name": "lab"}}, "spec": spec}
        await house.ask("POST", path(KIND["Job"]), body)
        word = "volume claim data is not there"
        await house.until(lambda: any(word in one["message"] for one in house.stored("/events", NAMESPACE)), 90)
        assert suspended(house, KIND["Job"], "t")


def test_a_cluster_that_lets_us_read_no_volume_claims_has_its_pods_bound_all_the_same() -> None:
    live(unread_story())


async def unread_story() -> None:
    async with opened(nodes=1) as house:
        house.double.faults.add(
            Fault(method="GET", path="persistentvolumeclaims", status=403, reason="Forbidden", message="no", times=99)
        )
        await make(house, "p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
        await house.until(lambda: bound(house) == {"p": "n0"})
