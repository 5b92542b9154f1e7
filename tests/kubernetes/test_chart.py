"""The chart renders in every combination, is valid to the letter, closed, and documented."""

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import programs
from gangline_wire.rights import OWN, READER

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "gangline"
HELM = programs.found("helm")
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
PROJECT = ROOT / "pyproject.toml"

needs_helm = pytest.mark.skipif(HELM is None, reason=programs.why_not("helm"))

EVERYTHING = [
    "ingress.enabled=true",
    "agent.enabled=true",
    "agent.watch.enabled=true",
    "metrics.serviceMonitor.enabled=true",
    "metrics.prometheusRule.enabled=true",
    "grafana.dashboards.enabled=true",
]
MATRIX = {
    "as it comes": [],
    "everything": EVERYTHING,
    "annotation": ["cluster.mode=annotation"],
    "dra": ["cluster.mode=dra"],
    "three bus servers": ["nats.replicas=3", "nats.digest=sha256:" + "b" * 64],
    "own bus and secret": ["nats.enabled=false", "nats.url=tls://bus:4222", "existingSecret=mine"],
    "own bus, secret, certificate and agents": [
        "nats.enabled=false",
        "nats.url=tls://bus:4222",
        "nats.replicas=3",
        "existingSecret=mine",
        "ingress.tlsSecret=cert",
        *EVERYTHING,
    ],
    "everything in claims": ["cluster.mode=dra", "cluster.provisioningClass=x.io", "nats.replicas=5", *EVERYTHING],
    "annotation without objects of others": ["cluster.mode=annotation", "cluster.adopt=false", "cluster.leave=false"],
    "three of each": [f"services.{name}.replicas=3" for name in VALUES["services"] if name != "recorder"],
    "small": [
        "networkPolicy.enabled=false",
        "podDisruptionBudget.enabled=false",
        "topologySpread.enabled=false",
        "crds.install=false",
        "jobs.createNamespace=false",
        *(f"services.{name}.replicas=1" for name in VALUES["services"]),
    ],
    "named": [
        "fullnameOverride=g",
        "image.registry=r.example",
        "image.digest=sha256:" + "a" * 64,
        "commonLabels.team=x",
    ],
}
VERSIONS = ("1.30", "1.36")
"""Of Kubernetes, from the oldest on."""
NOT_OF_KUBERNETES = {"ServiceMonitor", "PrometheusRule"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def objects_of(text: str) -> list[dict[str, Any]]:
    """The documents that helm printed."""
    return [one for one in yaml.load_all(text, Loader=LOADER) if one]


def helm(*arguments: str, fails: bool = False) -> str:
    """What helm prints."""
    done = subprocess.run([str(HELM), *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def rendered(settings: list[str]) -> list[dict[str, Any]]:
    """All objects of a release."""
    return _rendered(tuple(settings))


@cache
def _rendered(settings: tuple[str, ...]) -> list[dict[str, Any]]:
    sets = [
        part for setting in settings for part in ("--set-string" if "labels" in setting.lower() else "--set", setting)
    ]
    text = helm("template", "release", str(CHART), "--namespace", "system", "--kube-version", "1.36.0", *sets)
    return objects_of(text)


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod template, with the name of what it is in."""
    for one in objects:
        if one["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]
        elif one["kind"] == "Pod":
            yield one["metadata"]["name"], one["spec"]


@needs_helm
def test_the_chart_has_nothing_for_helm_to_say() -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@cache
def validator() -> Callable[..., object]:
    """What proves an object against the schemas of Kubernetes; each of their large files is read once."""
    utils = pytest.importorskip("kubernetes_validate.utils")
    utils.schema_contents = cache(utils.schema_contents)
    return utils.validate


@cache
def check(text: str, version: str = "1.36") -> None:
    """Validate an object, once for all releases that have it."""
    validator()(json.loads(text), version, strict=True)


def test_the_oldest_version_that_is_checked_is_the_oldest_that_the_chart_allows() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["kubeVersion"] == f">={VERSIONS[0]}.0-0"


@needs_helm
@pytest.mark.parametrize("settings", MATRIX.values(), ids=MATRIX)
def test_every_object_is_valid_to_the_letter(settings: list[str]) -> None:
    objects = rendered(settings)
    assert len(objects) > 20
    for one in objects:
        for version in VERSIONS if one["kind"] not in NOT_OF_KUBERNETES else ():
            check(json.dumps(one, sort_keys=True), version)
    names = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)


@needs_helm
@pytest.mark.parametrize("settings", MATRIX.values(), ids=MATRIX)
def test_no_container_is_root_or_may_more_than_it_needs(settings: list[str]) -> None:
    for name, spec in pods(rendered(settings)):
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is (name.endswith("-kubernetes"))
        assert not any("hostPath" in volume for volume in spec["volumes"])
        assert not any(spec.get(word) for word in ("hostNetwork", "hostPID", "hostIPC"))
        for container in spec["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]


@needs_helm
@pytest.mark.parametrize("settings", MATRIX.values(), ids=MATRIX)
def test_nothing_that_is_told_apart_by_its_name_stands_twice(settings: list[str]) -> None:
    """Or server-side apply, by which helm installs, refuses the object."""
    for name, spec in pods(rendered([*settings, "services.queue.env.GANGLINE_LOG_LEVEL=debug"])):
        lists = [spec["volumes"], spec["containers"]]
        for one in spec["containers"]:
            lists += [one.get("env", []), one.get("ports", [])]
            places = [mount["mountPath"] for mount in one.get("volumeMounts", [])]
            assert len(set(places)) == len(places), name
        for entries in lists:
            names = [entry["name"] for entry in entries]
            assert len(set(names)) == len(names), (name, names)


@needs_helm
def test_what_is_said_for_one_service_takes_the_place_of_what_the_chart_says() -> None:
    found = dict(pods(rendered(["services.queue.env.GANGLINE_LOG_LEVEL=debug", "services.queue.env.MINE=1"])))
    (queue,), (placement,) = (found[f"release-gangline-{name}"]["containers"] for name in ("queue", "placement"))
    levels = [
        [one["value"] for one in each["env"] if one["name"] == "GANGLINE_LOG_LEVEL"] for each in (queue, placement)
    ]
    assert levels == [["debug"], ["info"]]
    assert {"name": "MINE", "value": "1"} in queue["env"]


@needs_helm
def test_a_service_gets_its_own_password_and_no_other() -> None:
    for name, spec in pods(rendered(EVERYTHING)):
        # Whoever only looks at a cluster's nodes is an agent, too.
        service = name.removeprefix("release-gangline-").replace("watch", "agent")
        for volume in spec["volumes"]:
            keys = [item["key"] for item in volume.get("secret", {}).get("items", ())]
            assert set(keys) <= {f"{service}.password", "admin.token"}
            assert ("admin.token" in keys) is (service == "admission" and volume["name"] == "keys")


@needs_helm
def test_every_service_runs_with_probes_and_settings_it_understands() -> None:
    import importlib

    from gangline_kit.config import load, load_kit

    found = dict(pods(rendered(EVERYTHING)))
    for service in OWN:
        spec = found[f"release-gangline-{service}"]
        (container,) = spec["containers"]
        assert container["command"] == [f"gangline-{service}"]
        assert container["livenessProbe"]
        assert container["readinessProbe"]
        environment = {one["name"]: str(one.get("value", "x")) for one in container["env"]}
        assert load_kit(environment).nats_user == service
        load(importlib.import_module(f"gangline_{service}.config").Config, service, environment)


@needs_helm
def test_the_bus_server_accepts_its_settings(tmp_path: Path) -> None:
    import os
    import sysconfig

    (settings,) = (
        one for one in rendered([]) if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("nats")
    )
    text = settings["data"]["nats.conf"].replace("/data", str(tmp_path / "data"))
    (tmp_path / "nats.conf").write_text(text, encoding="utf-8")
    passwords = {f"PASSWORD_{name.upper()}": f"k{name}" for name in (*OWN, READER)}
    server = Path(sysconfig.get_path("scripts"), "nats-server")
    done = subprocess.run(
        [server, "-t", "-c", tmp_path / "nats.conf"],
        env={**os.environ, "POD_NAME": "nats-0", **passwords},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@needs_helm
def test_several_bus_servers_are_one_cluster_that_only_they_may_join(tmp_path: Path) -> None:
    import os
    import sysconfig

    found = rendered(["nats.replicas=3"])
    (servers,) = (one for one in found if one["kind"] == "StatefulSet" and one["metadata"]["name"].endswith("-nats"))
    (budget,) = (
        one for one in found if one["kind"] == "PodDisruptionBudget" and one["metadata"]["name"].endswith("-nats")
    )
    (container,) = servers["spec"]["template"]["spec"]["containers"]
    assert (servers["spec"]["replicas"], budget["spec"]["maxUnavailable"]) == (3, 1)
    names = {one["metadata"]["name"]: one for one in found if one["kind"] == "Service"}
    heads = names[servers["spec"]["serviceName"]]["spec"]
    assert (heads["clusterIP"], heads["publishNotReadyAddresses"]) == ("None", True)
    routes = container["args"][container["args"].index("--routes") + 1].split(",")
    assert [f"-nats-{k}.{servers['spec']['serviceName']}:6222" in one for k, one in enumerate(routes)] == [True] * 3
    (settings,) = (one for one in found if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("nats"))
    text = settings["data"]["nats.conf"].replace("/data", str(tmp_path / "data"))
    (tmp_path / "nats.conf").write_text(text, encoding="utf-8")
    passwords = {f"PASSWORD_{name.upper()}": f"k{name}" for name in (*OWN, READER, "routes")}
    given = [one.replace("$(PASSWORD_ROUTES)", "kroutes") for one in container["args"][2:]]
    server = Path(sysconfig.get_path("scripts"), "nats-server")
    done = subprocess.run(
        [server, "-t", "-c", tmp_path / "nats.conf", *given],
        env={**os.environ, "POD_NAME": "nats-0", **passwords},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for _, spec in pods(found):
        for one in spec["containers"]:
            values = {each["name"]: each.get("value") for each in one.get("env", ())}
            assert values.get("GANGLINE_REPLICAS", "3") == "3"


@needs_helm
def test_a_digest_takes_the_place_of_the_tag_and_not_of_the_registrys_port() -> None:
    digest = "sha256:" + "b" * 64
    found = rendered(["nats.image=localhost:5000/lab/nats:2.12.8", f"nats.digest={digest}"])
    images = {one["image"] for _, spec in pods(found) for one in spec["containers"] if "nats" in one["image"]}
    assert images == {f"localhost:5000/lab/nats@{digest}"}


@needs_helm
def test_every_pod_of_ours_may_be_where_the_release_may_be() -> None:
    found = rendered(["tolerations[0].key=infra", "tolerations[0].operator=Exists", "nodeSelector.zone=b"])
    once = [(one["metadata"]["name"], one["spec"]["template"]["spec"]) for one in found if one["kind"] == "Job"]
    once += [(one["metadata"]["name"], one["spec"]) for one in found if one["kind"] == "Pod"]
    assert len(once) == 2, "the one that tests the release, and the one that leaves"
    for name, spec in (*pods(found), *once):
        assert spec.get("tolerations"), name
        assert spec.get("nodeSelector") == {"zone": "b"}, name


@needs_helm
def test_what_is_set_wrongly_is_refused_with_its_place() -> None:
    assert "/nats/replicas" in helm("template", "r", str(CHART), "--set", "nats.replicas=2", fails=True)
    assert "/services/queue/replicas" in helm(
        "template", "r", str(CHART), "--set", "services.queue.replicas=0", fails=True
    )
    assert "mode" in helm("template", "r", str(CHART), "--set", "cluster.mode=magic", fails=True)
    assert "replicaCount" in helm("template", "r", str(CHART), "--set", "replicaCount=2", fails=True)
    assert "nats.url must be set" in helm("template", "r", str(CHART), "--set", "nats.enabled=false", fails=True)


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all settings."""
    for key, value in values.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))


def test_every_setting_is_described() -> None:
    for path in leaves(VALUES):
        schema = SCHEMA
        for part in path:
            if "properties" not in schema:
                break
            schema = schema["properties"][part]
        assert len(schema["description"]) > 5, ".".join(path)


def test_the_chart_has_the_version_of_the_project() -> None:
    import tomllib

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]


def test_every_alert_speaks_of_metrics_there_are() -> None:
    import re

    from gangline_kit.metrics import METRICS

    alerts = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    for rule in alerts["groups"][0]["rules"]:
        named = set(re.findall(r"gangline_\w+", rule["expr"]))
        assert named
        assert named <= set(METRICS), rule["alert"]
        assert rule["annotations"]["description"]
