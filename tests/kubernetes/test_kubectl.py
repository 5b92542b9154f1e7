"""The real kubectl against the double: what users and administrators type, and what they get."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.patience import LONG_S

import programs
from gangline_kubernetes.definitions import definitions
from kubedouble.kubelet import Kubelets
from kubedouble.server import Double
from kubedouble.web import serving

KUBECTL = programs.found("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason=programs.why_not("kubectl"))

JOB = {
    "apiVersion": "gangline.dev/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {"gpus": 2, "command": ["python", "train.py"], "env": {"MODE": "train"}, "time_limit": "2h"},
}


class Shell:
    """kubectl, pointed at a double."""

    def __init__(self, double: Double, kubelets: Kubelets, url: str, home: Path) -> None:
        self.double = double
        self.kubelets = kubelets
        self.url = url
        self.home = home

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """One that runs."""
        return await asyncio.create_subprocess_exec(
            *(str(KUBECTL), "--server", self.url, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
        )

    async def run(self, *arguments: str, stdin: object = None, fails: bool = False) -> str:
        """What kubectl prints."""
        process = await self.start(*arguments)
        data = yaml.safe_dump(stdin).encode() if stdin is not None else b""
        async with asyncio.timeout(LONG_S):
            said, _ = await process.communicate(data)
        text = said.decode()
        assert (process.returncode != 0) is fails, text
        return text


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    double = Double(time.time, bookmark_s=1.0)
    kubelets = Kubelets(double)
    kubelets.add_node("n0")
    async with serving(double) as url:
        found = Shell(double, kubelets, url, tmp_path)
        for one in definitions():
            await found.run("apply", "-f", "-", stdin=one)
        yield found


async def test_a_job_is_applied_listed_explained_changed_waited_for_and_deleted(shell: Shell) -> None:
    assert "created" in await shell.run("apply", "-f", "-", stdin=JOB)
    assert "unchanged" in await shell.run("apply", "-f", "-", stdin=JOB)
    listed = await shell.run("get", "jobs.gangline.dev")
    assert listed.split()[:6] == ["NAME", "JOB", "PHASE", "REASON", "GPUS", "RUNNING"]
    assert "train" in listed
    assert "MESSAGE" not in listed
    assert "MESSAGE" in await shell.run("get", "gj", "-o", "wide")
    said = await shell.run("explain", "gj.spec.time_limit")
    assert "The job is stopped after this" in said
    held = {**JOB, "spec": {**JOB["spec"], "hold": True}}
    assert "configured" in await shell.run("apply", "-f", "-", stdin=held)
    found = json.loads(await shell.run("get", "gj", "train", "-o", "json"))
    assert found["spec"]["hold"] is True
    assert found["metadata"]["generation"] == 2
    waiting = asyncio.get_running_loop().create_task(
        shell.run("wait", "--for=condition=Running", "gj/train", "--timeout=80s")
    )
    status = {"status": {"phase": "Running", "conditions": [{"type": "Running", "status": "True"}]}}
    kind = shell.double.kinds.find("gangline.dev", "v1alpha1", "jobs")
    assert kind is not None
    shell.double.verbs.patch(kind, "default", "train", form="application/merge-patch+json", data=status, status=True)
    assert "condition met" in await waiting
    assert "deleted" in await shell.run("delete", "gj", "train")


async def test_what_the_schema_forbids_is_refused_with_the_fields_name(shell: Shell) -> None:
    wrong = {**JOB, "spec": {**JOB["spec"], "priority": "high"}}
    assert "spec.priority" in await shell.run("apply", "-f", "-", stdin=wrong, fails=True)
    unknown = {**JOB, "spec": {**JOB["spec"], "gpu_memry": "8Gi"}}
    assert "gpu_memry" in await shell.run("apply", "-f", "-", stdin=unknown, fails=True)
    await shell.run("apply", "-f", "-", stdin={**JOB, "spec": {**JOB["spec"], "tasks": 2}})
    changed = {**JOB, "spec": {**JOB["spec"], "tasks": 3}}
    assert "cannot be changed; make a new Job" in await shell.run("apply", "-f", "-", stdin=changed, fails=True)


async def test_server_side_apply_keeps_what_others_own(shell: Shell) -> None:
    await shell.run("apply", "--server-side", "-f", "-", stdin=JOB)
    other = {**JOB, "spec": {"priority": 7}}
    await shell.run("apply", "--server-side", "--field-manager=boss", "-f", "-", stdin=other)
    found = json.loads(await shell.run("get", "gj", "train", "-o", "json"))
    assert (found["spec"]["priority"], found["spec"]["gpus"]) == (7, 2)
    clash = {**JOB, "spec": {**JOB["spec"], "priority": 9}}
    assert "conflict" in (await shell.run("apply", "--server-side", "-f", "-", stdin=clash, fails=True)).lower()


async def test_pods_and_nodes_look_as_they_should(shell: Shell) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "x:1"}]},
    }
    await shell.run("apply", "-f", "-", stdin=pod)
    await shell.run("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=80s")
    assert "Running" in await shell.run("get", "pods", "-l", "app=x", "--field-selector=spec.nodeName=n0")
    assert "No resources found" in await shell.run("get", "pods", "-l", "app!=x")
    assert "n0" in await shell.run("get", "nodes")
    await shell.run("cordon", "n0")
    assert "true" in await shell.run("get", "node", "n0", "-o", "jsonpath={.spec.unschedulable}")
    await shell.run("delete", "pod", "p", "--grace-period=1")
    assert "NotFound" in await shell.run("get", "pod", "p", fails=True)


async def test_an_elastic_job_is_scaled_and_one_of_a_fixed_size_is_not(shell: Shell) -> None:
    elastic = {**JOB, "spec": {**JOB["spec"], "tasks": 2, "max": 8}}
    await shell.run("apply", "-f", "-", stdin=elastic)
    assert "scaled" in await shell.run("scale", "jobs.gangline.dev/train", "--replicas=5")
    assert "5" in await shell.run("get", "gj", "train", "-o", "jsonpath={.spec.tasks}")
    fixed = {**JOB, "metadata": {"name": "fixed"}, "spec": {**JOB["spec"], "tasks": 2}}
    await shell.run("apply", "-f", "-", stdin=fixed)
    said = await shell.run("scale", "jobs.gangline.dev/fixed", "--replicas=5", fails=True)
    assert "cannot be changed; make a new Job" in said


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("groups.gangline.dev.spec.guaranteed", "guaranteed"),
        ("pools.gangline.dev.spec.grows", "Machines come when they are asked for"),
        ("policyconfigs.gangline.dev.spec.ordering", "A name in"),
        ("gj.status.conditions", "What holds now"),
    ],
)
async def test_every_kind_explains_its_fields(shell: Shell, place: str, words: str) -> None:
    # Has kubectl look anew at what there is, which it remembers from before the definitions were made.
    await shell.run("get", place.partition(".spec")[0].partition(".status")[0])
    assert words in await shell.run("explain", place)


async def test_a_policy_refuses_what_kubectl_run_asks_for(shell: Shell) -> None:
    rule = {"expression": "object.spec.containers.all(c, !has(c.env))", "message": "no variables here"}
    resources = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "bare"},
        "spec": {"matchConstraints": {"resourceRules": resources}, "validations": [rule]},
    }
    bound = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "bare"},
        "spec": {"policyName": "bare", "validationActions": ["Deny"]},
    }
    for one in (policy, bound):
        await shell.run("apply", "-f", "-", stdin=one)
    assert "no variables here" in await shell.run("run", "p", "--image=x:1", "--env=A=1", fails=True)
    assert "created" in await shell.run("run", "q", "--image=x:1")


async def test_events_of_a_job_are_described_and_followed(shell: Shell) -> None:
    await shell.run("apply", "-f", "-", stdin=JOB)
    uid = await shell.run("get", "gj", "train", "-o", "jsonpath={.metadata.uid}")
    about = {"apiVersion": "gangline.dev/v1alpha1", "kind": "Job", "name": "train", "namespace": "default", "uid": uid}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "train.1"},
        "involvedObject": about,
        "reason": "QuotaHeld",
        "message": "waits for its group",
        "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    await shell.run("create", "-f", "-", stdin=event)
    described = await shell.run("describe", "gj", "train")
    assert "QuotaHeld" in described
    assert "waits for its group" in described
    assert "QuotaHeld" in await shell.run("events", "--for", "jobs.gangline.dev/train")
    assert "QuotaHeld" in await shell.run("get", "events", "--field-selector", "involvedObject.name=train")


async def test_changes_are_seen_as_they_come_and_undone_by_none_of_the_kinds_of_patch(shell: Shell) -> None:
    await shell.run("apply", "-f", "-", stdin=JOB)
    process = await shell.start("get", "gj", "train", "--watch", "-o", "jsonpath={.spec.hold} ")
    assert process.stdout is not None
    seen = await process.stdout.read(1)  # it has listed, and watches from there
    for form, change in (
        ("merge", '{"spec": {"hold": true}}'),
        ("json", '[{"op": "replace", "path": "/spec/hold", "value": false}]'),
    ):
        assert "patched" in await shell.run("patch", "gj", "train", "--type", form, "-p", change)
    async with asyncio.timeout(LONG_S):
        while "true false" not in " ".join(seen.decode().split()):
            piece = await process.stdout.read(1000)
            assert piece, seen
            seen += piece
    process.kill()
    await process.communicate()
    said = await shell.run("patch", "gj", "train", "--type", "strategic", "-p", "{}", fails=True)
    assert "UnsupportedMediaType" in said or "application/strategic-merge-patch+json is not supported" in said


async def test_a_node_is_drained_by_evictions_that_budgets_may_refuse(shell: Shell) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"nodeName": "n0", "terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "x:1"}]},
    }
    await shell.run("apply", "-f", "-", stdin=pod)
    await shell.run("wait", "--for=condition=Ready", "pod/p", "--timeout=80s")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 0},
    }
    await shell.run("create", "-f", "-", stdin=budget)
    for limit in ("3s", "20s", "60s"):  # enough to be refused once, on a machine however busy
        said = await shell.run("drain", "n0", "--force", f"--timeout={limit}", fails=True)
        if "disruption budget" in said:
            break
    assert "disruption budget" in said
    await shell.run("delete", "pdb", "b")
    assert "drained" in await shell.run("drain", "n0", "--force", "--timeout=80s")
    assert "NotFound" in await shell.run("get", "pod", "p", fails=True)
