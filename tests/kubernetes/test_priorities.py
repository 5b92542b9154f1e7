"""Priorities that pod templates name by their class."""

import pytest
from tests.kubernetes.house import House, opened
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


async def make_class(house: House, name: str, value: int, **more: bool) -> None:
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
