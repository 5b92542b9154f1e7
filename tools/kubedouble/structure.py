"""What a custom resource definition must be like: structural, with rules, patterns and paths that can be read."""

import re
from collections.abc import Iterator
from typing import Any

from kubedouble import cel, schemas
from kubedouble.errors import invalid

Object = dict[str, Any]
Schema = dict[str, Any]

NEVER = (
    "$ref",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
)
"""Words that a structural schema may not have."""
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
NOT_IN_RE2 = re.compile(r"\\[1-9]|\(\?(?:[=!>]|<[=!])|[*+?}]\+")
"""Look-arounds, references back and possessive repetitions: the server's regular expressions have none."""
SELECTED = re.compile(r"\b(?:self|oldSelf)((?:\.[A-Za-z_]\w*\b(?!\())+)")
"""Fields that a rule names."""


def check(crd: Object) -> None:
    """Let a definition in, or not.

    Raises:
        ApiError: 422 with every fault.
    """
    if found := list(faults(crd)):
        raise invalid("CustomResourceDefinition", crd["metadata"]["name"], found)


def faults(crd: Object) -> Iterator[str]:
    """Everything that is wrong with a definition."""
    spec, names = crd["spec"], crd["spec"]["names"]
    if crd["metadata"]["name"] != f"{names['plural']}.{spec['group']}":
        yield 'metadata.name: Invalid value: must be spec.names.plural+"."+spec.group'
    for word in (names["plural"], names.get("singular") or names["kind"].lower(), *names.get("shortNames", ())):
        if not LABEL.fullmatch(word):
            yield f"spec.names: Invalid value: {word!r}: a DNS-1035 label must consist of lower case ..."
    versions = spec["versions"]
    if sum(bool(one.get("storage")) for one in versions) != 1:
        yield "spec.versions: Invalid value: must have exactly one version marked as storage version"
    for one in versions:
        where = f"spec.versions[{one['name']}]"
        schema = one["schema"]["openAPIV3Schema"]
        if schema.get("type") != "object":
            yield f"{where}.schema.openAPIV3Schema.type: Invalid value: must be object at the root"
        yield from _structure(schema, f"{where}.schema.openAPIV3Schema")
        yield from _paths(one, where)


def _paths(version: Object, where: str) -> Iterator[str]:
    """What is wrong with columns, and with where a size is written."""
    for column in version.get("additionalPrinterColumns", ()):
        if column.get("type") not in ("integer", "number", "string", "boolean", "date"):
            yield f"{where}.additionalPrinterColumns.type: Invalid value: {column.get('type')!r}"
        if not str(column.get("jsonPath", "")).startswith("."):
            yield f"{where}.additionalPrinterColumns.jsonPath: Invalid value: {column.get('jsonPath')!r}"
    scale = version.get("subresources", {}).get("scale") or {}
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        if scale and not str(scale.get(field, "")).startswith(root):
            yield f"{where}.subresources.scale.{field}: Invalid value: should be a json path under {root[:-1]}"


def _structure(schema: Schema, path: str) -> Iterator[str]:
    yield from (f"{path}{fault}" for fault in _words(schema))
    yield from _rules(schema, path)
    yield from _lists(schema, path)
    for key, inner in schema.get("properties", {}).items():
        yield from _structure(inner, f"{path}.properties[{key}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _structure(schema[word], f"{path}.{word}")


def _words(schema: Schema) -> Iterator[str]:
    """Words of one level that may not be there, or not together."""
    free, is_typed = schema.get("x-kubernetes-preserve-unknown-fields"), bool(schema.get("type"))
    either, more = schema.get("x-kubernetes-int-or-string"), schema.get("additionalProperties")
    wrong = next(schemas.faults(schema["default"], schema), "") if "default" in schema else ""
    nested = any("type" in inner for word in ("anyOf", "oneOf", "allOf") for inner in schema.get(word, ()))
    told: Object = {
        ".type: Required value: must not be empty for specified object fields": not (is_typed or free or either),
        ".type: Invalid value: must be empty if x-kubernetes-int-or-string is true": either and is_typed,
        ".additionalProperties: Forbidden: is mutually exclusive with properties": more and schema.get("properties"),
        ".additionalProperties: Forbidden: cannot be false": more is False,
        ".uniqueItems: Forbidden: cannot be set to true": schema.get("uniqueItems"),
        ".anyOf.type: Forbidden: must be empty to be structural": nested and not either,
        f".default: Invalid value: {wrong}": wrong,
        ".pattern: Invalid value: must be a valid regular expression": NOT_IN_RE2.search(schema.get("pattern", "")),
        **{f".{word}: Forbidden": word in schema for word in NEVER},
    }
    yield from (fault for fault, holds in told.items() if holds)


def _lists(schema: Schema, path: str) -> Iterator[str]:
    """A list that is a map names keys which its items have."""
    if schema.get("type") == "array" and "items" not in schema:
        yield f"{path}.items: Required value: must be specified"
    keys, items = schema.get("x-kubernetes-list-map-keys") or (), schema.get("items") or {}
    if (schema.get("x-kubernetes-list-type") == "map") != bool(keys):
        yield f"{path}.x-kubernetes-list-map-keys: Invalid value: must be set exactly if the list is a map"
    for key in keys:
        own = items.get("properties", {}).get(key)
        if own is None or own.get("type") not in ("string", "integer", "boolean", "number"):
            yield f"{path}.x-kubernetes-list-map-keys: Invalid value: {key!r}: must be a scalar property of the items"
        elif key not in items.get("required", ()) and "default" not in own:
            yield f"{path}.items.properties[{key}].default: Required value: a key must be required or defaulted"


def _rules(schema: Schema, path: str) -> Iterator[str]:
    """Rules that cannot be read, or that speak of fields which the schema does not declare with a type."""
    for rule in schema.get("x-kubernetes-validations", ()):
        where = f"{path}.x-kubernetes-validations.rule"
        try:
            cel.compiled(rule["rule"])
        except cel.CelError as error:
            yield f"{where}: Invalid value: compilation failed: {error}"
            continue
        for found in SELECTED.findall(rule["rule"]):
            here: Schema = schema
            for step in found.strip(".").split("."):
                here = (here.get("properties") or {}).get(step) or {}
                if not here.get("type") and not here.get("x-kubernetes-int-or-string"):
                    yield f"{where}: Invalid value: compilation failed: undefined field {step!r}"
                    break
