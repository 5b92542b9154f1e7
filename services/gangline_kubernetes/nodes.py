"""From Kubernetes nodes, slices and pods of others to our nodes: pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Elsewhere, Gpu, Node, Taint
from gangline_core.fold.own_nodes import POOL_NAME
from gangline_core.ids import NodeId
from gangline_core.job import Task
from gangline_kubernetes.names import (
    LABEL_CLUSTER,
    LABEL_MODEL,
    LABEL_NODE_UID,
    LABEL_POOL,
    NOTE_UUIDS,
    OWN_TAINTS,
    UNKNOWN_MODEL,
)
from gangline_kubernetes.needs import in_mebibytes, needs_of
from gangline_kubernetes.objects import KubeNode, Pod
from gangline_kubernetes.offers import as_offered
from gangline_kubernetes.quantities import mebibytes, milli, whole
from gangline_wire.samples import NodeView

PRODUCT = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
MEMORY = ("nvidia.com/gpu.memory", "amd.com/gpu.vram")
"""Labels that say how much memory each GPU has: MiB, or a quantity with a unit."""
KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
BASIC = frozenset({"cpu", "memory", "pods"})


class Taken(Struct):
    """What pods that are not ours take on a node."""

    cpu_milli: int = 0
    memory_mib: int = 0
    resources: dict[str, int] = {}
    pods: int = 0


def taken_by(pods: Iterable[Pod]) -> Taken:
    """What these pods ask for, all containers together."""
    taken = Taken()
    for pod in pods:
        taken.pods += 1
        for name, amount in needs_of(pod).items():
            if name == "cpu":
                taken.cpu_milli += amount
            elif name == "memory":
                taken.memory_mib += amount
            else:
                taken.resources[name] = taken.resources.get(name, 0) + amount
    return taken


def beyond(pod: Pod, task: Task) -> tuple[int, int]:
    """Thousandths of CPUs and MiB that a task's pod asks for beyond what is booked, as a LimitRange may have it."""
    needs = needs_of(pod)
    return max(0, needs["cpu"] - task.cpu_milli), max(0, needs["memory"] - task.memory_mib)


class Terms(Struct, frozen=True):
    """How this cluster's nodes are read."""

    agent: str
    pool: str
    gpu_resource: str
    device_driver: str = ""
    """Read GPUs from this driver's slices; empty reads them from labels and the device plugin's count."""
    cluster: str = "kubernetes"


def describe(
    node: KubeNode,
    terms: Terms,
    *,
    published: Sequence[Gpu] = (),
    taken: Taken | None = None,
    busy: frozenset[int] = frozenset(),
    held: frozenset[int] = frozenset(),
    failed: frozenset[int] = frozenset(),
    view: NodeView | None = None,
    problem: str = "",
    ports: Sequence[str] = (),
) -> Node:
    """The node as the log shall know it; `busy` are GPUs that our own tasks hold, `failed` those that are known as bad.

    GPUs that pods of others took are left out: those with the highest numbers that none of ours holds, and those that
    are `held` by claims of others. Of each of `ports` a node has one. `published` are those that a driver offers by
    slices. `view` is what an agent on the node sees of its cards.
    """
    taken = taken or Taken()
    labels, allocatable = node.metadata.labels, node.status.allocatable
    pool = labels.get(LABEL_POOL, terms.pool)
    is_pool = POOL_NAME.fullmatch(pool) is not None
    if terms.device_driver:
        gpus, fewer = seen_by(tuple(published), view), 0
    else:
        listed = _from_labels(node, terms.gpu_resource)
        gpus = counted(listed, view)
        # A device plugin counts a failed card out; which one it is, the agent knows.
        fewer = max(0, len(gpus) - len(failed & {gpu.index for gpu in gpus}) - len(listed))
    left_out = taken.resources.get(terms.gpu_resource, 0) + fewer
    free = [gpu.index for gpu in gpus if gpu.index not in busy and gpu.index not in failed]
    gone = frozenset(free[max(0, len(free) - left_out) :] if left_out else ()) | (held - busy)
    others, devices = _shared(allocatable, taken, [*ports], terms.gpu_resource)
    others = replace(others, gpus=tuple(gpu for gpu in gpus if gpu.index in gone))
    return Node(
        id=NodeId(node.metadata.name),
        agent=terms.agent,
        cpu_milli=milli(allocatable.get("cpu", 0)) - others.cpu_milli,
        memory_mib=mebibytes(allocatable.get("memory", 0)) - others.memory_mib,
        gpus=tuple(gpu for gpu in gpus if gpu.index not in gone),
        pool=pool if is_pool else terms.pool,
        labels={
            **(view.labels if view is not None else {}),
            **labels,
            LABEL_NODE_UID: node.metadata.uid,
            LABEL_CLUSTER: terms.cluster,
        },
        taints=_taints(node),
        devices={name: count for name, count in devices.items() if count},
        address=_address(node),
        problem=problem
        or ("" if is_pool else f"label {LABEL_POOL}={pool}: a pool has letters, digits, - and _")
        or fault(node)
        or (view.problem if view is not None else ""),
        nics=view.nics if view is not None else (),
        is_watched=True,
        tasks_max=whole(allocatable["pods"]) - others.tasks if "pods" in allocatable else None,
        elsewhere=others if others != Elsewhere() else None,
    )


def _shared(
    allocatable: Mapping[str, Any], taken: Taken, ports: Sequence[str], gpu_resource: str
) -> tuple[Elsewhere, dict[str, int]]:
    """What others have of a node, GPUs left out, and the devices that are left."""
    offered = {
        name: mebibytes(value) if in_mebibytes(name) else whole(value)
        for name, value in sorted({**allocatable, **dict.fromkeys(ports, "1")}.items())
        if name not in BASIC and name != gpu_resource and ("/" in name or in_mebibytes(name))
    }
    devices = {name: max(0, count - taken.resources.get(name, 0)) for name, count in offered.items()}
    others = Elsewhere(
        cpu_milli=min(milli(allocatable.get("cpu", 0)), taken.cpu_milli),
        memory_mib=min(mebibytes(allocatable.get("memory", 0)), taken.memory_mib),
        devices={name: offered[name] - left for name, left in devices.items() if offered[name] > left},
        tasks=min(whole(allocatable.get("pods", 0)), taken.pods),
    )
    return others, devices


def is_of_another(known: Node | None, node: KubeNode, agent: str) -> bool:
    """True for a node of which the log has a living machine of another cluster by the same name."""
    if known is None or known.lost or known.agent == agent:
        return False
    its = known.labels.get(LABEL_NODE_UID, "")
    # A cluster that was given another name has the same objects.
    return bool(its) and its != node.metadata.uid


def fault(node: KubeNode) -> str:
    """Why the node takes no new work; empty when it does."""
    if node.metadata.deletion_timestamp:
        return "the node is being deleted"
    if node.spec.unschedulable:
        return "cordoned"
    return "" if node.is_ready else "not ready"


def _taints(node: KubeNode) -> tuple[Taint, ...]:
    return tuple(
        Taint(key=taint.key, value=taint.value, effect=taint.effect)
        for taint in node.spec.taints
        if taint.effect in KEEPS_AWAY and taint.key.removeprefix("node.kubernetes.io/") not in OWN_TAINTS
    )


def _address(node: KubeNode) -> str:
    found = {one.type: one.address for one in node.status.addresses}
    return found.get("InternalIP") or found.get("Hostname") or node.metadata.name


def _from_labels(node: KubeNode, resource: str) -> tuple[Gpu, ...]:
    labels = node.metadata.labels
    model = labels.get(LABEL_MODEL) or next((labels[key] for key in PRODUCT if key in labels), UNKNOWN_MODEL)
    memory_mib = next((_memory(labels[key]) for key in MEMORY if key in labels), 0)
    uuids = [text for text in node.metadata.annotations.get(NOTE_UUIDS, "").split(",") if text]
    return tuple(
        Gpu(index=k, model=model, memory_mib=memory_mib, uuid=uuids[k] if k < len(uuids) else "")
        for k in range(whole(node.status.allocatable.get(resource, 0)))
    )


def _memory(text: str) -> int:
    """A bare number is MiB, as the feature discovery labels write it."""
    return whole(text) if text.isdecimal() else mebibytes(text)


def counted(listed: tuple[Gpu, ...], view: NodeView | None) -> tuple[Gpu, ...]:
    """GPUs that a device plugin only counts, as an agent on the node knows them one by one.

    The cluster's labels name the model, so that nodes with an agent and nodes without one are of the same model.
    """
    if view is None or not view.gpus or not listed:
        return listed
    model, memory_mib = listed[0].model, listed[0].memory_mib
    return tuple(
        replace(
            gpu,
            model=gpu.model.replace(" ", "-") if model == UNKNOWN_MODEL else model,
            memory_mib=memory_mib or gpu.memory_mib,
            # Whether cards are cut is for the device plugin to offer, by resources of their own.
            mig="",
            slices=(),
        )
        for gpu in view.gpus
    )


def seen_by(gpus: tuple[Gpu, ...], view: NodeView | None) -> tuple[Gpu, ...]:
    """GPUs that a driver publishes, with what only an agent sees: how they hang together."""
    seen = {gpu.uuid: gpu for gpu in view.gpus if gpu.uuid} if view is not None else {}
    return tuple(
        replace(
            seen[gpu.uuid],
            index=gpu.index,
            model=gpu.model,
            memory_mib=gpu.memory_mib or seen[gpu.uuid].memory_mib,
            healthy=gpu.healthy,
            problem=gpu.problem,
            suspect="",
            device=gpu.device,
            driver_problem=gpu.driver_problem,
            paths=() if seen[gpu.uuid].index != gpu.index else seen[gpu.uuid].paths,
            mig="",
            slices=(),
        )
        if gpu.uuid in seen
        else gpu
        for gpu in gpus
    )


def is_same(known: Node, node: Node) -> bool:
    """True when the log has the node as it is, apart from what administrators, telemetry and the fold add."""
    return bare(known, problem=known.problem) == node


def bare(known: Node, *, problem: str) -> Node:
    """A node as the log has it, without what administrators, telemetry and the fold add, and with this problem."""
    return replace(
        known,
        gpus=tuple(as_offered(gpu) for gpu in known.gpus),
        pool=known.home or known.pool,
        problem=problem,
        home="",
        quarantined_ms=0,
        drained=False,
        drain_why="",
        lost=False,
        seen_ms=0,
        quarantine="",
        twin="",
    )
