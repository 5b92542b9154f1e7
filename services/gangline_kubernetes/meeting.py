"""How a gang's pods find each other and know the gang's size: names behind a headless Service, and a file. Pure."""

from typing import Any

import msgspec

from gangline_core.ids import TaskId
from gangline_core.spec import JobSpec, Role
from gangline_kit.carrying.known import Order
from gangline_kubernetes.names import GROUP_VERSION, LABEL_JOB, MANAGER, own_labels, pod_name
from gangline_kubernetes.objects import Meta
from gangline_wire.contract import Sizing, sizing

Manifest = dict[str, Any]

NOTE_SIZE = "gangline.dev/size"
NOTE_NOTICE = "gangline.dev/notice"
FOLDER = "/etc/gangline"
SIZE_FILE = f"{FOLDER}/size"
NOTICE_FILE = f"{FOLDER}/notice"
"""Files that the kubelet writes anew when the annotation changes; empty while there is none."""


def service_name(job: int) -> str:
    """Name of the headless Service behind which a job's pods have names."""
    return f"gangline-job-{job}"


def meets(spec: JobSpec) -> bool:
    """True when the job may have several members, so that they need each other's names."""
    return sum(role.max_count for role in spec.roles) > 1


def hosts(order: Order, namespace: str) -> dict[TaskId, str]:
    """By which name each member is reached: a name in the cluster's DNS, as a pod's address is known only to it."""
    if not meets(order.job.spec):
        return {order.task.id: "localhost"}
    domain = f"{service_name(order.task.job)}.{namespace}.svc"
    return {member.id: f"{pod_name(order.job.spec.name, member.id)}.{domain}" for member in order.gang}


def service(order: Order, namespace: str, owner: Meta | None) -> Manifest:
    """The headless Service of a job; it names pods before they are ready, since they meet in order to become so."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(order.task.job),
            "namespace": namespace,
            "labels": own_labels(order.task.job),
            **({"ownerReferences": [owner_reference(owner)]} if owner is not None else {}),
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL_JOB: str(order.task.job), "app.kubernetes.io/managed-by": MANAGER},
        },
    }


def owner_reference(owner: Meta) -> Manifest:
    """A reference that has what is made cleaned up with its Job object."""
    return {
        "apiVersion": GROUP_VERSION,
        "kind": "Job",
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def first_size(order: Order) -> dict[str, str]:
    """The annotation from which the size file of a member of an elastic job comes; nothing for others."""
    if not any(role.is_elastic for role in order.job.spec.roles):
        return {}
    return {NOTE_SIZE: text_of(sizing(order.job, order.task, list(order.gang)))}


def text_of(found: Sizing) -> str:
    """A size as the file holds it."""
    return msgspec.json.encode(found).decode()


def size_of(text: str) -> Sizing | None:
    """A size as an annotation says it; None when it says none."""
    try:
        return msgspec.json.decode(text, type=Sizing) if text else None
    except msgspec.MsgspecError:
        return None


def desk(role: Role) -> dict[str, str]:
    """Variables that name the files of an elastic role's members."""
    return {"GANGLINE_TASK_SIZE_FILE": SIZE_FILE} if role.is_elastic else {}


def volume() -> Manifest:
    """The folder of these files, with all annotations and labels beside them."""
    whole = [{"path": field, "fieldRef": {"fieldPath": f"metadata.{field}"}} for field in ("annotations", "labels")]
    single = [
        {"path": path, "fieldRef": {"fieldPath": f"metadata.annotations['{note}']"}}
        for path, note in (("size", NOTE_SIZE), ("notice", NOTE_NOTICE))
    ]
    return {"name": "gangline", "downwardAPI": {"items": [*whole, *single]}}
