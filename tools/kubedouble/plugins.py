"""Admission plugins of the real server that change what is asked for, before any policy judges it."""

from kubedouble.errors import ApiError
from kubedouble.kinds import Kind
from kubedouble.store import Object, Store

CLASSES = "scheduling.k8s.io/priorityclasses"
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def changed(store: Store, kind: Kind, item: Object) -> Object:
    """A new object as the plugins would have it.

    Raises:
        ApiError: one of them does not let it in.
    """
    return _ranked(store, item) if kind.storage == "/pods" else item


def _ranked(store: Store, pod: Object) -> Object:
    """The pod with the number that its class stands for; nobody may write another one."""
    spec, name = pod["spec"], pod["spec"].get("priorityClassName", "")
    found = next((one for one in store.all(CLASSES) if one["metadata"]["name"] == name), None)
    if not name:
        found = next((one for one in store.all(CLASSES) if one.get("globalDefault")), None)
    value = found["value"] if found is not None else SYSTEM.get(name, 0)
    if name and found is None and name not in SYSTEM:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    if spec.get("priority") not in (None, value):
        raise _forbidden(pod, "the integer value of priority must not be provided in pod spec")
    return {**pod, "spec": {**spec, "priority": value}}


def _forbidden(pod: Object, why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'pods "{pod["metadata"]["name"]}" is forbidden: {why}')
