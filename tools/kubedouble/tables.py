"""Lists as tables, as `kubectl get` asks for them: the columns a definition names, or name and age."""

import re
from typing import Any

from kubedouble.kinds import Kind
from kubedouble.store import Object

_FILTER = re.compile(r'^(\w+)\[\?\(@\.(\w+)==["\'](\w+)["\']\)\]$')
PODS = (("Status", "string", ".status.phase"), ("Node", "string", ".spec.nodeName"))
NODES = (("Schedulable", "string", ".spec.unschedulable"),)
EVENTS = (("Type", "string", ".type"), ("Reason", "string", ".reason"), ("Message", "string", ".message"))
COMMON: dict[str, tuple[tuple[str, str, str], ...]] = {"Pod": PODS, "Node": NODES, "Event": EVENTS}


def table(kind: Kind, crd: Object | None, listed: Object) -> Object:
    """The list (or single object) as a Table."""
    items = listed.get("items", [listed])
    columns, asides = _columns(kind, crd)
    rows = [{"cells": [_cell(item, path) for _, _, path in columns], "object": _meta(item)} for item in items]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {key: listed["metadata"][key] for key in ("resourceVersion",) if key in listed["metadata"]},
        "columnDefinitions": [
            {
                "name": name,
                "type": form,
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": asides.get(name, 0),
            }
            for name, form, _ in columns
        ],
        "rows": rows,
    }


def _columns(kind: Kind, crd: Object | None) -> tuple[list[tuple[str, str, str]], dict[str, int]]:
    """Name, type and path of each, and which are shown in wide tables only."""
    asides: dict[str, int] = {}
    columns = [("Name", "string", ".metadata.name")]
    if crd is None:
        columns.extend(COMMON.get(kind.name, ()))
    else:
        version = next(one for one in crd["spec"]["versions"] if one["name"] == kind.version)
        printed = version.get("additionalPrinterColumns", ())
        columns.extend((one["name"], one["type"], one["jsonPath"]) for one in printed)
        asides = {one["name"]: one["priority"] for one in printed if one.get("priority")}
    if all(name != "Age" for name, _, _ in columns):
        columns.append(("Age", "date", ".metadata.creationTimestamp"))
    return columns, asides


def _meta(item: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def _cell(item: Object, path: str) -> Any:
    found: Any = item
    for part in re.findall(r"\.((?:\w|\[[^\]]*\])+)", path):
        if found is None:
            return None
        if match := _FILTER.match(part):
            name, key, value = match.groups()
            found = next((one for one in found.get(name) or () if str(one.get(key)) == value), None)
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return found
