"""The real helm installs, upgrades, tests and removes a release on the double."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.test_chart import CHART
from tests.kubernetes.test_kubectl import Shell

import programs
from kubedouble.kinds import Kind
from kubedouble.kubelet import Kubelets, Life
from kubedouble.scheduler import DefaultScheduler
from kubedouble.server import Double
from kubedouble.store import Change
from kubedouble.web import serving

Object = dict[str, Any]
HELM = programs.found("helm")
pytestmark = [
    pytest.mark.skipif(HELM is None, reason=programs.why_not("helm")),
    pytest.mark.skipif(programs.found("kubectl") is None, reason=programs.why_not("kubectl")),
]
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
JOB = {
    "apiVersion": "gangline.dev/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {"gpus": 2, "command": ["x"], "preempts": False},
}


class Cluster(Shell):
    """kubectl and helm, and a cluster whose pods and jobs end well."""

    def __init__(self, double: Double, url: str, home: Path) -> None:
        super().__init__(double, Kubelets(double, lambda pod: Life(start_s=0.05, run_s=0.1)), url, home)
        self.kubelets.add_node("n0")
        DefaultScheduler(double)
        double.store.listeners.append(self._finish)

    def _finish(self, change: Change) -> None:
        """What the controller of Jobs does, in the end."""
        if change.storage == "batch/jobs" and change.verb == "ADDED":
            done = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
            put = lambda: self.double.store.put("batch/jobs", {**change.after, "status": done}, change.after)  # noqa: E731  # said once
            asyncio.get_running_loop().call_later(0.1, put)

    async def helm(self, *arguments: str, fails: bool = False) -> str:
        """What helm prints."""
        process = await asyncio.create_subprocess_exec(
            str(HELM),
            *("--kube-apiserver", self.url, "--namespace", "system"),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
        )
        async with asyncio.timeout(120):
            said, _ = await process.communicate()
        assert (process.returncode != 0) is fails, said.decode()
        return said.decode()

    def stored(self, storage: str, name: str) -> Object:
        """The object of this name, in whichever namespace; empty when there is none."""
        return next((one for one in self.double.store.all(storage) if one["metadata"]["name"] == name), {})


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster with nothing of ours on it."""
    double = Double(time.time, bookmark_s=1.0)
    for kind in MORE:
        double.kinds.add(kind)
    async with serving(double) as url:
        yield Cluster(double, url, tmp_path)


def older(folder: Path) -> Path:
    """The chart as it might have been before, with a definition that lacks a field."""
    shutil.copytree(CHART, folder)
    path = folder / "files" / "crds.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    for one in found:
        schema = one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"].pop("preempts", None)
    path.write_text(json.dumps(found), encoding="utf-8")
    return folder


async def test_a_release_is_installed_tested_and_made_another_one_and_keeps_its_keys(cluster: Cluster) -> None:
    said = await cluster.helm("install", "release", str(CHART), "--create-namespace")
    assert "Your first job" in said
    assert len(cluster.double.store.all("apps/deployments")) == 9
    keys = cluster.stored("/secrets", "release-gangline-keys")["data"]
    assert "Phase:          Succeeded" in await cluster.helm("test", "release", "--timeout", "80s")
    await cluster.helm(
        "upgrade",
        "release",
        str(CHART),
        "--set",
        "cluster.mode=dra",
        "--set",
        "services.queue.env.GANGLINE_LOG_LEVEL=debug",
    )
    assert cluster.stored("/secrets", "release-gangline-keys")["data"] == keys, "or nobody could log in any more"
    spec = cluster.stored("apps/deployments", "release-gangline-kubernetes")["spec"]["template"]["spec"]
    env = {one["name"]: one["value"] for one in spec["containers"][0]["env"]}
    assert env["GANGLINE_KUBERNETES_MODE"] == "dra"
    rules = cluster.stored("rbac.authorization.k8s.io/clusterroles", "release-gangline-kubernetes")["rules"]
    assert any("resourceclaims" in rule["resources"] for rule in rules)
    await cluster.helm("rollback", "release", "1")
    rules = cluster.stored("rbac.authorization.k8s.io/clusterroles", "release-gangline-kubernetes")["rules"]
    assert not any("resourceclaims" in rule["resources"] for rule in rules)


async def test_an_upgrade_brings_new_fields_of_definitions_and_jobs_survive_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.helm("install", "release", str(older(tmp_path / "chart")), "--create-namespace")
    assert "preempts" in await cluster.run("apply", "-f", "-", stdin=JOB, fails=True)
    plain = {**JOB, "metadata": {"name": "plain"}, "spec": {"gpus": 1, "command": ["x"]}}
    await cluster.run("apply", "-f", "-", stdin=plain)
    await cluster.helm("upgrade", "release", str(CHART))
    assert "created" in await cluster.run("apply", "-f", "-", stdin=JOB)
    assert "plain" in await cluster.run("get", "gj")


async def test_a_release_that_goes_leaves_jobs_keys_and_archive_and_nothing_else(cluster: Cluster) -> None:
    before = {storage for storage, held in cluster.double.store.objects.items() if held}
    await cluster.helm("install", "release", str(CHART), "--create-namespace")
    await cluster.run("apply", "-f", "-", stdin={**JOB, "spec": {"gpus": 1, "command": ["x"]}})
    said = await cluster.helm("uninstall", "release", "--timeout", "80s")
    assert "release-gangline-archive" in said
    left = {storage for storage, held in cluster.double.store.objects.items() if held} - before
    kept = {
        "/persistentvolumeclaims",
        "/secrets",
        "apiextensions.k8s.io/customresourcedefinitions",
        "gangline.dev/jobs",
    }
    assert left == kept
    assert "train" in await cluster.run("get", "gj")
