"""What a namespace lets in: nothing when it ends, pods by its quota, its limit ranges and its level of pod security."""

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kubedouble.errors import ApiError
from kubedouble.kinds import Kind
from kubedouble.store import Change, Object, Store

if TYPE_CHECKING:
    from kubedouble.verbs import Verbs

NAMESPACES = "/namespaces"
QUOTAS = "/resourcequotas"
RANGES = "/limitranges"
LEVEL = "pod-security.kubernetes.io/enforce"
UNITS = {"m": "0.001", "k": "1e3", "M": "1e6", "G": "1e9", "Ki": "1024", "Mi": "1048576", "Gi": "1073741824"}
PLAIN = ("cpu", "memory", "ephemeral-storage")
VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
"""Types of volumes that the level restricted lets in."""


def amount(value: Any) -> Decimal:
    """A quantity as a number."""
    text = str(value)
    unit = next((one for one in sorted(UNITS, key=len, reverse=True) if text.endswith(one)), "")
    return Decimal(text.removesuffix(unit)) * Decimal(UNITS.get(unit, "1"))


def ranged(store: Store, pod: Object) -> Object:
    """The pod with what its namespace's limit ranges give to containers that say nothing."""
    spec = pod["spec"]
    for one in store.all(RANGES, pod["metadata"]["namespace"]):
        for limit in one["spec"]["limits"]:
            if limit.get("type") == "Container":
                spec = {**spec, "containers": [_defaulted(each, limit) for each in spec["containers"]]}
    return {**pod, "spec": spec}


def _defaulted(container: Object, limit: Object) -> Object:
    resources = container.get("resources") or {}
    own = resources.get("limits") or {}
    limits = {**(limit.get("default") or {}), **own}
    requests = {**(limit.get("defaultRequest") or {}), **own, **(resources.get("requests") or {})}
    known = {name: requests[name] for name in requests if name in PLAIN or name in (resources.get("requests") or {})}
    return {**container, "resources": {**resources, "limits": limits, "requests": known}}


def admit(store: Store, kind: Kind, item: Object) -> None:
    """Let a new object in, or not.

    Raises:
        ApiError: 403 in the words of whoever forbids it.
    """
    meta = item["metadata"]
    place = store.get(NAMESPACES, "", meta.get("namespace", "")) or {"metadata": {}}
    if "deletionTimestamp" in place["metadata"]:
        why = f"unable to create new content in namespace {meta['namespace']} because it is being terminated"
        raise _forbidden(kind, meta, why, causes=[{"reason": "NamespaceTerminating"}])
    if kind.storage != "/pods":
        return
    for why in (*_beyond_ranges(store, item), *_insecure(place, item), *_beyond_quota(store, item)):
        raise _forbidden(kind, meta, why)


def _forbidden(kind: Kind, meta: Object, why: str, **details: Any) -> ApiError:
    return ApiError(403, "Forbidden", f'{kind.resource} "{meta["name"]}" is forbidden: {why}', **details)


def _beyond_ranges(store: Store, pod: Object) -> Iterator[str]:
    for one in store.all(RANGES, pod["metadata"]["namespace"]):
        for limit in one["spec"]["limits"]:
            for container in pod["spec"]["containers"] if limit.get("type") == "Container" else ():
                resources = container.get("resources") or {}
                for name, most in (limit.get("max") or {}).items():
                    asked = (resources.get("limits") or {}).get(name)
                    if asked is None or amount(asked) > amount(most):
                        told = "no limit is specified" if asked is None else f"limit is {asked}"
                        yield f"maximum {name} usage per Container is {most}, but {told}"


def _insecure(place: Object, pod: Object) -> Iterator[str]:
    """What the level restricted says of a pod; the others are not told apart here."""
    if (place["metadata"].get("labels") or {}).get(LEVEL) != "restricted":
        return
    whole = pod["spec"].get("securityContext") or {}
    faults: list[str] = []
    for one in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        own, name = one.get("securityContext") or {}, one["name"]
        its = {**whole, **own}
        if own.get("allowPrivilegeEscalation") is not False:
            faults.append(f'allowPrivilegeEscalation != false (container "{name}" must set ...)')
        if "ALL" not in ((own.get("capabilities") or {}).get("drop") or ()):
            faults.append(f'unrestricted capabilities (container "{name}" must set ...)')
        if its.get("runAsNonRoot") is not True:
            faults.append(f'runAsNonRoot != true (pod or container "{name}" must set ...)')
        if (its.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
            faults.append(f'seccompProfile (pod or container "{name}" must set ...)')
        if its.get("runAsUser") == 0:
            faults.append("runAsUser=0")
    for one in pod["spec"].get("volumes") or ():
        faults.extend(f"restricted volume types ({word})" for word in one if word not in ("name", *VOLUMES))
    if faults:
        yield f'violates PodSecurity "restricted:latest": {", ".join(faults)}'


def _beyond_quota(store: Store, pod: Object) -> Iterator[str]:
    namespace = pod["metadata"]["namespace"]
    quotas = store.all(QUOTAS, namespace)
    if not quotas:
        return
    asked = _usage(pod)
    living = [_usage(one) for one in store.all("/pods", namespace) if not _is_over(one)]
    for one in quotas:
        for name, most in (one["spec"].get("hard") or {}).items():
            used = sum((each.get(name, Decimal(0)) for each in living), Decimal(0))
            if name in asked and used + asked[name] > amount(most):
                requested = f"requested: {name}={asked[name]}, used: {name}={used}, limited: {name}={most}"
                yield f"exceeded quota: {one['metadata']['name']}, {requested}"


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _usage(pod: Object) -> dict[str, Decimal]:
    """What a pod counts in quotas."""
    found: dict[str, Decimal] = {"pods": Decimal(1), "count/pods": Decimal(1)}

    def add(name: str, value: Any) -> None:
        found[name] = found.get(name, Decimal(0)) + amount(value)

    for one in pod["spec"]["containers"]:
        resources = one.get("resources") or {}
        limits = resources.get("limits") or {}
        for name, value in {**limits, **(resources.get("requests") or {})}.items():
            add(f"requests.{name}", value)
            if name in PLAIN:
                add(name, value)
        for name, value in limits.items():
            add(f"limits.{name}", value)
    return found


# --- namespaces that end --------------------------------------------------------------------------------------------


def terminate(verbs: "Verbs", item: Object) -> Object:
    """A namespace ends: what is in it is deleted, and it goes when nothing is left."""
    meta = {**item["metadata"], "deletionTimestamp": verbs.stamp()}
    after = verbs.store.put(NAMESPACES, {**item, "metadata": meta, "status": {"phase": "Terminating"}}, item)
    name = item["metadata"]["name"]
    for kind in list(verbs.kinds):
        for one in verbs.store.all(kind.storage, name) if kind.namespaced else ():
            if verbs.store.get(kind.storage, name, one["metadata"]["name"]) is not None:
                verbs.delete(kind, name, one["metadata"]["name"])
    return _finished(verbs, name) or after


def finish(verbs: "Verbs", change: Change) -> None:
    """Something is gone: perhaps it was the last of its namespace."""
    name = change.after["metadata"].get("namespace", "")
    if change.verb == "DELETED" and name:
        _finished(verbs, name)


def _finished(verbs: "Verbs", name: str) -> Object | None:
    item = verbs.store.get(NAMESPACES, "", name)
    if item is None or "deletionTimestamp" not in item["metadata"]:
        return None
    is_empty = not any(verbs.store.all(storage, name) for storage in list(verbs.store.objects))
    return verbs.store.remove(NAMESPACES, item) if is_empty else None
