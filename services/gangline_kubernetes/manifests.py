"""From orders to pods: what is created for a task, and in mode dra the claim it holds. Pure."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from gangline_core.door.terms import limit_s
from gangline_core.spec import Role, tolerations_of
from gangline_kit.carrying.environment import Place, build, role_of
from gangline_kit.carrying.known import Order
from gangline_kubernetes.claim_versions import FLAT, NEWEST
from gangline_kubernetes.config import Config, DeviceMode
from gangline_kubernetes.meeting import (
    FOLDER,
    NOTICE_FILE,
    desk,
    first_size,
    hosts,
    meets,
    owner_reference,
    service_name,
    volume,
)
from gangline_kubernetes.names import (
    FINALIZER,
    LABEL_CLUSTER,
    LABEL_ROLE,
    NOTE_CLUSTER,
    NOTE_GPUS,
    NOTE_PLACED,
    NOTE_TASK,
    label_value,
    own_labels,
    pod_name,
)
from gangline_kubernetes.needs import in_mebibytes
from gangline_kubernetes.objects import Meta
from gangline_kubernetes.secret_refs import LABEL_REFS, variables
from gangline_wire.seal import PLACEHOLDER

Manifest = dict[str, Any]

MAIN = "main"
"""Name of the one container of our pods."""
CLAIM = "gpus"
GRACE_S_MIN = 1
"""With less the server forgets a pod at once, while its containers may still run."""
STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""What keeps the cluster autoscaler and Karpenter from removing a node under a pod."""
VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


class Home(Struct, frozen=True):
    """Where a job's pods belong: their namespace, and the Job object that owns them, when there is one."""

    namespace: str
    owner: Meta | None = None
    is_restricted: bool = False
    """True where only pods are let in that can gain no rights (the level restricted of pod security)."""


class NoImageError(Exception):
    """A role names no image and there is no usual one."""


def pod(order: Order, config: Config, home: Home, *, uuids: Sequence[str] = ()) -> Manifest:
    """The pod of a task, bound to its node from the start.

    `uuids` name the task's GPUs in mode annotation. Sealed values are taken from the job's Secret.

    Raises:
        NoImageError: nothing says which image to run.
    """
    role, task, spec = role_of(order), order.task, order.job.spec
    name = pod_name(spec.name, task.id)
    image = role.image or config.image
    if not image:
        raise NoImageError(f"role {role.name} names no image")
    container: Manifest = {
        "name": MAIN,
        "image": image,
        "env": environment(order, role, config, home, uuids=uuids),
        "resources": resources(order, config),
        "volumeMounts": [{"name": "gangline", "mountPath": FOLDER, "readOnly": True}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if role.command:
        container["command"] = [_argument(text, task.job) for text in role.command]
    body: Manifest = {
        "nodeName": task.node,
        "schedulerName": config.scheduler_name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(GRACE_S_MIN, spec.grace_s),
        "containers": [container],
        "volumes": [volume()],
        "tolerations": _tolerations(order),
        "automountServiceAccountToken": False,
    }
    if home.is_restricted:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        body["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if meets(spec):
        body |= {"hostname": name, "subdomain": service_name(task.job)}
    if (left_s := _limit_s(order)) > 0:
        body["activeDeadlineSeconds"] = left_s
    if config.mode is DeviceMode.DRA and task.gpus:
        body["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": name}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(order, config, home, name), "spec": body}


def meta(order: Order, config: Config, home: Home, name: str) -> Manifest:
    """Name, marks and owner of everything we make for a task."""
    task = order.task
    found: Manifest = {
        "name": name,
        "namespace": home.namespace,
        "labels": {
            **own_labels(task.job, component=task.role),
            LABEL_CLUSTER: label_value(config.cluster),
            LABEL_ROLE: label_value(task.role),
        },
        "annotations": marks(order, config) | stays() | first_size(order),
        "finalizers": [FINALIZER],
    }
    if home.owner is not None:
        found["ownerReferences"] = [owner_reference(home.owner)]
    return found


def marks(order: Order, config: Config) -> dict[str, str]:
    """Annotations by which a pod is known as this task's."""
    task = order.task
    return {
        NOTE_TASK: task.id,
        NOTE_PLACED: str(task.placed_ms),
        NOTE_CLUSTER: config.cluster,
        NOTE_GPUS: ",".join(str(share.index) for share in task.gpus),
    }


def stays(meta: Meta | None = None) -> dict[str, str]:
    """Annotations by which autoscalers leave running work alone; what a pod's owner says about that stands."""
    have = meta.annotations if meta is not None else {}
    return {} if any(name in have for name in STAYS) else dict(STAYS)


def may_go(meta: Meta) -> dict[str, None]:
    """The same annotations, as far as they are ours, to be taken away: the pod no longer stands for running work."""
    have = meta.annotations
    return dict.fromkeys(STAYS) if NOTE_TASK in have and all(have.get(k) == v for k, v in STAYS.items()) else {}


def environment(order: Order, role: Role, config: Config, home: Home, *, uuids: Sequence[str]) -> list[Manifest]:
    """The environment of a task as a container has it."""
    place = Place(
        folder="/tmp",
        notice_file=NOTICE_FILE,
        devices=tuple(uuids),
        desk=desk(role),
        hosts=hosts(order, home.namespace),
        is_apart=True,
    )
    values = dict(build(order, role, place, {}).values)
    if config.mode is not DeviceMode.ANNOTATION:
        # The device plugin or the DRA driver sets these inside the container.
        for name in VISIBLE:
            if order.task.gpus:
                values.pop(name, None)
    values["GANGLINE_TASK_UUIDS"] = ",".join(uuids)
    # Nobody but the service for this cluster submits jobs by this name, so no job file can name Secrets.
    is_object = order.job.submitted_by == f"kubernetes:{config.cluster}"
    refs = variables(order.job.spec.labels.get(LABEL_REFS, "") if is_object else "")
    for one in refs:
        values.pop(one["name"], None)
    found = [_variable(name, value, order.task.job) for name, value in sorted(values.items())] + refs
    sealed = {text for text in role.command if PLACEHOLDER in text}
    return found + [_secret_argument(text, order.task.job) for text in sorted(sealed)]


def secret_name(job: int) -> str:
    """Name of the Secret that holds a job's sealed values."""
    return f"gangline-job-{job}"


def secret_key(text: str) -> str:
    """Key under which the Secret holds the unsealed form of a text with placeholders."""
    return f"text-{sha256(text.encode()).hexdigest()[:16]}"


def _variable(name: str, value: str, job: int) -> Manifest:
    if PLACEHOLDER not in value:
        # A dollar in parentheses would be expanded by the kubelet.
        return {"name": name, "value": value.replace("$(", "$$(")}
    reference = {"name": secret_name(job), "key": secret_key(value)}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _secret_argument(text: str, job: int) -> Manifest:
    name = secret_key(text).replace("-", "_").upper()
    reference = {"name": secret_name(job), "key": secret_key(text)}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _argument(text: str, job: int) -> str:
    if PLACEHOLDER not in text:
        return text.replace("$(", "$$(")
    return f"$({secret_key(text).replace('-', '_').upper()})"


def resources(order: Order, config: Config) -> Manifest:
    """What the container asks for: what the scheduler booked, no more and no less."""
    task = order.task
    found: dict[str, str] = {}
    if task.cpu_milli:
        found["cpu"] = f"{task.cpu_milli}m"
    if task.memory_mib:
        found["memory"] = f"{task.memory_mib}Mi"
    found |= {name: f"{count}Mi" if in_mebibytes(name) else str(count) for name, count in sorted(task.devices.items())}
    whole = sum(share.milli for share in task.gpus) // 1000
    if whole and config.mode is DeviceMode.COUNT:
        found[config.gpu_resource] = str(whole)
    limits = {name: value for name, value in found.items() if name != "cpu"}
    asked: Manifest = {"requests": found, "limits": limits}
    if task.gpus and config.mode is DeviceMode.DRA:
        asked["claims"] = [{"name": CLAIM}]
    return asked


def claim(order: Order, config: Config, pod: Meta, *, version: str = NEWEST) -> Manifest:
    """The ResourceClaim of a task's pod, with which it goes: as many devices of the class as the task has GPUs."""
    exactly = {"deviceClassName": config.device_class, "allocationMode": "ExactCount", "count": len(order.task.gpus)}
    asked = exactly if version == FLAT else {"exactly": exactly}
    return {
        "apiVersion": version,
        "kind": "ResourceClaim",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "labels": own_labels(order.task.job),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "spec": {"devices": {"requests": [{"name": CLAIM, **asked}]}},
    }


def allocation(driver: str, devices: Sequence[tuple[str, tuple[str, str]]], node: str, pod_meta: Meta) -> Manifest:
    """The status of a claim that we allocate ourselves: these devices of this node, for this pod.

    `devices` are the claim's requests, each with the pool and name of a device.
    """
    results = [
        {"request": request, "driver": driver, "pool": pool, "device": device} for request, (pool, device) in devices
    ]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [here]}},
        "reservedFor": [{"resource": "pods", "name": pod_meta.name, "uid": pod_meta.uid}],
    }


def _tolerations(order: Order) -> list[Manifest]:
    found: list[Manifest] = []
    for one in tolerations_of(order.job.spec, role_of(order)):
        is_any = not one.value
        found.append({"key": one.key, "operator": "Exists"} if is_any else {"key": one.key, "value": one.value})
    # Whether and when a lost node's work moves is decided by the log, not by the taint manager.
    words = ("not-ready", "unreachable")
    found.extend({"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": "NoExecute"} for word in words)
    return found


def _limit_s(order: Order) -> int:
    """What is left of the job's time; 0 when there is no limit."""
    began_ms, placed_ms = order.job.started_ms, order.task.placed_ms
    allowed_s = limit_s(order.job.spec, began_ms or placed_ms)
    used_s = max(0, placed_ms - began_ms) / 1000 if began_ms else 0
    return int(max(1.0, allowed_s - used_s)) if allowed_s else 0
