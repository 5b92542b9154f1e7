"""What the real server checks of built-in objects before it stores them, as far as schedulers meet it."""

import re
from typing import Any

from kubedouble import gates, strict
from kubedouble.errors import bad_request, invalid
from kubedouble.kinds import Kind

Object = dict[str, Any]

LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
LABEL_CHARS_MAX = 63
NAME_CHARS_MAX = 253
ANNOTATION_BYTES_MAX = 262_144

MUTABLE_OF_POD = frozenset({"tolerations", "schedulingGates", "activeDeadlineSeconds", "terminationGracePeriodSeconds"})


def check(kind: Kind, item: Object) -> None:
    """Names, labels, annotations, and for pods what every pod must have.

    Raises:
        ApiError: 422 with every fault.
    """
    meta = item["metadata"]
    name = meta.get("name", "")
    faults: list[str] = []
    if not name:
        faults.append("metadata.name: Required value: name or generateName is required")
    elif len(name) > NAME_CHARS_MAX or not SUBDOMAIN.fullmatch(name):
        faults.append(f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of ...')
    for key, value in (meta.get("labels") or {}).items():
        if not isinstance(value, str):
            raise bad_request(f"cannot unmarshal {type(value).__name__} into label {key} of type string")
        if len(value) > LABEL_CHARS_MAX or not LABEL_VALUE.fullmatch(value):
            faults.append(f'metadata.labels: Invalid value: "{value}": a valid label must be an empty string or ...')
        if not LABEL_KEY.fullmatch(key) or len(key.rpartition("/")[2]) > LABEL_CHARS_MAX:
            faults.append(f'metadata.labels: Invalid value: "{key}": name part must consist of alphanumeric ...')
    annotations = meta.get("annotations") or {}
    if any(not isinstance(value, str) for value in annotations.values()):
        raise bad_request("cannot unmarshal into annotations of type string")
    if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > ANNOTATION_BYTES_MAX:
        faults.append("metadata.annotations: Too long: may not be more than 262144 bytes")
    if kind.name == "Pod":
        faults.extend(_pod(item))
    faults.extend(strict.faults(kind, item))
    if faults:
        raise invalid(kind.name, name, faults)


def _pod(item: Object) -> list[str]:
    spec = item.get("spec") or {}
    faults: list[str] = []
    if not spec.get("containers"):
        faults.append("spec.containers: Required value")
    for number, container in enumerate(spec.get("containers") or ()):
        where = f"spec.containers[{number}]"
        if not container.get("name") or len(container["name"]) > LABEL_CHARS_MAX:
            faults.append(f"{where}.name: Required value")
        if not container.get("image"):
            faults.append(f"{where}.image: Required value")
        for variable in container.get("env") or ():
            if not isinstance(variable.get("value", ""), str):
                raise bad_request(f"{where}.env[{variable.get('name')}].value: must be a string")
    if len(spec.get("hostname", "")) > LABEL_CHARS_MAX:
        faults.append("spec.hostname: Invalid value: must be no more than 63 characters")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        faults.append("spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared")
    return faults


def check_change(kind: Kind, before: Object, after: Object) -> None:
    """What may not change once it is stored.

    Raises:
        ApiError: 422 when it does.
    """
    faults = list(strict.change_faults(kind, before, after))
    if kind.name == "Pod":
        faults.extend(_pod_change(before, after))
    if faults:
        raise invalid(kind.name, after["metadata"]["name"], faults)


def check_status_change(kind: Kind, before: Object, after: Object) -> None:
    """What may not change of a status.

    Raises:
        ApiError: 422 when it does.
    """
    old, new = before.get("status") or {}, after.get("status") or {}
    if (
        kind.name == "ResourceClaim"
        and old.get("allocation")
        and new.get("allocation") not in (None, old["allocation"])
    ):
        fault = "status.allocation: Invalid value: field is immutable"
        raise invalid(kind.name, after["metadata"]["name"], [fault])


def _pod_change(before: Object, after: Object) -> list[str]:
    old, new = _frozen(before["spec"]), _frozen(after["spec"])
    faults: list[str] = []
    if before["spec"].get("schedulingGates"):
        faults.extend(gates.narrowed(before["spec"], after["spec"]))
        # Of a pod that nobody looks at yet, where it may be can still be said.
        old, new = gates.without_place(old), gates.without_place(new)
    faults += [
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        f"`spec.tolerations` (only additions to existing tolerations) ({field})"
        for field in sorted({*old, *new})
        if old.get(field) != new.get(field)
    ]
    had = {gate["name"] for gate in before["spec"].get("schedulingGates") or ()}
    if {gate["name"] for gate in after["spec"].get("schedulingGates") or ()} - had:
        faults.append("spec.schedulingGates: Forbidden: only deletion is allowed")
    return faults


def _frozen(spec: Object) -> Object:
    kept = {key: value for key, value in spec.items() if key not in MUTABLE_OF_POD}
    kept["containers"] = [{k: v for k, v in one.items() if k != "image"} for one in spec.get("containers") or ()]
    return kept


def complete(kind: Kind, item: Object) -> Object:
    """The object with the defaults that others rely on."""
    if kind.name == "Pod":
        spec = {
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            **(item.get("spec") or {}),
        }
        conditions = []
        if spec.get("schedulingGates"):
            conditions.append(
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            )
        return {**item, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable", "conditions": conditions}}
    if kind.name == "Namespace":
        name = item["metadata"]["name"]
        labels = {**(item["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
        return {**item, "metadata": {**item["metadata"], "labels": labels}, "status": {"phase": "Active"}}
    return item
