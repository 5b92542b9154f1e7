"""Structural schemas of custom resources: pruning, defaults, types and limits, and rules in CEL."""

import re
from collections.abc import Iterator
from typing import Any

from kubedouble import cel

Object = dict[str, Any]
Schema = dict[str, Any]

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def prune(value: Any, schema: Schema, path: str = "", dropped: list[str] | None = None) -> Any:
    """The value without fields that the schema does not know, and with its defaults."""
    if isinstance(value, list):
        items = schema.get("items", {})
        return [prune(item, items, f"{path}[{k}]", dropped) for k, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known, extra = schema.get("properties", {}), schema.get("additionalProperties")
    result: Object = {}
    for key, inner in value.items():
        if key in known:
            result[key] = prune(inner, known[key], f"{path}.{key}", dropped)
        elif isinstance(extra, dict):
            result[key] = prune(inner, extra, f"{path}.{key}", dropped)
        elif extra is True or schema.get("x-kubernetes-preserve-unknown-fields"):
            result[key] = inner
        elif dropped is not None:
            dropped.append(f"{path}.{key}".lstrip("."))
    for key, inner in known.items():
        if "default" in inner and key not in result:
            result[key] = inner["default"]
    return result


def faults(value: Any, schema: Schema, path: str = "", before: Any = None) -> Iterator[str]:
    """Everything about the value that the schema forbids."""
    shown = path.lstrip(".") or "<root>"
    if value is None:
        if not schema.get("nullable") and schema.get("type"):
            yield f"{shown}: Invalid value: null"
        return
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{shown}: Invalid value: must be integer or string"
            return
    elif wanted and not _is(value, wanted):
        yield f'{shown}: Invalid value: "{_name(value)}": {shown} in body must be of type {wanted}: "{_name(value)}"'
        return
    yield from _limits(value, schema, shown)
    yield from _rules(value, schema, shown, before)
    yield from _inner(value, schema, path, before)


def _inner(value: Any, schema: Schema, path: str, before: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                yield f"{path}.{key}".lstrip(".") + ": Required value"
        for key, inner in value.items():
            part = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if isinstance(part, dict):
                yield from faults(inner, part, f"{path}.{key}", before.get(key) if isinstance(before, dict) else None)
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from faults(inner, schema.get("items", {}), f"{path}[{number}]")


def _is(value: Any, wanted: str) -> bool:
    if wanted in ("integer", "number") and isinstance(value, bool):
        return False
    return isinstance(value, TYPES[wanted])


def _name(value: Any) -> str:
    return next((name for name in ("boolean", "integer", "number", "string", "array") if _is(value, name)), "object")


def _limits(value: Any, schema: Schema, shown: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(f'"{one}"' for one in schema["enum"])
        yield f'{shown}: Unsupported value: "{value}": supported values: {known}'
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)) or len(value) < schema.get("minLength", 0):
            yield f"{shown}: Invalid value: length must be {schema.get('minLength', 0)}..{schema.get('maxLength')}"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{shown}: Invalid value: \"{value}\": {shown} in body should match '{schema['pattern']}'"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"{shown}: Invalid value: {value}: should be greater than or equal to {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"{shown}: Invalid value: {value}: should be less than or equal to {schema['maximum']}"
    elif isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{shown}: Invalid value: must have {schema.get('minItems', 0)}..{schema.get('maxItems')} items"
    elif isinstance(value, dict) and len(value) > schema.get("maxProperties", len(value)):
        yield f"{shown}: Too many: must have at most {schema['maxProperties']} items"


def _rules(value: Any, schema: Schema, shown: str, before: Any) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        text = rule["rule"]
        if cel.is_transition(text) and before is None:
            continue
        try:
            holds = cel.holds(text, self=value, oldSelf=before)
        except cel.CelError as error:
            yield f"{shown}: Invalid value: rule evaluation error: {error}"
            continue
        if not holds:
            yield f"{shown}: Invalid value: {rule.get('message', text)}"
