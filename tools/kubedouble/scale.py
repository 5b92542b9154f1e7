"""The scale of a custom object: its size as one number, read and written by whoever knows nothing else of the kind."""

from typing import Any

from kubedouble.errors import ApiError, bad_request
from kubedouble.kinds import Kind
from kubedouble.store import Object
from kubedouble.verbs import Verbs


def read(verbs: Verbs, kind: Kind, item: Object, *, is_written: bool = False) -> Object:
    """The object's Scale; one that is to be written may say no size yet.

    Raises:
        ApiError: the object says no size.
    """
    spec_path, status_path = verbs.scales[f"{kind.storage}/{kind.version}"]
    wanted = _at(item, spec_path)
    if wanted is None and not is_written:
        why = f'Internal error occurred: the spec replicas field "{spec_path}" does not exist'
        raise ApiError(500, "InternalError", why)
    meta = item["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": wanted or 0},
        "status": {"replicas": _at(item, status_path) or 0},
    }


def write(verbs: Verbs, kind: Kind, item: Object, scale: Object) -> Object:
    """Give the object the size that this Scale says.

    Raises:
        ApiError: it says none, is of an older version, or the kind's rules forbid it.
    """
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(wanted, int) or wanted < 0:
        raise bad_request("spec.replicas: Invalid value: must be greater than or equal to 0")
    spec_path, _ = verbs.scales[f"{kind.storage}/{kind.version}"]
    version = (scale.get("metadata") or {}).get("resourceVersion") or item["metadata"]["resourceVersion"]
    after = {**item, "metadata": {**item["metadata"], "resourceVersion": version}}
    return read(verbs, kind, verbs.write(kind, item, _with(after, spec_path.strip(".").split("."), wanted)))


def _at(item: Any, path: str) -> Any:
    for step in path.strip(".").split("."):
        item = item.get(step) if isinstance(item, dict) else None
    return item


def _with(item: Object, steps: list[str], value: Any) -> Object:
    first, rest = steps[0], steps[1:]
    return {**item, first: _with(item.get(first) or {}, rest, value) if rest else value}
