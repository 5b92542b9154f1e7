"""Pods of others that ask for us: which of them are one gang, and what job they are. Pure.

The names are those existing manifests carry (Kueue, KAI, Volcano, YuniKorn, Koordinator, HAMi, gpushare), where they
mean what we mean; docs/kubernetes.md lists them.
"""

from collections.abc import Sequence

from msgspec import Struct

from gangline_core.cluster import Pool
from gangline_core.spec import JobSpec, Resources, Role, Toleration, TopologyWish, whole_slices
from gangline_kubernetes.affinities import selector_of
from gangline_kubernetes.config import Config
from gangline_kubernetes.names import MANAGER, OWN_TAINTS
from gangline_kubernetes.needs import needs_of
from gangline_kubernetes.objects import Pod
from gangline_kubernetes.quantities import milli, whole
from gangline_wire.limits import most

QUEUE = (
    "gangline.dev/queue",
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
    "queue",
)
"""Names of a group, with dots for slashes, as label values cannot hold those."""
GANG = (
    "gangline.dev/gang",
    "kueue.x-k8s.io/pod-group-name",
    "scheduling.k8s.io/group-name",
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.x-k8s.io/pod-group",
    "gang.scheduling.koordinator.sh/name",
    "armadaproject.io/gangId",
    "pod-group-name",
)
SIZE = (
    "gangline.dev/gang-size",
    "kueue.x-k8s.io/pod-group-total-count",
    "gang.scheduling.koordinator.sh/min-available",
    "kai.scheduler/batch-min-member",
    "scheduling.k8s.io/group-min-member",
    "armadaproject.io/gangCardinality",
)
SET, SET_SIZE = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/size"
SET_GROUPS = ("leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/group-index")
"""Each group of a LeaderWorkerSet, a leader with its workers, is a gang."""
INDEX = (
    ("jobset.sigs.k8s.io/job-global-index", "leaderworkerset.sigs.k8s.io/worker-index"),
    ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index", "training.kubeflow.org/replica-index"),
)
"""Numbers by which members are in order: that of their part, then their own; then come the numbers of their names."""
OWNER_GANGS = frozenset({"JobSet", "PyTorchJob", "TFJob", "MPIJob", "RayCluster", "RayJob", "Job", "StatefulSet"})
"""Owners whose pods belong together, once somebody says how many there are."""
REQUIRED = (
    "gangline.dev/topology-required",
    "kueue.x-k8s.io/podset-required-topology",
    "kai.scheduler/topology-required-placement",
    "armadaproject.io/gangNodeUniformityLabel",
)
PREFERRED = (
    "gangline.dev/topology-preferred",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kai.scheduler/topology-preferred-placement",
)
SLICE_LEVEL = (
    "gangline.dev/topology-slice",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kai.scheduler/segment-topology-required-placement",
)
SLICE_SIZE = ("gangline.dev/topology-slice-size", "kueue.x-k8s.io/podset-slice-size", "kai.scheduler/segment-size")
"""So many pods with neighbouring numbers stand together in one domain of a level."""
NOT_PREEMPTIBLE = {
    "kai.scheduler/preemptibility": "non-preemptible",
    "volcano.sh/preemptable": "false",
    "yunikorn.apache.org/allow-preemption": "false",
}
CHECKPOINTS = ("gangline.dev/checkpoints",)
"""\"true\": told to stop its pods save their work within their grace period, and new ones go on from there."""
NEVER = "Never"
"""Preemption policy of pods for which nobody has to make way."""
TIME_LIMIT = ("kueue.x-k8s.io/max-exec-time-seconds",)
GPU_COUNT = ("gangline.dev/gpu-count",)
"""Whole GPUs of a pod that asks no device plugin for them."""
FRACTION = ("gangline.dev/gpu-fraction", "gpu-fraction")
SHARE_MEMORY = ("gangline.dev/gpu-memory", "gpu-memory")
"""MiB of a GPU's memory, as a bare number."""
FOREIGN = (
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory",
    "koordinator.sh/gpu-memory-ratio",
    "aliyun.com/gpu-mem",
)
"""Extended resources by which HAMi, Koordinator and gpushare give parts of GPUs: only their own scheduler can."""
GATE = "gangline.dev/queued"
"""Scheduling gate that we take away ourselves when the pod has its place, whoever binds it there."""
ALONE = "pod/"
"""Begins the name of a gang of one."""


class Gang(Struct, frozen=True):
    """Which pods belong together, and how many there must be before anything is done."""

    namespace: str
    name: str
    size: int


def wants_us(pod: Pod, config: Config) -> bool:
    """True for a pod that is for us to place and was made by somebody else: it names us, or has our gate."""
    meta, spec = pod.metadata, pod.spec
    if spec.node_name or pod.is_over or meta.deletion_timestamp:
        return False
    if spec.scheduler_name != config.scheduler_name and not is_gated(pod):
        return False
    if meta.labels.get("app.kubernetes.io/managed-by") == MANAGER:
        return False
    return all(gate.name == GATE for gate in spec.scheduling_gates)


def is_gated(pod: Pod) -> bool:
    """True when our gate must be taken away before the pod can be bound."""
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def gang_of(pod: Pod) -> Gang:
    """The pod's gang; one of its own when nothing says otherwise."""
    name, size = said(pod, GANG), said(pod, SIZE)
    if not name and (leader := said(pod, (SET,))):
        name, size = f"{leader}/{said(pod, SET_GROUPS)}", size or said(pod, (SET_SIZE,))
    owner = next((one for one in pod.metadata.owner_references if one.controller and one.kind in OWNER_GANGS), None)
    if not name and owner is not None and size:
        name = f"{owner.kind}/{owner.name}/{owner.uid}"
    if not name:
        return Gang(pod.metadata.namespace, f"{ALONE}{pod.metadata.uid}", 1)
    return Gang(pod.metadata.namespace, name, max(1, whole(size)))


def said(pod: Pod, names: Sequence[str]) -> str:
    """The first of these labels or annotations that the pod has."""
    meta = pod.metadata
    return next((meta.labels.get(name) or meta.annotations.get(name, "") for name in names if _has(pod, name)), "")


def _has(pod: Pod, name: str) -> bool:
    return bool(pod.metadata.labels.get(name) or pod.metadata.annotations.get(name))


def ordered(pods: Sequence[Pod]) -> list[list[Pod]]:
    """The gang's pods by role: equal needs on the same nodes make a role, names give the order, numbers as numbers."""
    shapes: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_natural):
        shape = (resources_of(pod), sorted(selector_of(pod).items()), tolerations_of(pod))
        shapes.setdefault(repr(shape), []).append(pod)
    return list(shapes.values())


def _natural(pod: Pod) -> tuple[int, int, str, int, str]:
    """By the numbers that its owner gave it; a name that ends in a number sorts by it."""
    name = pod.metadata.name
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    part, own = (whole(said(pod, names) or -1) for names in INDEX)
    return part, own, stem, int(digits) if digits else 0, pod.metadata.uid


def job_of(
    roles: Sequence[Sequence[Pod]],
    config: Config,
    pool: Pool | None,
    gpu_resource: str,
    *,
    bounds: Sequence[tuple[int, int]] = (),
) -> JobSpec:
    """The job that these pods are; its group is what their queue says, for `ownership.owned` to judge.

    `bounds` are the least and largest number of each role's pods, when those may change.
    """
    first = roles[0][0]
    spec, labels = first.spec, first.metadata.labels
    where = [(selector_of(pods[0]), tolerations_of(pods[0])) for pods in roles]
    is_one = all(one == where[0] for one in where)
    deadline = spec.active_deadline_seconds or whole(said(first, TIME_LIMIT))
    bound = most("priority")
    topology = _topology(first, pool)
    return JobSpec(
        name=said(first, GANG) or first.metadata.name,
        group=said(first, QUEUE).replace(".", "/"),
        user="",
        pool=labels.get("gangline.dev/pool", config.pool),
        roles=tuple(
            whole_slices(
                Role(
                    name=f"pods{number}" if number else "pods",
                    count=len(pods),
                    min_count=bounds[number][0] if bounds else len(pods),
                    max_count=bounds[number][1] if bounds else len(pods),
                    resources=resources_of(pods[0], gpu_resource),
                    node_selector=None if is_one else where[number][0],
                    tolerations=None if is_one else where[number][1],
                ),
                topology.slice_tasks,
            )
            for number, pods in enumerate(roles)
        ),
        priority=max(-bound, min(bound, spec.priority or 0)),
        topology=topology,
        node_selector=where[0][0] if is_one else {},
        tolerations=where[0][1] if is_one else (),
        time_limit_s=max(0, deadline),
        grace_s=30 if spec.termination_grace_period_seconds is None else spec.termination_grace_period_seconds,
        preemptible=not any(_says(first, name, value) for name, value in NOT_PREEMPTIBLE.items()),
        preempts=not any(pods[0].spec.preemption_policy == NEVER for pods in roles),
        checkpoints=said(first, CHECKPOINTS) == "true",
    )


def tolerations_of(pod: Pod) -> tuple[Toleration, ...]:
    """Taints that the pod accepts; those of a node that is not ready or closed are no taints here."""
    return tuple(
        Toleration(
            key=one.key,
            value=one.value if one.operator != "Exists" else "",
            effect=one.effect,
            is_exact=one.operator != "Exists" and not one.value,
        )
        for one in pod.spec.tolerations
        if one.key.removeprefix("node.kubernetes.io/") not in OWN_TAINTS
    )


def _topology(pod: Pod, pool: Pool | None) -> TopologyWish:
    slice_tasks = whole(said(pod, SLICE_SIZE) or 0)
    slice_level = _level(said(pod, SLICE_LEVEL), pool)
    is_sliced = slice_tasks > 0 and bool(slice_level)
    return TopologyWish(
        required=_level(said(pod, REQUIRED), pool),
        preferred=_level(said(pod, PREFERRED), pool),
        slice_tasks=slice_tasks if is_sliced else 0,
        slice_level=slice_level if is_sliced else "",
    )


def topology_words(pod: Pod) -> tuple[str, ...]:
    """All that a pod says of the topology."""
    return tuple(said(pod, names) for names in (REQUIRED, PREFERRED, SLICE_LEVEL, SLICE_SIZE))


def _says(pod: Pod, name: str, value: str) -> bool:
    return value in (pod.metadata.labels.get(name), pod.metadata.annotations.get(name))


def _level(text: str, pool: Pool | None) -> str:
    """The pool's level whose node label this is; a level's own name is taken as it is."""
    if text == "kubernetes.io/hostname":
        return "node"
    levels = pool.topology if pool is not None else {}
    return next((level for level, label in levels.items() if text in (level, label)), text)


def resources_of(pod: Pod, gpu_resource: str = "nvidia.com/gpu") -> Resources:
    """What the pod needs on its node."""
    cpu = memory = gpus = 0
    devices: dict[str, int] = {}
    for name, count in needs_of(pod).items():
        if name == "cpu":
            cpu = count
        elif name == "memory":
            memory = count
        elif name == gpu_resource:
            gpus = count
        else:
            devices[name] = count
    gpus = gpus or max(0, whole(said(pod, GPU_COUNT) or 0))
    share = milli(said(pod, FRACTION) or 0)
    is_share = 0 < share < 1000 or (not share and said(pod, SHARE_MEMORY))
    return Resources(
        gpu_milli=(share if share else 0) if is_share else (gpus * 1000 or share // 1000 * 1000),
        gpu_memory_mib=whole(said(pod, SHARE_MEMORY)),
        cpu_milli=cpu,
        memory_mib=memory,
        devices={name: count for name, count in sorted(devices.items()) if count},
    )
