"""How a patch changes an object: JSON patch, merge patch, strategic merge, and server-side apply."""

import copy
from typing import Any

from kubedouble.errors import ApiError, bad_request, conflict

Object = dict[str, Any]
Fields = set[tuple[str, ...]]

MERGE_KEYS: dict[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "conditions": "type",
    "ownerReferences": "uid",
    "tolerations": "key",
    "taints": "key",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "addresses": "type",
    "resourceClaims": "name",
    "claims": "name",
    "reservedFor": "uid",
}
"""Lists that strategic merge joins item by item, and the field that tells their items apart."""
SETS = frozenset({"finalizers"})
"""Lists of plain values that strategic merge joins."""


def merge(target: Any, change: Any) -> Any:
    """RFC 7396: null deletes a key, mappings are joined, everything else is replaced."""
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, change: Any, field: str = "") -> Any:
    """Kubernetes' own merge: lists with a merge key are joined item by item; `$patch` deletes or replaces."""
    if isinstance(change, dict):
        return _strategic_map(target, change)
    if isinstance(change, list) and isinstance(target, list):
        if field in SETS:
            return [*target, *(item for item in change if item not in target)]
        if field in MERGE_KEYS and all(isinstance(item, dict) for item in change):
            return _strategic_list(target, change, MERGE_KEYS[field])
    return copy.deepcopy(change)


def _strategic_map(target: Any, change: Object) -> Object:
    if change.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in change.items() if key != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if key.startswith("$setElementOrder/") or key == "$retainKeys":
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(result.get(key), value, key)
    return result


def _strategic_list(target: list[Any], change: list[Any], merge_key: str) -> list[Any]:
    result = list(target)
    for item in change:
        at = next((k for k, have in enumerate(result) if have.get(merge_key) == item.get(merge_key)), None)
        if item.get("$patch") == "delete":
            result = [have for have in result if have.get(merge_key) != item.get(merge_key)]
        elif at is None:
            result.append(strategic({}, item))
        else:
            result[at] = strategic(result[at], item)
    return result


def json_patch(target: Object, steps: list[Object]) -> Object:
    """RFC 6902.

    Raises:
        ApiError: a step cannot be done, or a test does not hold.
    """
    result = copy.deepcopy(target)
    for step in steps:
        path = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        value = step.get("value")
        if step["op"] in ("move", "copy"):
            source = [part.replace("~1", "/").replace("~0", "~") for part in step["from"].split("/")[1:]]
            value = copy.deepcopy(_at(result, source))
            if step["op"] == "move":
                _remove(result, source)
        match step["op"]:
            case "test":
                if _at(result, path) != value:
                    raise ApiError(422, "Invalid", f"the server rejected our request: testing path {step['path']}")
            case "remove":
                _remove(result, path)
            case "replace":
                _at(result, path)
                _put(result, path, value, replaces=True)
            case "add" | "move" | "copy":
                _put(result, path, value, replaces=False)
            case other:
                raise bad_request(f"unknown operation {other}")
    return result


def _at(target: Any, path: list[str]) -> Any:
    for part in path:
        try:
            target = target[int(part)] if isinstance(target, list) else target[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ApiError(422, "Invalid", f"the server rejected our request: missing path /{'/'.join(path)}") from None
    return target


def _remove(target: Any, path: list[str]) -> None:
    _at(target, path)
    parent = _at(target, path[:-1])
    if isinstance(parent, list):
        del parent[int(path[-1])]
    else:
        del parent[path[-1]]


def _put(target: Any, path: list[str], value: Any, *, replaces: bool) -> None:
    parent, last = _at(target, path[:-1]), path[-1]
    if not isinstance(parent, list):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif replaces:
        parent[int(last)] = value
    else:
        parent.insert(int(last), value)


def leaves(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Paths of everything that somebody who applies this owns; lists count as one value."""
    if not isinstance(value, dict) or (not value and path):
        return {path}
    found: set[tuple[str, ...]] = set()
    for key, inner in value.items():
        found |= leaves(inner, (*path, key))
    return found


def owned(applied: Object) -> set[tuple[str, ...]]:
    """Fields an applied configuration sets, without those that only say which object it is."""
    return {
        path
        for path in leaves({key: value for key, value in applied.items() if key not in ("apiVersion", "kind")})
        if path[:2] not in (("metadata", "name"), ("metadata", "namespace"), ("metadata", "resourceVersion"))
    }


def apply(
    target: Object,
    applied: Object,
    owners: dict[str, set[tuple[str, ...]]],
    *,
    manager: str,
    force: bool,
    resource: str,
) -> Object:
    """Server-side apply by fields: sets what is applied, removes what this manager no longer applies.

    `owners` holds the fields of each manager and is changed.

    Raises:
        ApiError: 409 when another manager owns a field with another value, and not `force`.
    """
    wanted = owned(applied)
    for path in sorted(wanted):
        rivals = [name for name, paths in owners.items() if name != manager and path in paths]
        if rivals and _get(target, path) != _get(applied, path):
            if not force:
                shown = "." + ".".join(path)
                raise conflict(resource, applied["metadata"]["name"], f'conflict with "{rivals[0]}": {shown}')
            for name in rivals:
                owners[name].discard(path)
    result: Object = merge(target, applied)
    for path in owners.get(manager, set()) - wanted:
        if not any(path in paths for name, paths in owners.items() if name != manager):
            _drop(result, path)
    owners[manager] = wanted
    return result


def _get(target: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        target = target.get(part) if isinstance(target, dict) else None
    return target


def _drop(target: Any, path: tuple[str, ...]) -> None:
    for part in path[:-1]:
        target = target.get(part) if isinstance(target, dict) else None
    if isinstance(target, dict):
        target.pop(path[-1], None)
