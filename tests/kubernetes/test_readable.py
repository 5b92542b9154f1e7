"""Whatever Kubernetes itself calls a valid object is read, and nothing that it may say surprises who looks at it."""

import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gangline_core.ids import TaskId
from gangline_kubernetes import devices, objects
from gangline_kubernetes.adoption import gang_of, job_of, ordered, resources_of
from gangline_kubernetes.affinities import allows, selector_of, terms_of
from gangline_kubernetes.budgets import Budget
from gangline_kubernetes.config import Config
from gangline_kubernetes.handing import fitted
from gangline_kubernetes.names import Mark
from gangline_kubernetes.native_groups import membership_of
from gangline_kubernetes.nodes import Terms, describe, taken_by
from gangline_kubernetes.offers import complete
from gangline_kubernetes.owner_kinds import COUNTED, KINDS, parts_of, pods_of
from gangline_kubernetes.places import unheeded
from gangline_kubernetes.reading import local_of, stuck, unbound
from gangline_kubernetes.volumes import Volume, VolumeClaim, claims_of, reached

schemas = pytest.importorskip("kubernetes_validate")
FOLDER = Path(schemas.__file__).parent / "kubernetes-json-schema"
KINDS_READ: dict[str, Any] = {
    "pod-v1": objects.Pod,
    "node-v1": objects.KubeNode,
    "namespace-v1": objects.Namespace,
    "persistentvolume-v1": Volume,
    "persistentvolumeclaim-v1": VolumeClaim,
    "priorityclass-scheduling-v1": objects.PriorityClass,
    "poddisruptionbudget-policy-v1": Budget,
    "job-batch-v1": objects.OwnerObject,
    "statefulset-apps-v1": objects.OwnerObject,
    "resourceslice-resource-v1": devices.ResourceSlice,
    "resourceslice-resource-v1beta1": devices.ResourceSlice,
    "resourceclaim-resource-v1": devices.Claim,
    "resourceclaim-resource-v1beta1": devices.Claim,
    "resourceclaimtemplate-resource-v1": devices.ClaimTemplate,
    "devicetaintrule-resource-v1alpha3": devices.TaintRule,
}
SAMPLES = 60
DEEP = 9


class Samples:
    """Random objects that a version's schemas allow; the same ones each time."""

    def __init__(self, version: str, seed: int) -> None:
        self.folder = FOLDER / f"v{version}.0-local"
        self.random = random.Random(seed)

    def of(self, kind: str) -> Any:
        """One object of this kind, always with its metadata."""
        schema = _load(self.folder / f"{kind}.json")
        return self._value({**schema, "required": [*(schema.get("required") or ()), "metadata"]}, 0, "")

    def _value(self, schema: dict[str, Any], depth: int, name: str) -> Any:
        if "$ref" in schema:
            word = schema["$ref"].rpartition(".")[2]
            if word in ("Quantity", "IntOrString"):
                return self.random.choice([3, "500m", "2Gi", "50%"])
            found = _load(self.folder / "_definitions.json")
            for step in schema["$ref"].partition("#/")[2].split("/"):
                found = found[step]
            return self._value(found, depth, name)
        kinds = schema.get("type", "object")
        match kinds if isinstance(kinds, str) else next(one for one in kinds if one != "null"):
            case "object":
                return self._fields(schema, depth, name)
            case "array":
                count = self.random.randint(0, 2)
                return [self._value(schema.get("items") or {}, depth + 1, name) for _ in range(count)]
            case "string" if name.endswith(("Timestamp", "Time")) or schema.get("format") == "date-time":
                # Typed servers write null for a time that is none.
                return self.random.choice(["2026-01-01T00:00:00Z", None])
            case "string":
                return self.random.choice([one for one in schema.get("enum", ("", "x", "1")) if one is not None])
            case "boolean":
                return self.random.random() < 0.5
            case _:
                return self.random.randint(-1, 9)

    def _fields(self, schema: dict[str, Any], depth: int, name: str) -> Any:
        if "properties" not in schema:
            more = schema.get("additionalProperties")
            count = self.random.randint(0, 2) if isinstance(more, dict) else 0
            return {f"k.io/{number}": self._value(more, depth + 1, name) for number in range(count)}
        wanted, often = set(schema.get("required") or ()), 0.8 if depth < 3 else 0.4
        return {
            key: self._value(inner, depth + 1, key)
            for key, inner in schema["properties"].items()
            if key in wanted or (depth < DEEP and self.random.random() < often)
        }


@cache
def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read(version: str, kind: str) -> Iterator[Any]:
    """Samples of a kind, as they are read."""
    samples = Samples(version, seed=7)
    if (samples.folder / f"{kind}.json").exists():
        for _ in range(SAMPLES):
            yield msgspec.json.decode(json.dumps(samples.of(kind)), type=KINDS_READ[kind])


@pytest.mark.parametrize("version", ["1.30", "1.36"])
@pytest.mark.parametrize("kind", KINDS_READ)
def test_every_valid_object_is_read(version: str, kind: str) -> None:
    for one in read(version, kind):
        assert one is not None


def looks_at_pods() -> tuple[Callable[[objects.Pod], object], ...]:
    """All that is asked of a pod before anything is done about it."""
    config, mark = Config(), Mark(task=TaskId("1-1-w-0"), placed_ms=1)
    return (
        gang_of,
        resources_of,
        selector_of,
        unheeded,
        stuck,
        unbound,
        membership_of,
        claims_of,
        lambda pod: taken_by([pod]),
        lambda pod: local_of(pod, mark, stopping=None),
        lambda pod: fitted(pod, config, {}, {}),
        lambda pod: job_of(ordered([pod]), config, None, "nvidia.com/gpu"),
    )


@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_nothing_that_a_valid_pod_says_surprises_anybody(version: str) -> None:
    node = next(read(version, "node-v1")).metadata
    for pod in read(version, "pod-v1"):
        for look in looks_at_pods():
            look(pod)
        assert allows(terms_of(pod) or [], node) in (True, False)


@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_nothing_that_valid_nodes_volumes_slices_and_owners_say_surprises_anybody(version: str) -> None:
    for node in read(version, "node-v1"):
        assert describe(node, Terms(agent="a", pool="default", gpu_resource="nvidia.com/gpu")).id == node.metadata.name
    for volume in read(version, "persistentvolume-v1"):
        reached(volume)
    complete(read(version, "resourceslice-resource-v1"))
    for kind, name in ((KINDS[0], "job-batch-v1"), (COUNTED[0], "statefulset-apps-v1")):
        for found in read(version, name):
            parts = parts_of(kind, found)
            assert sum(map(len, pods_of(parts, found))) == sum(part.count for part in parts)
