"""Every kind of owner, and every manner of asking for us: nothing of it runs before all of it has a place."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import NAMESPACE, House, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_owners import (
    PART_LABELS,
    QUEUED,
    Object,
    Operator,
    define,
    path,
    spec_of,
    suspended,
)
from tests.kubernetes.test_queueing import install

import programs
from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.owner_kinds import COUNTED, KINDS, OwnerKind
from kubedouble.scheduler import DefaultScheduler

DEFAULT = "default-scheduler"
EACH = [pytest.param(kind, id=f"{kind.name}-{kind.group_version}") for kind in KINDS]
(SET,) = COUNTED


class LabelledOperator(Operator):
    """An operator that marks its pods as the version of its kind has it."""

    def _make(self, pods: Any, found: Object, part: str, index: int, shape: Object) -> None:
        label, own = PART_LABELS[self.kind.name], self.kind.part_label
        super()._make(pods, found, part, index, shape)
        name = f"{found['metadata']['name']}-{self.made}"
        pod = self.house.double.store.get("/pods", NAMESPACE, name)
        if label != own and pod is not None:
            labels = {own: part} | {label: part for label in PART_LABELS.values() if label == own}
            after = {**pod, "metadata": {**pod["metadata"], "labels": labels}}
            self.house.double.store.put("/pods", after, pod)

    def _bring(self, pods: Any, found: Object, part: Any, mine: list[Object]) -> None:
        label, own = PART_LABELS[self.kind.name], self.kind.part_label
        seen = [
            {**pod, "metadata": {**pod["metadata"], "labels": {label: pod["metadata"]["labels"].get(own, "")}}}
            for pod in mine
        ]
        super()._bring(pods, found, part, seen if label != own else mine)


async def owner(house: House, kind: OwnerKind, *, labels: Object, scheduler: str, waits: bool) -> None:
    """Somebody makes an owner of three pods of one GPU, suspended or not."""
    spec = spec_of(kind.name, scheduler=scheduler)
    if not waits:
        spec.pop("suspend", None)
        spec.pop("runPolicy", None)
    await house.ask("POST", path(kind), {"metadata": {"name": "train", "labels": labels}, "spec": spec})


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize(
    ("labels", "scheduler", "waits"),
    [
        pytest.param(QUEUED, "gangline", True, id="queue, our scheduler, suspended"),
        pytest.param(QUEUED, DEFAULT, True, id="queue, another scheduler, suspended"),
        pytest.param({}, "gangline", True, id="no queue, our scheduler, suspended"),
        pytest.param({}, "gangline", False, id="no queue, our scheduler, not suspended"),
        pytest.param(QUEUED, "gangline", False, id="queue, our scheduler, not suspended"),
        pytest.param(
            QUEUED,
            DEFAULT,
            False,
            id="queue, another scheduler, not suspended",
            marks=pytest.mark.skipif(programs.found("helm") is None, reason=programs.why_not("helm")),
        ),
    ],
)
def test_a_gang_of_every_kind_starts_whole_or_not_at_all(
    kind: OwnerKind, labels: Object, scheduler: str, waits: bool
) -> None:
    live(whole_story(kind, labels=labels, scheduler=scheduler, waits=waits))


async def whole_story(kind: OwnerKind, *, labels: Object, scheduler: str, waits: bool) -> None:
    async with opened(nodes=1, gpus=3) as house:
        await define(house, kind)
        LabelledOperator(house, kind)
        DefaultScheduler(house.double)
        if not waits and scheduler == DEFAULT:
            await install(house)
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await owner(house, kind, labels=labels, scheduler=scheduler, waits=waits)
        await house.until(lambda: len(house.world.state.kept.jobs) == 2, 90)
        await asyncio.sleep(20)
        assert bound(house) == {"first": "n0"}, "there is no room for three"
        assert house.job(2).spec.group == "lab"
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: house.job(2).state == JobState.RUNNING, 120)
        assert len(house.world.state.kept.jobs) == 2, "all of it is one job"
        assert len(house.job(2).tasks) == 3
        assert len(bound(house)) == 4, "the first one, which has ended, and three"
        assert not suspended(house, kind, "train")
        for pod in house.stored("/pods"):
            if pod["metadata"]["name"].startswith("train"):
                house.kubelets.finish_named(NAMESPACE, pod["metadata"]["name"])
        await house.until(lambda: house.job(2).state == JobState.SUCCEEDED)
        assert house.job(2).attempt == 1


@pytest.mark.parametrize("labels", [{}, QUEUED], ids=["no queue", "queue"])
def test_pods_of_a_stateful_set_start_whole_or_not_at_all(labels: Object) -> None:
    live(set_story(labels))


async def set_story(labels: Object) -> None:
    async with opened(nodes=1, gpus=3) as house:
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        spec = {"replicas": 3, "podManagementPolicy": "Parallel", "template": spec_of("Job")["template"]}
        made = await house.ask("POST", path(SET), {"metadata": {"name": "train"}, "spec": spec})
        above = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": made["metadata"]["uid"]}
        for number in range(3):
            index = {"apps.kubernetes.io/pod-index": str(number)}
            owners = [{**above, "controller": True}]
            await make(house, f"train-{number}", labels=labels | index, ownerReferences=owners)
        await asyncio.sleep(20)
        assert bound(house) == {"first": "n0"}
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: len(bound(house)) == 4, 60)
        assert len(house.job(2).tasks) == 3
