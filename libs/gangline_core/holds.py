"""Does a placement still hold? One pure check, used where a decision is applied and where a claim is honoured."""

from gangline_core.facts import Growth, Placement, TaskPlacement
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State


def placement_fault(state: State, placement: Placement | Growth) -> str | None:
    """What is wrong with booking this now, in a few words; None when it holds."""
    job = state.job(placement.job)
    if job is None:
        return "job is gone"
    if isinstance(placement, Growth):
        if job.state not in (JobState.RUNNING, JobState.RESIZING) or job.attempt != placement.attempt:
            return f"job is {job.state}"
        taken = {(state.kept.tasks[task].role, state.kept.tasks[task].index) for task in job.tasks}
        if any((task.role, task.index) in taken for task in placement.tasks):
            return "member exists already"
    elif job.state != JobState.WAITING or placement.attempt != job.attempt + 1:
        return f"job is {job.state}"
    return room_fault(state, placement.tasks)


def room_fault(state: State, tasks: tuple[TaskPlacement, ...]) -> str | None:
    """Which node cannot hold its part of these tasks beside what it already has; None when all can."""
    by_node: dict[NodeId, list[TaskPlacement]] = {}
    for task in tasks:
        by_node.setdefault(task.node, []).append(task)
    for node_id, places in by_node.items():
        fault = _node_fault(state, node_id, places)
        if fault is not None:
            return fault
    return None


def _node_fault(state: State, node_id: NodeId, places: list[TaskPlacement]) -> str | None:
    node = state.kept.nodes.get(node_id)
    if node is None or not node.takes_work:
        return f"node {node_id} takes no work"
    use = state.use[node_id]
    if use.cpu_milli + sum(place.cpu_milli for place in places) > node.cpu_milli:
        return f"CPU of {node_id} is taken"
    if use.memory_mib + sum(place.memory_mib for place in places) > node.memory_mib:
        return f"memory of {node_id} is taken"
    for device in {device for place in places for device in place.devices}:
        wanted = sum(place.devices.get(device, 0) for place in places)
        if use.devices.get(device, 0) + wanted > node.devices.get(device, 0):
            return f"{device} of {node_id} is taken"
    gpus = {gpu.index: gpu for gpu in node.gpus}
    milli: dict[int, int] = {}
    memory: dict[int, int] = {}
    for share in (share for place in places for share in place.gpus):
        gpu = gpus.get(share.index)
        if gpu is None or not gpu.healthy:
            return f"GPU {share.index} of {node_id} is not usable"
        milli[share.index] = milli.get(share.index, 0) + share.milli
        memory[share.index] = memory.get(share.index, 0) + share.memory_mib
        if (
            use.gpu_milli[share.index] + milli[share.index] > GPU_MILLI
            or use.gpu_memory_mib[share.index] + memory[share.index] > gpu.memory_mib
        ):
            return f"GPU {share.index} of {node_id} is taken"
    return None
