"""Priorities that pod templates name by their class."""

import asyncio

import pytest
from tests.kubernetes.house import PODS, House, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_owner_words import events
from tests.kubernetes.test_owners import KIND, QUEUED, define, path, spec_of, suspended

from dollhouse.loop import live
from gangline_kubernetes.handing import Unfit
from gangline_kubernetes.objects import Meta, Pod, PodSpec, PriorityClass
from gangline_kubernetes.priorities import Priorities

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def ranked(house: House, kind: str, name: str, word: str) -> None:
    """Somebody makes a suspended owner whose templates name this class."""
    spec = spec_of(kind)
    shapes = [spec["template"]] if kind == "Job" else [one["template"] for one in spec["pytorchReplicaSpecs"].values()]
    for shape in shapes:
        shape["spec"]["priorityClassName"] = word
    await house.ask("POST", path(KIND[kind]), {"metadata": {"name": name, "labels": QUEUED}, "spec": spec})


async def make_class(house: House, name: str, value: int, **more: bool | str) -> None:
    """Somebody makes a priority class."""
    await house.ask("POST", CLASSES, {"metadata": {"name": name}, "value": value, **more})


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob"])
def test_the_class_that_templates_name_is_the_priority_of_their_job(kind: str) -> None:
    live(named_story(kind))


async def named_story(kind: str) -> None:
    async with opened(nodes=1, gpus=3) as house:
        await define(house, KIND[kind])
        await make_class(house, "urgent", 700)
        await make_class(house, "usual", 20, globalDefault=True)
        await make(house, "first", gpus=3)
        await house.until(lambda: bool(bound(house)))
        await ranked(house, kind, "train", "urgent")
        await ranked(house, kind, "plain", "")
        await house.until(lambda: len(house.world.state.kept.jobs) == 3, 90)
        named = {job.spec.name: job.spec.priority for job in house.world.state.kept.jobs.values()}
        assert named["team/train"] == 700
        assert named["team/plain"] == 20, "the cluster's default"


def test_an_owner_whose_class_is_not_there_waits_and_is_told_so() -> None:
    live(missing_story())


async def missing_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        await ranked(house, "Job", "train", "urgent")
        await house.until(lambda: ("Refused", "there is no PriorityClass urgent") in events(house))
        assert suspended(house, KIND["Job"], "train")
        assert not house.world.state.kept.jobs
        await make_class(house, "urgent", 7)
        await house.until(lambda: len(house.world.state.kept.jobs) == 1)
        assert house.job(1).spec.priority == 7


def test_a_class_that_went_is_no_longer_known() -> None:
    known, one = Priorities(), PriorityClass(metadata=Meta(name="a"), value=5)
    pods = [[Pod(metadata=Meta(), spec=PodSpec(priority_class_name="a"))]]
    known.hear(None, one)
    found = known.ranked(pods)
    assert isinstance(found, list)
    assert found[0][0].spec.priority == 5
    known.hear(one, None)
    assert known.ranked(pods) == Unfit("there is no PriorityClass a")


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_nobody_makes_way_for_a_pod_whose_class_never_preempts(policy: str) -> None:
    live(pod_story(policy))


async def pod_story(policy: str) -> None:
    async with opened(nodes=1, gpus=2) as house:
        await make_class(house, "urgent", 700, preemptionPolicy=policy)
        await house.apply("low", gpus=2, command=["x"])
        await house.phase("low", "Running")
        container = {"name": "c", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        spec = {"schedulerName": "gangline", "priorityClassName": "urgent", "containers": [container]}
        await house.ask("POST", PODS, {"metadata": {"name": "high"}, "spec": spec})
        is_patient = policy == "Never"
        await house.until(lambda: len(house.world.state.kept.jobs) == 2)
        await asyncio.sleep(20)
        assert house.job(2).spec.preempts != is_patient
        assert bool(house.job(1).preemptions) != is_patient
        assert ("high" in bound(house)) != is_patient
        if not is_patient:
            return
        await house.apply("later", gpus=2, command=["x"])
        await house.until(lambda: len(house.world.state.kept.jobs) == 3)
        house.kubelets.finish_named("team", next(iter(bound(house))))
        await house.until(lambda: "high" in bound(house), what="it goes before others all the same")


def test_nobody_makes_way_for_an_owner_whose_class_never_preempts() -> None:
    live(owner_story())


async def owner_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        await make_class(house, "patient", 700, preemptionPolicy="Never")
        await house.apply("low", gpus=3, command=["x"])
        await house.phase("low", "Running")
        await ranked(house, "Job", "train", "patient")
        await house.until(lambda: len(house.world.state.kept.jobs) == 2)
        await asyncio.sleep(20)
        assert not house.job(2).spec.preempts
        assert not house.job(1).preemptions
        assert suspended(house, KIND["Job"], "train")


def test_templates_that_repeat_what_their_class_says_are_read_alike() -> None:
    known = Priorities()
    known.hear(None, PriorityClass(metadata=Meta(name="a"), value=5, preemption_policy="Never"))
    for spec in (
        PodSpec(priority_class_name="a"),
        PodSpec(priority=5, preemption_policy="Never"),
        PodSpec(preemption_policy="Never"),
    ):
        found = known.ranked([[Pod(metadata=Meta(), spec=spec)]])
        assert isinstance(found, list)
        assert found[0][0].spec.preemption_policy == "Never"
