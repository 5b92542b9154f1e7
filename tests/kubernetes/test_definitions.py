"""The definitions of our kinds: small enough to apply, explained field by field, structural, with columns."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group
from gangline_kubernetes.definitions import definitions
from gangline_kubernetes.explaining import notes_of
from kubedouble import cel, schemas, structure

Object = dict[str, Any]
KINDS = {one["spec"]["names"]["kind"]: one for one in definitions()}
ANNOTATION_BYTES_MAX = 262_144


def version(kind: str) -> Object:
    """The only version of a kind."""
    (found,) = KINDS[kind]["spec"]["versions"]
    return dict(found)


def fields(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Every field below a schema."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from fields(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from fields(schema[word], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_can_be_applied_by_clients_that_remember_what_they_applied(kind: str) -> None:
    assert len(json.dumps(KINDS[kind])) < ANNOTATION_BYTES_MAX / 2


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_spec_is_explained(kind: str) -> None:
    spec = version(kind)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    silent = [path for path, inner in fields(spec) if len(inner.get("description", "")) < 4]
    assert not silent


def test_settings_are_explained_in_the_words_of_their_source() -> None:
    spec = version("PolicyConfig")["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for struct in (Policy, Pool, Group):
        assert notes_of(struct)
    assert spec["ordering"]["description"] == "A name in gangline_core.ordering.ORDERINGS."


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_a_status_of_its_own_columns_and_a_generation_that_was_seen(kind: str) -> None:
    found = version(kind)
    assert "status" in found["subresources"]
    columns = {one["name"]: one["jsonPath"] for one in found["additionalPrinterColumns"]}
    assert columns["Age"] == ".metadata.creationTimestamp"
    status = found["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert "observedGeneration" in status
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_structural_and_its_rules_can_be_read(kind: str) -> None:
    schema = version(kind)["schema"]["openAPIV3Schema"]
    assert not list(structure.faults(KINDS[kind]))
    rules = [rule for _, inner in fields(schema) for rule in inner.get("x-kubernetes-validations", ())]
    for rule in rules:
        cel.compiled(rule["rule"])
        assert rule["message"]


def test_unknown_fields_are_told_apart_from_wrong_ones() -> None:
    schema = version("Job")["schema"]["openAPIV3Schema"]
    dropped: list[str] = []
    body = yaml.safe_load("{spec: {gpus: 1, gpu: 2, topology: {prefered: rack}}}")
    schemas.prune(body, schema, dropped=dropped)
    assert dropped == ["spec.gpu", "spec.topology.prefered"]
    assert any("tasks" in fault for fault in schemas.faults({"spec": {"tasks": 0}}, schema))


def test_a_definition_that_a_server_would_refuse_is_refused_by_the_double() -> None:
    def refused(change: Object, where: tuple[str, ...] = ("properties", "spec", "properties", "name")) -> str:
        """What is said of our Job with this change of a part of its schema."""
        crd = json.loads(json.dumps(KINDS["Job"]))
        part = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for step in where:
            part = part[step]
        part.update(change)
        return "; ".join(structure.faults(crd))

    conditions = ("properties", "status", "properties", "conditions")
    assert "valid regular expression" in refused({"pattern": "^(?!a)b$"})
    assert "valid regular expression" in refused({"pattern": r"(a)\1"})
    assert "default: Invalid value" in refused({"default": 3})
    assert "mutually exclusive" in refused({"additionalProperties": {"type": "string"}}, ())
    assert "readOnly: Forbidden" in refused({"readOnly": True})
    assert "type: Required value" in refused({"type": None})
    assert "undefined field 'colour'" in refused(
        {"x-kubernetes-validations": [{"rule": "self.spec.colour == 'x'"}]}, ()
    )
    untyped = [{"rule": "self.spec.secrets == oldSelf.spec.secrets"}]
    assert "undefined field 'secrets'" in refused({"x-kubernetes-validations": untyped}, ()), "it has no type"
    assert "compilation failed" in refused({"x-kubernetes-validations": [{"rule": "self.spec.("}]}, ())
    assert "list-map-keys" in refused({"x-kubernetes-list-map-keys": ["colour"]}, conditions)
    assert "must be set exactly" in refused({"x-kubernetes-list-type": "atomic"}, conditions)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("spec", "names", "plural"), "Jobs", "plural"),
        (("spec", "names", "shortNames"), ["GJ"], "spec.names"),
        (("spec", "versions", 0, "storage"), False, "storage version"),
        (("spec", "versions", 0, "additionalPrinterColumns", 0, "type"), "text", "additionalPrinterColumns.type"),
        (("spec", "versions", 0, "subresources", "scale", "specReplicasPath"), ".status.x", "scale.specReplicasPath"),
    ],
)
def test_so_is_one_with_wrong_names_versions_columns_or_paths(path: tuple[Any, ...], value: Any, fault: str) -> None:
    crd = json.loads(json.dumps(KINDS["Job"]))
    part = crd
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    assert any(fault in one for one in structure.faults(crd))
