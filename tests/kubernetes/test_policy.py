"""Whose devices a pod sees is for the scheduler to say: the chart's policy, tried both ways by CEL's own runtime."""

from typing import Any

import msgspec
import pytest
from tests.kubernetes.house import NAMESPACE, PODS, House, opened
from tests.kubernetes.test_chart import rendered

import programs
from dollhouse.loop import live
from kubedouble import policies

Object = dict[str, Any]
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

pytestmark = pytest.mark.skipif(programs.found("helm") is None, reason=programs.why_not("helm"))


def of_kind(kind: str, mode: str = "annotation") -> list[Object]:
    """Objects of this kind in a release."""
    return [one for one in rendered([f"cluster.mode={mode}"]) if one["kind"] == kind]


async def install(house: House, mode: str = "annotation") -> None:
    """The chart's policy and its binding."""
    (policy,) = of_kind("ValidatingAdmissionPolicy", mode)
    (bound,) = of_kind("ValidatingAdmissionPolicyBinding", mode)
    await house.ask("POST", POLICIES, policy)
    await house.ask("POST", f"{POLICIES[:-3]}ybindings", bound)
    for name in ("gpu-operator", "system"):
        await house.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})


def pod(name: str, *env: str, where: str = "containers", notes: Object | None = None) -> Object:
    """A pod of somebody's that sets these variables."""
    plain = {"name": "main", "image": "x:1"}
    setting = {"name": "sets", "image": "x:1", "env": [{"name": one, "value": "all"} for one in env]}
    spec: Object = {"containers": [plain]}
    spec[where] = [*spec.get(where, []), setting]
    return {"metadata": {"name": name, "annotations": notes or {}}, "spec": spec}


async def answer(house: House, body: Object, path: str = PODS, method: str = "POST") -> tuple[int, str]:
    """What the server says to an administrator: even that is not the scheduler."""
    found = await house.double.handle(method, path, "", msgspec.json.encode(body))
    return found.status, msgspec.json.decode(found.body).get("message", "")


def test_pods_that_name_their_gpus_themselves_are_refused_and_all_others_let_in() -> None:
    live(refused_story())


async def refused_story() -> None:
    async with opened(nodes=1) as house:
        await install(house)
        for number, (env, where) in enumerate(
            [
                ("NVIDIA_VISIBLE_DEVICES", "containers"),
                ("CUDA_VISIBLE_DEVICES", "containers"),
                ("NVIDIA_VISIBLE_DEVICES", "initContainers"),
                ("CUDA_VISIBLE_DEVICES", "initContainers"),
            ]
        ):
            status, message = await answer(house, pod(f"bad-{number}", "OTHER", env, where=where))
            assert (status, "leave them out" in message) == (403, True), env
            assert "release-gangline-visible-devices" in message
        assert (await answer(house, pod("fine", "NVIDIA_DRIVER_CAPABILITIES", "cuda_visible_devices")))[0] == 201
        assert (await answer(house, pod("plain")))[0] == 201
        for field, status in (("visible-devices", 201), ("other", 403)):
            source = {"fieldRef": {"fieldPath": f"metadata.annotations['gangline.dev/{field}']"}}
            takes = pod(f"takes-{field}")
            takes["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}]
            assert (await answer(house, takes))[0] == status, "only what we set may be taken"
        assert len(house.stored("/pods")) == 3


def test_pods_from_before_the_policy_and_words_that_name_no_gpu_are_let_be() -> None:
    live(older_story())


async def older_story() -> None:
    async with opened(nodes=1) as house:
        assert (await answer(house, pod("older", "NVIDIA_VISIBLE_DEVICES")))[0] == 201
        await install(house)
        for change in ({"labels": {"a": "b"}}, {"finalizers": ["x.example/y"]}, {"finalizers": None}):
            await house.ask("PATCH", f"{PODS}/older", {"metadata": change}, "application/merge-patch+json")
        for number, value in enumerate(("", "none", "void")):
            launcher = pod(f"launcher-{number}")
            launcher["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
            assert (await answer(house, launcher))[0] == 201, "operators of MPI jobs hide GPUs from launchers so"
        mixed = pod("mixed")
        source = {"fieldRef": {"fieldPath": "metadata.name"}}
        mixed["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}]
        assert (await answer(house, mixed))[0] == 403


def test_marks_by_which_the_scheduler_knows_its_tasks_and_gpus_are_its_own() -> None:
    live(marks_story())


async def marks_story() -> None:
    async with opened(nodes=1) as house:
        await install(house)
        for note in ("gpus", "visible-devices", "task", "placed-ms"):
            status, message = await answer(house, pod(f"bad-{note}", notes={f"gangline.dev/{note}": "0,1"}))
            assert (status, "its own annotations" in message) == (403, True), note
        assert (await answer(house, pod("queued", notes={"gangline.dev/queue": "lab"})))[0] == 201
        change = {"metadata": {"annotations": {"gangline.dev/gpus": "7"}}}
        with pytest.raises(AssertionError, match="its own annotations"):
            await house.ask("PATCH", f"{PODS}/queued", change, "application/merge-patch+json")
        fine = {"metadata": {"annotations": {"note": "x"}}}
        await house.ask("PATCH", f"{PODS}/queued", fine, "application/merge-patch+json")


def test_the_scheduler_itself_sets_devices_and_changes_to_its_pods_are_let_through() -> None:
    live(own_story())


async def own_story() -> None:
    async with opened(nodes=1, mode="annotation") as house:
        await install(house)
        await house.apply("train", gpus=2, command=["sleep"])
        await house.phase("train", "Running")
        (own,) = await house.pods()
        values = {one["name"]: one.get("value") for one in own["spec"]["containers"][0]["env"]}
        assert values["NVIDIA_VISIBLE_DEVICES"] == "0,1"
        change = {"metadata": {"labels": {"seen-by": "somebody"}}}
        await house.ask("PATCH", f"{PODS}/{own['metadata']['name']}", change, "application/merge-patch+json")
        more = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "x:1"}]}}
        path = f"{PODS}/{own['metadata']['name']}/ephemeralcontainers"
        assert (await answer(house, more, path, "PATCH"))[0] == 200
        house.kubelets.finish(own, 0)
        await house.phase("train", "Succeeded")


def test_a_container_added_for_debugging_may_not_see_the_neighbours_gpus() -> None:
    live(debug_story())


async def debug_story() -> None:
    async with opened(nodes=1) as house:
        await install(house)
        await answer(house, pod("plain"))
        env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        more = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "x:1", "env": env}]}}
        status, message = await answer(house, more, f"{PODS}/plain/ephemeralcontainers", "PATCH")
        assert (status, "leave them out" in message) == (403, True)


def test_device_plugins_and_exporters_in_their_namespaces_see_what_they_need() -> None:
    live(exempt_story())


async def exempt_story() -> None:
    async with opened(nodes=1) as house:
        await install(house)
        body = pod("exporter", "NVIDIA_VISIBLE_DEVICES")
        for namespace, status in (("kube-system", 201), ("gpu-operator", 201), ("system", 201), (NAMESPACE, 403)):
            assert (await answer(house, body, f"/api/v1/namespaces/{namespace}/pods"))[0] == status, namespace


@pytest.mark.parametrize("mode", ["count", "dra"])
@pytest.mark.parametrize("mark", ["task", "placed-ms", "cluster", "gpus"])
def test_in_the_other_modes_too_no_pod_says_of_itself_that_it_is_a_task_of_ours(mode: str, mark: str) -> None:
    live(marked_story(mode, mark))


async def marked_story(mode: str, mark: str) -> None:
    async with opened(nodes=1) as house:
        await install(house, mode)
        status, message = await answer(house, pod("forged", notes={f"gangline.dev/{mark}": "1"}))
        assert (status, "its own annotations" in message) == (403, True)
        assert (await answer(house, pod("usual", "NVIDIA_VISIBLE_DEVICES")))[0] == 201


def test_a_policy_that_cannot_be_read_is_refused_and_one_that_cannot_be_answered_denies() -> None:
    live(broken_story())


async def broken_story() -> None:
    async with opened(nodes=0) as house:
        (policy,) = of_kind("ValidatingAdmissionPolicy")
        policy = {**policy, "spec": {**policy["spec"], "validations": [{"expression": "object.spec.("}]}}
        assert (await answer(house, policy, POLICIES))[0] == 422
        spec = {**policy["spec"], "matchConditions": [], "validations": [{"expression": "object.spec.nothing == 1"}]}
        await house.ask("POST", POLICIES, {**policy, "spec": spec})
        (bound,) = of_kind("ValidatingAdmissionPolicyBinding")
        await house.ask("POST", f"{POLICIES[:-3]}ybindings", bound)
        assert (await answer(house, pod("plain")))[0] == 422


def test_no_expression_of_the_chart_is_one_that_cel_cannot_read() -> None:
    for policy in of_kind("ValidatingAdmissionPolicy"):
        assert list(policies.faults(policy)) == []
    (fault,) = policies.faults({"spec": {"validations": [{"expression": "("}]}})
    assert "compilation failed" in fault
