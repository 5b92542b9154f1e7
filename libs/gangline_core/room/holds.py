"""Does a placement still hold? One pure check, used where a decision is applied and where a claim is honoured."""

from collections.abc import Collection, Iterable

from gangline_core.cluster import Node, model_of, tasks_most
from gangline_core.facts import Claim, Growth, Placement, TaskPlacement
from gangline_core.groups import ancestors
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import Job, JobState, Outcome, Task
from gangline_core.limits.amounts import add_all
from gangline_core.limits.quota import JOBS, Ledger
from gangline_core.limits.rungs import Capacities, group_rungs, user_rung
from gangline_core.pauses.pausing import is_gone, leaving_part
from gangline_core.reasons import sentence
from gangline_core.reserving.closures import window_fault
from gangline_core.room.capacity import places_of
from gangline_core.spec import GPU_MILLI, costs_gpu_time
from gangline_core.state import State, task_amounts


def placement_fault(state: State, placement: Placement | Growth) -> str | None:
    """What is wrong with booking this now, in a few words; None when it holds."""
    job = state.job(placement.job)
    if job is None:
        return "job is gone"
    if not placement.tasks:
        return "nothing to place"
    fault = _growth_fault(job, placement) if isinstance(placement, Growth) else _start_fault(job, placement)
    return (
        fault
        or room_fault(state, placement.tasks)
        or kept_fault(state, job, placement)
        or limit_fault(state, job, placement)
        or budget_fault(state, job, placement)
    )


def claim_fault(state: State, claim: Claim, evicted: Collection[JobId] = ()) -> str | None:
    """Why the claim's job could not start there even with the claim's victims gone; None when it could.

    Jobs `evicted` in the same decision go whole, also where they were paused before and would only stay so.
    """
    job = state.job(claim.job)
    if job is None:
        return "job is gone"
    fault = None if starts_again(job, claim) else _start_fault(job, claim.placement)
    return fault or room_fault(state, claim.placement.tasks, without=claim.victims, evicted=evicted)


def starts_again(job: Job, claim: Claim) -> bool:
    """True while the claim's job itself stops, to start again at another size."""
    again = job.state == JobState.STOPPING and job.outcome == Outcome.REQUEUED and set(job.tasks) <= set(claim.victims)
    return again and claim.placement.attempt == job.attempt + 1


def kept_fault(state: State, job: Job, placement: Placement | Growth) -> str | None:
    """The nodes are another pool's, because the job moved, or are kept for something else."""
    pool, nodes = job.spec.pool, state.kept.nodes
    for task in placement.tasks:
        if nodes[task.node].pool != pool:
            return f"job is of pool {pool} now"
    if isinstance(placement, Growth) or not state.kept.windows:
        return None
    return window_fault(state, job.spec, {task.node for task in placement.tasks})


def _start_fault(job: Job, placement: Placement) -> str | None:
    if job.state != JobState.WAITING or placement.attempt != job.attempt + 1:
        return f"job is {job.state}"
    return None


def _growth_fault(job: Job, growth: Growth) -> str | None:
    if job.state not in (JobState.RUNNING, JobState.RESIZING) or job.attempt != growth.attempt:
        return f"job is {job.state}"
    if job.winding_down:
        return "a member has ended already"
    if any(task.index < job.next_index.get(task.role, 0) for task in growth.tasks):
        return "member exists already"
    return None


def limit_fault(state: State, job: Job, placement: Placement | Growth, without: tuple[TaskId, ...] = ()) -> str | None:
    """The limit that booking this would break, because it was lowered or used up since the decision.

    `without` are own members of the job that will be gone first.
    """
    if not is_limited(state, job):
        return None
    ledger = Ledger(state)
    amounts = placed_amounts(state, placement.tasks)
    for name in without:
        ledger.give(job, task_amounts(state.kept.tasks[name]))
    if isinstance(placement, Placement) and not without:
        amounts[JOBS] = 1
    reason = ledger.fault(job, amounts)
    return sentence(reason) if reason is not None else None


def going_on_fault(state: State, job: Job, parts: Iterable[Task]) -> str | None:
    """The limit that a paused job would break if it took these parts up again now; None when there is none."""
    if not is_limited(state, job):
        return None
    amounts: dict[str, int] = {}
    for part in parts:
        add_all(amounts, task_amounts(part).items())
    reason = Ledger(state).fault(job, amounts)
    return sentence(reason) if reason is not None else None


def is_limited(state: State, job: Job) -> bool:
    """True when any limit counts the job."""
    spec, now = job.spec, state.kept.at
    return (
        bool(group_rungs(state, spec.group, now, Capacities(state)))
        or user_rung(state, group=spec.group, user=spec.user, now=now) is not None
    )


def budget_fault(state: State, job: Job, placement: Placement | Growth) -> str | None:
    """Nothing starts on a budget that was used up since the decision; what runs may grow."""
    if not state.kept.exhausted or isinstance(placement, Growth) or not costs_gpu_time(job.spec):
        return None
    spent = next((path for path in ancestors(job.spec.group) if path in state.kept.exhausted), None)
    return None if spent is None else f"the budget of {spent or 'all'} is used up"


def placed_amounts(state: State, tasks: Iterable[TaskPlacement]) -> dict[str, int]:
    """What these tasks count against quotas once they stand there, by dimension, zeros left out."""
    amounts: dict[str, int] = {}
    for task in tasks:
        milli = sum([share.milli for share in task.gpus])
        memory_mib = sum([share.memory_mib for share in task.gpus])
        held = [
            ("gpu_milli", milli),
            ("cpu_milli", task.cpu_milli),
            ("memory_mib", task.memory_mib),
            ("gpu_memory_mib", memory_mib),
        ]
        if task.devices:
            held += [(f"device:{name}", number) for name, number in task.devices.items()]
        if milli:
            held.append((f"gpu_milli:{model_of(state.kept.nodes[task.node], task.gpus[0].index)}", milli))
        add_all(amounts, held)
    return amounts


def room_fault(
    state: State,
    tasks: tuple[TaskPlacement, ...],
    without: tuple[TaskId, ...] = (),
    evicted: Collection[JobId] = (),
) -> str | None:
    """Which node cannot hold its part of these tasks beside what it has, less `without`; None when all can."""
    if len(tasks) == 1 and not without and _holds_alone(state, tasks[0]):
        return None
    by_node: dict[NodeId, list[TaskPlacement]] = {}
    for task in tasks:
        by_node.setdefault(task.node, []).append(task)
    leaving: dict[NodeId, list[Task]] = {}
    there = (state.kept.tasks[name] for name in without if name in state.kept.tasks)
    for gone in (task for task in there if task.job in evicted or not is_gone(state, task.id)):
        # Whoever was told to pause and is now evicted leaves nothing behind.
        leaving.setdefault(gone.node, []).append(
            gone if gone.job in evicted else leaving_part(state, gone, going=without)
        )
    for node_id, places in by_node.items():
        node = state.kept.nodes.get(node_id)
        if node is None or not node.takes_work:
            return f"node {node_id} takes no work"
        fault = _scalar_fault(state, node, places, leaving.get(node_id, []))
        fault = fault or _gpu_fault(state, node, places, leaving.get(node_id, []))
        if fault is not None:
            return fault
    return None


def _holds_alone(state: State, place: TaskPlacement) -> bool:
    """A cheap look at the commonest of all placements: True when it surely holds; what is wrong is told elsewhere."""
    node = state.kept.nodes.get(place.node)
    if node is None or not node.takes_work or place.devices:
        return False
    use = state.use[node.id]
    if len(use.tasks) >= tasks_most(node, state.kept.pools[node.pool].policy.node_tasks_max):
        return False
    if use.cpu_milli + place.cpu_milli > node.cpu_milli or use.memory_mib + place.memory_mib > node.memory_mib:
        return False
    if len(place.gpus) > 1 and len({share.index for share in place.gpus}) < len(place.gpus):
        return False
    for share in place.gpus:
        k = share.index
        if k >= len(node.gpus) or node.gpus[k].index != k:
            return False
        gpu = node.gpus[k]
        if not gpu.healthy or gpu.mig or share.slots or use.gpu_slots[k]:
            return False
        if use.gpu_milli[k] + share.milli > GPU_MILLI:
            return False
        if use.gpu_memory_mib[k] + share.memory_mib > gpu.memory_mib:
            return False
    return True


def _scalar_fault(state: State, node: Node, places: list[TaskPlacement], leaving: list[Task]) -> str | None:
    use = state.use[node.id]
    most = tasks_most(node, state.kept.pools[node.pool].policy.node_tasks_max)
    if len(use.tasks) + len(places) - sum(places_of(gone) for gone in leaving) > most:
        return f"{node.id} takes at most {most} tasks"
    cpu_milli = use.cpu_milli + sum(p.cpu_milli for p in places) - sum(t.cpu_milli for t in leaving)
    if cpu_milli > node.cpu_milli and any(place.cpu_milli for place in places):
        return f"CPU of {node.id} is taken"
    memory_mib = use.memory_mib + sum(p.memory_mib for p in places) - sum(t.memory_mib for t in leaving)
    if memory_mib > node.memory_mib and any(place.memory_mib for place in places):
        return f"memory of {node.id} is taken"
    for device in sorted({device for place in places for device in place.devices}):
        wanted = sum(place.devices.get(device, 0) for place in places)
        kept = use.devices.get(device, 0) - sum(task.devices.get(device, 0) for task in leaving)
        if kept + wanted > node.devices.get(device, 0):
            return f"{device} of {node.id} is taken"
    return None


def _gpu_fault(state: State, node: Node, places: list[TaskPlacement], leaving: list[Task]) -> str | None:
    use = state.use[node.id]
    gpus = {gpu.index: gpu for gpu in node.gpus}
    milli: dict[int, int] = {}
    memory: dict[int, int] = {}
    for share in (share for task in leaving for share in task.gpus):
        milli[share.index] = milli.get(share.index, 0) - share.milli
        memory[share.index] = memory.get(share.index, 0) - share.memory_mib
    slots: dict[int, int] = {}
    for share in (share for task in leaving for share in task.gpus if share.slots):
        slots[share.index] = slots.get(share.index, use.gpu_slots[share.index]) - share.slots
    for share in (share for place in places for share in place.gpus):
        gpu = gpus.get(share.index)
        if gpu is None or not gpu.healthy:
            return f"GPU {share.index} of {node.id} is not usable"
        milli[share.index] = milli.get(share.index, 0) + share.milli
        memory[share.index] = memory.get(share.index, 0) + share.memory_mib
        if (
            use.gpu_milli[share.index] + milli[share.index] > GPU_MILLI
            or use.gpu_memory_mib[share.index] + memory[share.index] > gpu.memory_mib
        ):
            return f"GPU {share.index} of {node.id} is taken"
        if bool(gpu.mig) != bool(share.slots):
            return f"GPU {share.index} of {node.id} is {'cut into' if gpu.mig else 'not cut into'} slices"
        if use.is_otherwise_cut(share.index, mig=gpu.mig):
            return f"GPU {share.index} of {node.id} is held in parts that it is no longer cut into"
        if share.slots and gpu.slices and share.slots not in {one.mask for one in gpu.slices if one.uuid}:
            return f"GPU {share.index} of {node.id} has no such slice any more"
        if share.slots:
            taken = slots.get(share.index, use.gpu_slots[share.index])
            if taken & share.slots:
                return f"slots of GPU {share.index} of {node.id} are taken"
            slots[share.index] = taken + share.slots
    return None
