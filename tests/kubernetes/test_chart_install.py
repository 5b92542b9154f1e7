"""A release is put on a cluster, and made another one, by server-side apply, as helm does it."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.test_chart import MATRIX, NOT_OF_KUBERNETES, rendered
from tests.kubernetes.test_kubectl import Shell

import programs
from kubedouble.kinds import Kind
from kubedouble.kubelet import Kubelets
from kubedouble.server import Double
from kubedouble.web import serving

Object = dict[str, Any]
pytestmark = pytest.mark.skipif(
    programs.found("kubectl") is None or programs.found("helm") is None, reason=programs.why_not("kubectl")
)
MORE = (
    Kind("apps", "v1", "deployments", "Deployment", has_status=True, counts_generations=True),
    Kind("apps", "v1", "daemonsets", "DaemonSet", has_status=True, counts_generations=True),
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", counts_generations=True),
    Kind("networking.k8s.io", "v1", "ingresses", "Ingress", has_status=True, counts_generations=True),
    *(
        Kind("rbac.authorization.k8s.io", "v1", f"{name.lower()}s", name, namespaced=not name.startswith("Cluster"))
        for name in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ),
)
"""Kinds of which a chart is made, and of which the service knows nothing."""


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    """kubectl and a cluster with nothing of ours on it."""
    double = Double(time.time, bookmark_s=1.0)
    for kind in MORE:
        double.kinds.add(kind)
    async with serving(double) as url:
        found = Shell(double, Kubelets(double), url, tmp_path)
        await found.run(
            "apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}
        )
        yield found


async def put(shell: Shell, settings: list[str]) -> str:
    """Apply all objects of a release, those first that others are in."""
    objects = [one for one in rendered(settings) if one["kind"] not in NOT_OF_KUBERNETES]
    objects = [one for one in objects if not any("hook" in key for key in one["metadata"].get("annotations") or {})]
    objects.sort(key=lambda one: ("Namespace", "CustomResourceDefinition").count(one["kind"]) == 0)
    spread = {kind.name for kind in shell.double.kinds if kind.namespaced}
    placed = [
        {**one, "metadata": {"namespace": "system", **one["metadata"]}} if one["kind"] in spread else one
        for one in objects
    ]
    path = shell.home / "release.json"
    path.write_text("\n---\n".join(map(json.dumps, placed)), encoding="utf-8")
    return await shell.run("apply", "--server-side", "--field-manager=helm", "-f", str(path))


async def test_a_release_is_installed_and_made_another_one_and_jobs_survive_it(shell: Shell) -> None:
    said = await put(shell, MATRIX["as it comes"])
    assert "serverside-applied" in said
    job = {
        "apiVersion": "gangline.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"gpus": 2, "command": ["x"]},
    }
    await shell.run("apply", "-f", "-", stdin=job)
    await put(shell, MATRIX["everything in claims"])
    found = json.loads(await shell.run("get", "deployment", "-n", "system", "-o", "json"))
    assert len(found["items"]) == 9
    kubernetes = next(one for one in found["items"] if one["metadata"]["name"].endswith("-kubernetes"))
    env = {one["name"]: one["value"] for one in kubernetes["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["GANGLINE_KUBERNETES_MODE"] == "dra"
    assert "train" in await shell.run("get", "gj")
    assert "deviceclasses" not in await shell.run("get", "clusterrole", "release-gangline-kubernetes", "-o", "yaml")


async def test_definitions_of_an_older_release_learn_new_fields(shell: Shell) -> None:
    (definition,) = (one for one in rendered([]) if one["metadata"]["name"] == "jobs.gangline.dev")
    older: Object = json.loads(json.dumps(definition))
    fields = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del fields["preempts"]
    await shell.run("apply", "--server-side", "--field-manager=helm", "-f", "-", stdin=older)
    job = {
        "apiVersion": "gangline.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"gpus": 2, "command": ["x"], "preempts": False},
    }
    assert "preempts" in await shell.run("apply", "-f", "-", stdin=job, fails=True)
    await put(shell, MATRIX["as it comes"])
    assert "created" in await shell.run("apply", "-f", "-", stdin=job)
