"""Which nodes cannot take a task right now, counted by the first cause found on each."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from gangline_core.cluster import Gpu, Node, NodeUse, tasks_most
from gangline_core.ids import NodeId
from gangline_core.room.capacity import PLACES_MAX, matches, tolerates
from gangline_core.room.layout import kind_of
from gangline_core.room.mig import geometry, how_many
from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role, selector_of, tolerations_of
from gangline_core.state import State

WINDOW = "kept for a window that it would run into"


def rejected(
    state: State, spec: JobSpec, role: Role, closed: Collection[NodeId] = ()
) -> tuple[dict[str, tuple[int, int]], int]:
    """Nodes of the job's pool that cannot take one task of the role, and their GPUs, by cause; how many could take one.

    The causes are in order of their number of nodes, most first. On `closed` nodes it would run into a window.
    """
    causes: dict[str, tuple[int, int]] = {}
    open_nodes, need = 0, role.resources
    models = {model.lower() for model in need.gpu_models}
    known = state.kept.pools.get(spec.pool)
    most = known.policy.node_tasks_max if known is not None else PLACES_MAX
    wish = spec.topology
    bound = (wish.required, wish.spread_level, wish.slice_level if wish.slice_tasks else "")
    labels = {level: label for level, label in known.pool.topology.items() if level in bound} if known else {}
    for node in state.kept.nodes.values():
        if node.pool == spec.pool:
            use = state.use[node.id]
            cause = _node_cause(node, spec, role) or _domain_cause(node, labels)
            cause = cause or (WINDOW if node.id in closed else _room_cause(node, use, need, models))
            if not cause and len(use.tasks) >= tasks_most(node, most):
                cause = "as many tasks as a node takes"
            if cause:
                nodes, gpus = causes.get(cause, (0, 0))
                causes[cause] = (nodes + 1, gpus + len(node.gpus))
            else:
                open_nodes += 1
    return dict(sorted(causes.items(), key=lambda entry: (-entry[1][0], entry[0]))), open_nodes


def _node_cause(node: Node, spec: JobSpec, role: Role) -> str:
    """Why the node takes nothing of this role, whatever is free on it."""
    if node.lost:
        return "lost"
    if node.drained:
        return "drained"
    if node.problem:
        return "sick"
    if node.quarantine:
        return "sick"
    if node.twin:
        return "the same machine as another"
    if node.id in spec.exclude_nodes:
        return "excluded"
    if not matches(node, selector_of(spec, role)):
        return "labels do not match"
    if not tolerates(node, tolerations_of(spec, role)):
        return "taint not tolerated"
    return ""


def _domain_cause(node: Node, labels: Mapping[str, str]) -> str:
    """The label without which the node is in no domain of a level that binds the job."""
    level = next((level for level, label in labels.items() if not node.labels.get(label)), "")
    return f"in no {level}, for lack of the label {labels[level]}" if level else ""


def _room_cause(node: Node, use: NodeUse, need: Resources, models: set[str]) -> str:
    """What is too little on the node for one task."""
    if need.wants_gpu:
        cause = _gpu_cause(node, use, need, models)
        if cause:
            return cause
    if use.cpu_milli + need.cpu_milli > node.cpu_milli:
        return "not enough CPUs free"
    if use.memory_mib + need.memory_mib > node.memory_mib:
        return "not enough memory free"
    if not _has_devices(node.devices, use.devices, need.devices):
        return "not enough devices free"
    return ""


def _gpu_cause(node: Node, use: NodeUse, need: Resources, models: set[str]) -> str:
    right = list(node.gpus)
    for cause, suits in _wishes(node, need, models):
        right = [gpu for gpu in right if suits(gpu)]
        if not right:
            return cause
    healthy = [gpu for gpu in right if gpu.healthy]
    if not need.whole_gpus:
        if any(_has_share(gpu, use, need) for gpu in healthy):
            return ""
        return "not enough of one GPU free" if healthy else "GPUs failed"
    if _most_alike(right) < need.whole_gpus:
        return "not so many GPUs" if len(right) < need.whole_gpus else "not so many GPUs of one model"
    free = [gpu for gpu in healthy if use.gpu_milli[gpu.index] == 0 and use.gpu_memory_mib[gpu.index] == 0]
    if _most_alike(free) >= need.whole_gpus:
        return ""
    return "not enough GPUs free" if _most_alike(healthy) >= need.whole_gpus else "GPUs failed"


def _wishes(node: Node, need: Resources, models: set[str]) -> Iterator[tuple[str, Callable[[Gpu], bool]]]:
    """What each GPU has to be whatever is free of it, and what is told where none of the node's is."""
    without = {model.lower() for model in need.exclude_models}
    yield "no GPUs", lambda gpu: True
    yield "other GPU model", lambda gpu: gpu.model.lower() in (models or {gpu.model.lower()}) - without
    if need.mig:
        yield "no such slice", lambda gpu: bool(gpu.mig) and need.mig in geometry(gpu.cut).profiles
    else:
        yield "GPUs are cut into slices", lambda gpu: not gpu.mig
    if need.near_nic:
        yield "no network card near a GPU", lambda gpu: kind_of(node, gpu).near_nic
    yield "not enough GPU memory", lambda gpu: gpu.memory_mib >= need.gpu_memory_mib


def _most_alike(gpus: Sequence[Gpu]) -> int:
    """The most GPUs of one model: a task's are all of one."""
    count = Counter(gpu.model.lower() for gpu in gpus)
    return max(count.values(), default=0)


def _has_share(gpu: Gpu, use: NodeUse, need: Resources) -> bool:
    if need.mig:
        return bool(how_many(gpu.cut, need.mig, geometry(gpu.cut).all_free & ~use.gpu_slots[gpu.index]))
    milli = need.gpu_milli or need.gpu_memory_mib * GPU_MILLI // gpu.memory_mib
    memory = need.gpu_memory_mib or gpu.memory_mib * need.gpu_milli // GPU_MILLI
    return use.gpu_milli[gpu.index] + milli <= GPU_MILLI and use.gpu_memory_mib[gpu.index] + memory <= gpu.memory_mib


def _has_devices(total: Mapping[str, int], used: Mapping[str, int], need: Mapping[str, int]) -> bool:
    return all(used.get(name, 0) + amount <= total.get(name, 0) for name, amount in need.items())
