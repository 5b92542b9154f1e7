"""How our objects on the cluster are named and marked: unique, valid for every job name, and found again."""

import re
from hashlib import sha256

from msgspec import Struct

from gangline_core.fold.own_nodes import NODE_UID
from gangline_core.ids import TaskId
from gangline_kubernetes.objects import Pod

GROUP = "gangline.dev"
VERSION = "v1alpha1"
GROUP_VERSION = f"{GROUP}/{VERSION}"

LABEL_JOB = f"{GROUP}/job"
LABEL_CLUSTER = f"{GROUP}/cluster"
"""The cluster whose a pod is, or a node as the log has it: what objects of a cluster ask for stays there."""
LABEL_ROLE = f"{GROUP}/role"
LABEL_POOL = f"{GROUP}/pool"
LABEL_NODE_UID = NODE_UID
"""Label that only the log has: which node object of which cluster a node is, as names are equal in many clusters."""
LABEL_MODEL = f"{GROUP}/gpu-model"
NOTE_TASK = f"{GROUP}/task"
NOTE_PLACED = f"{GROUP}/placed-ms"
NOTE_CLUSTER = f"{GROUP}/cluster"
NOTE_GPUS = f"{GROUP}/gpus"
NOTE_GROUP = f"{GROUP}/group"
NOTE_USER = f"{GROUP}/user"
NOTE_VISIBLE = f"{GROUP}/visible-devices"
NOTE_UUIDS = f"{GROUP}/gpu-uuids"
FINALIZER = f"{GROUP}/seen"
"""Keeps a pod until its end is in the log."""
JOB_FINALIZER = f"{GROUP}/job"
"""Keeps a Job object until its tasks are gone."""
MANAGER = "gangline"
OWN_TAINTS = frozenset({"unschedulable", "not-ready", "unreachable"})
"""Taints under node.kubernetes.io that say what the node's problem says already."""
UNKNOWN_MODEL = "GPU"
"""Model of a card of which nobody says what it is."""

NAME_CHARS_MAX = 63
DIGITS_MAX = 15
HASH_CHARS = 8

_UNSAFE = re.compile(r"[^a-z0-9-]+")
_DASHES = re.compile(r"-{2,}")


class Mark(Struct, frozen=True):
    """What a pod says of the task it is."""

    task: TaskId
    placed_ms: int


def mark_of(pod: Pod, cluster: str) -> Mark | None:
    """The task a pod of this cluster's is, or None."""
    notes = pod.metadata.annotations
    task, placed = notes.get(NOTE_TASK, ""), notes.get(NOTE_PLACED, "")
    if not task or notes.get(NOTE_CLUSTER) != cluster or not is_number(placed):
        return None
    return Mark(task=TaskId(task), placed_ms=int(placed))


def is_number(text: str) -> bool:
    """True for digits that are a number somebody may have counted to, as anybody may write anything."""
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX


def slug(text: str, most: int) -> str:
    """The text as part of a DNS label; empty when nothing of it can stand there."""
    return _DASHES.sub("-", _UNSAFE.sub("-", text.lower())).strip("-")[:most].rstrip("-")


def pod_name(job_name: str, task: TaskId) -> str:
    """A valid name that no other task has: what people recognise of the job's name, then the task, then its digest.

    The digest keeps apart tasks whose names differ only in what a pod's name cannot show.
    """
    digest = sha256(task.encode()).hexdigest()[:HASH_CHARS]
    tail = f"{slug(task, 30)}-{digest}"
    head = slug(job_name, NAME_CHARS_MAX - len(tail) - 1)
    # A label must begin with a letter where a service name is made of it.
    return f"{head or 'job'}-{tail}"


def own_labels(job: int, *, component: str = "") -> dict[str, str]:
    """Labels of everything that we make for a job, by which people and tools know it.

    Nothing that users say is the name of an application here: a Service of theirs could mean pods of that name.
    """
    found = {
        "app.kubernetes.io/managed-by": MANAGER,
        "app.kubernetes.io/part-of": MANAGER,
        "app.kubernetes.io/name": "gangline-job",
        "app.kubernetes.io/instance": f"gangline-job-{job}",
        LABEL_JOB: str(job),
    }
    return {**found, "app.kubernetes.io/component": label_value(component)} if component else found


def label_value(text: str) -> str:
    """The text as a label's value: as it is, or cut and told apart by its digest."""
    if len(text) <= NAME_CHARS_MAX and re.fullmatch(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?", text, re.ASCII):
        return text
    digest = sha256(text.encode()).hexdigest()[:HASH_CHARS]
    return f"{slug(text, NAME_CHARS_MAX - HASH_CHARS - 1) or 'x'}-{digest}"
