"""Label and field selectors as query strings, and what they match."""

import re
from collections.abc import Callable
from typing import Any

from kubedouble.errors import bad_request

Object = dict[str, Any]
Claim = Callable[[Object], bool]

FIELDS: dict[str, tuple[str, ...]] = {
    "*": ("metadata.name", "metadata.namespace"),
    "Pod": ("spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "status.phase", "status.podIP"),
    "Node": ("spec.unschedulable",),
    "Event": (
        *(f"involvedObject.{one}" for one in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")),
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    "Job": ("status.successful",),
    "Secret": ("type",),
}
"""Fields each kind may be selected by."""

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_COMMA = re.compile(r",(?![^(]*\))")


def labels(text: str) -> Claim:
    """What a label selector asks for.

    Raises:
        ApiError: it cannot be read.
    """
    claims = [_label(part.strip()) for part in _COMMA.split(text) if part.strip()]
    return lambda item: all(claim(item["metadata"].get("labels") or {}) for claim in claims)


def _label(part: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(part):
        key, word = found.group(1), found.group(2)
        values = {value.strip() for value in found.group(3).split(",")}
        return (lambda have: have.get(key) in values) if word == "in" else (lambda have: have.get(key) not in values)
    for sign in ("!=", "==", "="):
        if sign in part:
            left, right = (side.strip() for side in part.split(sign, 1))
            return _equals(left, right, wanted=sign != "!=")
    if part.startswith("!"):
        return lambda have: part[1:].strip() not in have
    if " " in part:
        raise bad_request(f"unable to parse requirement: {part}")
    return lambda have: part in have


def _equals(key: str, value: str, *, wanted: bool) -> Callable[[dict[str, str]], bool]:
    return lambda have: (have.get(key) == value) is wanted


def fields(text: str, kind: str) -> Claim:
    """What a field selector asks for.

    Raises:
        ApiError: the kind cannot be selected by that field.
    """
    claims: list[Claim] = []
    for part in filter(None, text.split(",")):
        sign = "!=" if "!=" in part else "=="
        path, _, value = part.replace("==", "=").replace("!=", "=").partition("=")
        if path not in (*FIELDS["*"], *FIELDS.get(kind, ())):
            raise bad_request(f'Unable to find "{kind}" that match field selector: field label not supported: {path}')
        claims.append(_field(path.split("."), value, wanted=sign == "=="))
    return lambda item: all(claim(item) for claim in claims)


def _field(path: list[str], value: str, *, wanted: bool) -> Claim:
    def claim(item: Object) -> bool:
        found: Any = item
        for step in path:
            found = (found or {}).get(step) if isinstance(found, dict) else None
        shown = "" if found is None else ("true" if found is True else "false" if found is False else str(found))
        return (shown == value) is wanted

    return claim
