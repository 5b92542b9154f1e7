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
from kubedouble import cel, schemas

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
    schemas.check_structure(kind, schema)
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
