"""What names a queue waits for its turn, also when nobody made it suspended: by the chart's policy, or on sight."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from tests.kubernetes.house import NAMESPACE, PODS, House, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_chart import CHART, check, helm, objects_of
from tests.kubernetes.test_owner_words import events
from tests.kubernetes.test_owners import KIND, QUEUED, Operator, define, path, spec_of, suspended, template

import programs
from dollhouse.loop import live
from gangline_core.job import JobState
from kubedouble.scheduler import DefaultScheduler

Object = dict[str, Any]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
VERSIONS = {"1.34": "v1beta1", "1.36": "v1"}

needs_helm = pytest.mark.skipif(programs.found("helm") is None, reason=programs.why_not("helm"))


def policies(version: str, *settings: str) -> list[Object]:
    """The chart's mutating policies on a server that has them in this version."""
    apis = f"admissionregistration.k8s.io/{version}/MutatingAdmissionPolicy"
    sets = [part for one in settings for part in ("--set", one)]
    text = helm("template", "release", str(CHART), "--namespace", "system", "--api-versions", apis, *sets)
    return [one for one in objects_of(text) if one["kind"].startswith("Mutating")]


async def install(house: House) -> None:
    """The chart's policy and its binding."""
    policy, binding = policies("v1")
    await house.ask("POST", f"{REGISTRATION}ies", policy)
    await house.ask("POST", f"{REGISTRATION}ybindings", binding)


async def create(house: House, kind: str, name: str, labels: Object | None = None, **more: Any) -> None:
    """Somebody makes an owner that is not suspended."""
    spec = spec_of(kind, **more)
    spec.pop("suspend", None)
    spec.pop("runPolicy", None)
    await house.ask(
        "POST",
        path(KIND[kind]),
        {"metadata": {"name": name, "labels": QUEUED if labels is None else labels}, "spec": spec},
    )


@needs_helm
@pytest.mark.parametrize("name", list(KIND))
def test_the_policy_makes_what_names_a_queue_suspended(name: str) -> None:
    live(policy_story(name))


async def policy_story(name: str) -> None:
    async with opened(nodes=1, gpus=3) as house:
        await install(house)
        await define(house, KIND[name])
        operator = Operator(house, KIND[name])
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await create(house, name, "train")
        assert suspended(house, KIND[name], "train"), "before anybody saw it"
        await house.until(lambda: len(house.world.state.kept.jobs) == 2, 90)
        await asyncio.sleep(10)
        assert operator.made == 0
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: house.job(2).state == JobState.RUNNING)


@needs_helm
def test_the_policy_leaves_alone_what_names_no_queue_or_is_made_by_an_owner_that_waits() -> None:
    live(others_story())


async def others_story() -> None:
    async with opened(nodes=1) as house:
        await install(house)
        await house.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "nobody"}})
        await create(house, "Job", "plain", {})
        assert not suspended(house, KIND["Job"], "plain")
        above = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
        replica = {**above, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
        spec = {"containers": [{"name": "c", "image": "x"}]}
        for name, owner, scheduler in (
            ("alone", [], "gangline"),
            ("of-job", [above], "default-scheduler"),
            ("of-set", [replica], "gangline"),
        ):
            meta = {"name": name, "labels": QUEUED, "ownerReferences": owner}
            found = await house.ask("POST", PODS, {"metadata": meta, "spec": spec})
            assert found["spec"]["schedulerName"] == scheduler, name
        mine = {"metadata": {"name": "alone", "labels": QUEUED}, "spec": spec}
        found = await house.ask("POST", PODS.replace(NAMESPACE, "nobody"), mine)
        assert found["spec"]["schedulerName"] == "default-scheduler", "the namespace has no group"


@needs_helm
def test_the_policy_is_there_where_the_server_has_such_policies_and_somebody_wants_it() -> None:
    for version in VERSIONS.values():
        policy, binding = policies(version)
        assert policy["apiVersion"] == binding["apiVersion"] == f"admissionregistration.k8s.io/{version}"
    assert not policies("v1", "cluster.suspend=false")
    assert not policies("v1", "cluster.adopt=false")
    assert not policies("v1alpha1")
    for one in policies("v1"):
        check(json.dumps(one, sort_keys=True))


def test_without_a_policy_it_is_suspended_when_it_is_seen() -> None:
    live(sight_story())


async def sight_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        await make(house, "first", gpus=1)
        await house.until(lambda: bound(house) == {"first": "n0"})
        await create(house, "Job", "train", scheduler="default-scheduler")
        await house.until(lambda: suspended(house, KIND["Job"], "train"), 10)
        Operator(house, KIND["Job"])
        DefaultScheduler(house.double)
        await house.until(lambda: house.job(2).state == JobState.WAITING)
        assert ("Queued", "suspended until its turn in queue lab comes") in events(house)
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(lambda: house.job(2).state == JobState.RUNNING)
        assert not suspended(house, KIND["Job"], "train"), "its turn came"
        for name in bound(house):
            house.kubelets.finish_named(NAMESPACE, name)
        await house.until(lambda: house.job(2).state == JobState.SUCCEEDED)
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await asyncio.sleep(60)
        assert not suspended(house, KIND["Job"], "train"), "what had its turn is not stopped again"


def test_what_has_run_for_long_is_told_instead_and_so_are_pods_of_other_schedulers() -> None:
    live(told_story())


async def told_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        await house.world.crash("kubernetes")
        await create(house, "Job", "old", scheduler="default-scheduler")
        await asyncio.sleep(400)
        house.world.restart("kubernetes")
        await house.until(lambda: any(reason == "NotQueued" for reason, _ in events(house, "old")))
        assert not suspended(house, KIND["Job"], "old"), "its work would be lost"
        shape = template(scheduler="default-scheduler")
        await house.ask("POST", PODS, {"metadata": {"name": "astray", "labels": QUEUED}, **shape})
        await house.until(lambda: any(reason == "NotQueued" for reason, _ in events(house, "astray")))


def test_whoever_wants_that_not_can_turn_it_off_and_other_names_of_queues_hold_nothing() -> None:
    live(off_story())


async def off_story() -> None:
    async with opened(nodes=1, suspend=False) as house:
        await create(house, "Job", "train", scheduler="default-scheduler")
        await asyncio.sleep(20)
        assert not suspended(house, KIND["Job"], "train")
    async with opened(nodes=1) as house:
        await create(house, "Job", "other", {"queue": "lab"}, scheduler="default-scheduler")
        await asyncio.sleep(20)
        assert not suspended(house, KIND["Job"], "other"), "that label is of a scheduler that suspends nothing"


def test_expressions_of_patches_are_read_as_they_are_written() -> None:
    from kubedouble.plugins import plain

    text = plain('[JSONPatch{op: "add", path: "/spec/a", value: {"b": true}}]')
    assert text == '[{"op": "add", "path": "/spec/a", "value": {"b": true}}]'
    assert msgspec.json.decode(text)[0]["value"] == {"b": True}
