"""Every single setting of the chart, set otherwise: it has an effect, and what comes out is still valid and closed."""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.kubernetes.test_chart import (
    CHART,
    HELM,
    NOT_OF_KUBERNETES,
    SCHEMA,
    VALUES,
    check,
    needs_helm,
    objects_of,
    pods,
)

Object = dict[str, Any]
Path = tuple[str, ...]

SAMPLES: dict[str, Any] = {
    "nameOverride": "other",
    "fullnameOverride": "whole",
    "commonLabels": {"team": "x"},
    "image.registry": "r.example",
    "image.repository": "mirror/gangline",
    "image.tag": "7",
    "image.digest": "sha256:" + "a" * 64,
    "imagePullSecrets": [{"name": "pull"}],
    "cluster.exemptNamespaces": ["monitoring"],
    "cluster.provisioningClass": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    "nats.url": "tls://bus:4222",
    "nats.digest": "sha256:" + "b" * 64,
    "nats.replicas": 3,
    "agent.nodeSelector": {"special": "true"},
    "agent.tolerations": [{"key": "gpu", "operator": "Exists"}],
    "agent.watch.nodeSelector": {"special": "true"},
    "agent.watch.tolerations": [{"key": "special", "operator": "Exists"}],
    "serviceAccount.annotations": {"cloud/role": "x"},
    "podAnnotations": {"note": "x"},
    "nodeSelector": {"zone": "b"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
            }
        }
    },
    "service.annotations": {"cloud/internal": "true"},
    "ingress.annotations": {"cert-manager.io/cluster-issuer": "x"},
    "networkPolicy.apiFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    "networkPolicy.busFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "billing"}}}],
    "networkPolicy.metricsFrom": [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ],
    "metrics.serviceMonitor.interval": "15s",
    "metrics.serviceMonitor.labels": {"release": "prometheus"},
    "metrics.prometheusRule.labels": {"release": "prometheus"},
}
"""Another value for settings that are neither text nor number nor switch."""
FIRST: dict[str, Object] = {
    "agent": {"agent": {"enabled": True, "watch": {"enabled": True}}},
    "ingress": {"ingress": {"enabled": True}},
    "metrics": {"metrics": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}},
    "grafana": {"grafana": {"dashboards": {"enabled": True}}},
    "nats.url": {"nats": {"enabled": False, "url": "nats://a:4222"}},
    "nats.enabled": {"nats": {"url": "nats://a:4222"}},
    "cluster.exemptNamespaces": {"cluster": {"mode": "annotation"}},
}
"""What must be on for a setting to matter."""
LEAN: Object = {"crds": {"install": False}}
ALONE = (("global",), ("services", "recorder", "replicas"))
"""Where helm keeps what parent charts share, and a number that can only be one."""


def leaves(schema: Object, path: Path = ()) -> Iterator[tuple[Path, Object]]:
    """Every setting with its schema."""
    for name, inner in schema.get("properties", {}).items():
        if "properties" in inner:
            yield from leaves(inner, (*path, name))
        else:
            yield (*path, name), inner


def at(values: Object, path: Path) -> Any:
    """The value as the chart comes."""
    found: Any = values
    for step in path:
        found = found[step]
    return found


def others(path: Path, schema: Object) -> list[Any]:
    """Other values of a setting: all of a switch's and an enumeration's, one of any other's."""
    name, have = ".".join(path), at(VALUES, path)
    if schema["type"] == "boolean":
        return [not have]
    if "enum" in schema:
        return [one for one in schema["enum"] if one != have]
    if name in SAMPLES:
        return [SAMPLES[name]]
    if path[-1] == "resources":
        return [{"requests": {"cpu": "7m", "memory": "77Mi"}, "limits": {"memory": "777Mi"}}]
    if path[-1] == "env":
        return [{"GANGLINE_LOG_LEVEL": "debug"}]
    if schema["type"] == "integer":
        return [have + 1 if have == 1 else 1]
    if path[-1] == "size":
        return ["7Gi"]
    assert schema["type"] == "string", f"no other value of {name} is known"
    return ["other-value"]


def is_like_another(path: Path) -> bool:
    """True for settings that every service has: those of the two that differ most stand for all."""
    return path[0] == "services" and path[1] not in ("recorder", "kubernetes") and path[-1] != "replicas"


CASES = [
    pytest.param(path, value, id=f"{'.'.join(path)}={str(value)[:20]}")
    for path, schema in leaves(SCHEMA)
    if path not in ALONE and not is_like_another(path)
    for value in others(path, schema)
]


def nested(path: Path, value: Any) -> Object:
    """The value at its place."""
    for step in reversed(path):
        value = {step: value}
    return dict(value)


def joined(one: Object, other: Object) -> Object:
    """Values of both; the other's win."""
    result = dict(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = joined(result[key], value) if both else value
    return result


@cache
def rendered(text: str) -> str:
    """What helm makes of these values."""
    command = [str(HELM), "template", "release", str(CHART), "--namespace", "system", "--kube-version", "1.36.0"]
    done = subprocess.run(
        [*command, "--values", "-"], input=text, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def needed(path: Path) -> Object:
    """What must be on for the setting to matter."""
    found: Object = next((FIRST[name] for k in range(len(path), 0, -1) if (name := ".".join(path[:k])) in FIRST), {})
    # Definitions are most of what helm writes, and only one setting is about them.
    return found if path[0] == "crds" else joined(LEAN, found)


@needs_helm
@pytest.mark.parametrize(("path", "value"), CASES)
def test_a_setting_has_an_effect_and_what_comes_out_is_valid_and_closed(path: Path, value: Any) -> None:
    first = needed(path)
    if joined(first, nested(path, value)) == first:
        # The switch itself.
        first = LEAN
    after = rendered(json.dumps(joined(first, nested(path, value))))
    assert after != rendered(json.dumps(first)), f"{'.'.join(path)} changes nothing"
    objects = objects_of(after)
    for one in objects:
        if one["kind"] not in NOT_OF_KUBERNETES:
            check(json.dumps(one, sort_keys=True))
    for _, spec in pods(objects):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert not any("hostPath" in volume for volume in spec["volumes"])
        for container in spec["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@needs_helm
@pytest.mark.parametrize(
    ("path", "value"), [(path, schema) for path, schema in leaves(SCHEMA) if schema["type"] in ("boolean", "integer")]
)
def test_a_value_of_another_type_is_refused(path: Path, value: Object) -> None:
    command = [str(HELM), "template", "release", str(CHART), "--values", "-"]
    text = json.dumps(nested(path, "some text"))
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "/".join(path) in done.stderr


@needs_helm
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"nats": {"storage": {"size": "-3Gi"}}}, "at '/nats/storage/size'"),
        ({"archive": {"size": "20 GB"}}, "at '/archive/size'"),
        ({"jobs": {"namespace": "system"}}, "set jobs.createNamespace to false"),
        ({"nats": {"enabled": False}}, "nats.url must be set"),
        ({"service": {"type": "ExternalName"}}, "at '/service/type'"),
    ],
)
def test_what_the_cluster_would_refuse_half_way_through_is_refused_before(values: Object, told: str) -> None:
    command = [str(HELM), "template", "release", str(CHART), "--namespace", "system", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert told in done.stderr


def test_every_level_of_settings_refuses_what_it_does_not_know() -> None:
    def levels(schema: Object, path: Path = ()) -> Iterator[tuple[Path, Object]]:
        if "properties" in schema:
            yield path, schema
            for name, inner in schema["properties"].items():
                yield from levels(inner, (*path, name))

    for path, schema in levels(SCHEMA):
        assert schema.get("additionalProperties") is False, ".".join(path)
