"""What must be true of every state, whatever happened before: one function per promise, in one table.

Each gives the sentences that say what is wrong; none means the promise holds. They read a state and nothing else, so
any test may hold any state to them. What needs the way there as well is in `history`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from gangline_core.cluster import NodeUse
from gangline_core.ids import JobId, NodeId
from gangline_core.job import ENDS, LIVE, Job, JobState, TaskState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.room.capacity import Holding
from gangline_core.room.holds import starts_again
from gangline_core.room.mig import GEOMETRIES
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State, decode_snapshot, encode_snapshot

Invariant = Callable[[State], Iterator[str]]
REPAIR_SLACK_MS = 60_000
"""How long after its time for repair a gang may still be short, until a round has ended it."""


def capacity_is_never_exceeded(state: State) -> Iterator[str]:
    """0 <= taken <= there is, of every GPU, memory, CPU and device, in whole numbers."""
    for node_id, node in state.kept.nodes.items():
        use = state.use[node_id]
        for gpu in node.gpus:
            if not 0 <= use.gpu_milli[gpu.index] <= GPU_MILLI:
                yield f"GPU {gpu.index} of {node_id} carries {use.gpu_milli[gpu.index]} thousandths"
            if not 0 <= use.gpu_memory_mib[gpu.index] <= gpu.memory_mib:
                yield f"GPU {gpu.index} of {node_id} gave away {use.gpu_memory_mib[gpu.index]} MiB of {gpu.memory_mib}"
        if not 0 <= use.cpu_milli <= node.cpu_milli:
            yield f"{node_id} gave away {use.cpu_milli} of {node.cpu_milli} CPU thousandths"
        if not 0 <= use.memory_mib <= node.memory_mib:
            yield f"{node_id} gave away {use.memory_mib} MiB of {node.memory_mib}"
        for device, taken in use.devices.items():
            if not 0 <= taken <= node.devices.get(device, 0):
                yield f"{node_id} gave away {taken} {device} of {node.devices.get(device, 0)}"


def use_is_the_sum_of_tasks(state: State) -> Iterator[str]:
    """What a node is said to carry is what its tasks hold, counted anew."""
    counted: dict[str, NodeUse] = {}
    for task in state.kept.tasks.values():
        counted.setdefault(task.node, NodeUse(0)).add(task, 1)
    for node_id, use in state.use.items():
        found = counted.get(node_id) or NodeUse(0)
        if _figures(found) != _figures(use):
            yield f"{node_id} is said to carry {_figures(use)}, its tasks hold {_figures(found)}"


def _figures(use: NodeUse) -> tuple[object, ...]:
    gpus = {index: (milli, use.gpu_memory_mib[index]) for index, milli in enumerate(use.gpu_milli) if milli}
    return use.cpu_milli, use.memory_mib, gpus, {name: n for name, n in use.devices.items() if n}, sorted(use.tasks)


def usage_is_what_lives(state: State) -> Iterator[str]:
    """What a group is said to use is what its tasks hold, counted anew; never negative."""
    kept = {holder: use for holder, use in state.usage.items() if use}
    counted = recompute(state)
    for holder in sorted({*kept, *counted}):
        if kept.get(holder) != counted.get(holder):
            yield f"{holder or 'the root'} is said to use {kept.get(holder)}, its tasks hold {counted.get(holder)}"
        if any(amount < 0 for amount in kept.get(holder, {}).values()):
            yield f"{holder} uses less than nothing: {kept[holder]}"


def gangs_are_whole(state: State) -> Iterator[str]:
    """A job holds nothing, or at least its minimum of every role, except while it stops."""
    for job in state.kept.jobs.values():
        if job.state not in LIVE:
            if job.tasks:
                yield f"job {job.id} is {job.state} and holds {', '.join(job.tasks)}"
            continue
        tasks = [state.kept.tasks[name] for name in job.tasks if name in state.kept.tasks]
        if len(tasks) < len(job.tasks):
            yield f"job {job.id} counts on tasks that are not there"
        if job.state != JobState.STOPPING:
            is_in_repair = state.kept.at <= job.missing_ms + job.spec.repair_s * 1000 + REPAIR_SLACK_MS
            yield from _missing_members(job, job.missing if is_in_repair else {})


def _missing_members(job: Job, awaited: Mapping[str, int]) -> Iterator[str]:
    """Members that ended well still count, and for a while lost ones that are replaced; others are `history`'s."""
    for role in job.spec.roles:
        there = job.sizes.get(role.name, 0) + awaited.get(role.name, 0)
        if there < role.min_count:
            yield f"job {job.id} is {job.state} with {there} of at least {role.min_count} {role.name}"


def tasks_belong_to_live_jobs(state: State) -> Iterator[str]:
    """Whoever holds room belongs to a job that lives, or was lost with its node."""
    for task in state.kept.tasks.values():
        job = state.kept.jobs.get(task.job)
        if task.state != TaskState.LOST and (job is None or task.id not in job.tasks):
            yield f"task {task.id} holds room on {task.node} for nobody"


def victims_wait_for_somebody(state: State) -> Iterator[str]:
    """Who waits for victims has its room kept, and whose room is kept waits."""
    for job in state.kept.jobs.values():
        code = job.reason.code if job.state == JobState.WAITING and job.reason is not None else None
        if code == ReasonCode.WAITING_FOR_VICTIMS and job.id not in state.kept.claims:
            yield f"job {job.id} is told to wait for victims, but nothing is kept for it"
    for claim, kept in state.kept.claims.items():
        known = state.kept.jobs.get(claim)
        if known is not None and starts_again(known, kept):
            continue  # A gang that starts again at another size waits for its own members to stop.
        if known is None or known.state != JobState.WAITING:
            yield f"room is kept for job {claim}, which is {known.state if known else 'gone'}"


def promised_room_is_there(state: State) -> Iterator[str]:
    """What is kept for claims fits beside everybody who stays: no room is promised twice, no victim counts twice."""
    claims = state.kept.claims.values()
    if not claims:
        return
    going = {name for claim in claims for name in claim.victims}
    promised: Counter[tuple[NodeId, str]] = Counter()
    for claim in claims:
        for place in claim.placement.tasks:
            if _is_in_its_pool(state, claim.job, place.node):
                promised.update(_held(place))
    for task in state.kept.tasks.values():
        if not task.stop and task.id not in going:
            promised.update(_held(task))
    for node_id in sorted({place.node for claim in claims for place in claim.placement.tasks}):
        node = state.kept.nodes.get(node_id)
        if node is None:
            continue
        there_is = {"CPU thousandths": node.cpu_milli, "MiB": node.memory_mib}
        there_is |= {f"thousandths of GPU {gpu.index}": GPU_MILLI for gpu in node.gpus}
        there_is |= {f"MiB of GPU {gpu.index}": gpu.memory_mib for gpu in node.gpus}
        for what, most in there_is.items():
            if promised[node_id, what] > most:
                yield f"{promised[node_id, what]} {what} of {most} are promised on {node_id}"


def _is_in_its_pool(state: State, job_id: JobId, node_id: NodeId) -> bool:
    """False for room on a node that serves another pool by now: the job will not get it, and its next round says so."""
    job, node = state.kept.jobs.get(job_id), state.kept.nodes.get(node_id)
    return job is None or node is None or node.pool == job.spec.pool


def _held(holding: Holding) -> dict[tuple[NodeId, str], int]:
    """What somebody holds or is promised, by node and kind."""
    amounts = {"CPU thousandths": holding.cpu_milli, "MiB": holding.memory_mib}
    for share in holding.gpus:
        amounts[f"thousandths of GPU {share.index}"] = share.milli
        amounts[f"MiB of GPU {share.index}"] = share.memory_mib
    return {(holding.node, what): amount for what, amount in amounts.items()}


def reasons_are_readable(state: State) -> Iterator[str]:
    """Whoever does not run has a reason that can be read aloud, all numbers filled in; who ended has one, too."""
    for job in state.kept.jobs.values():
        if job.reason is None:
            if job.state in (*ENDS, JobState.HELD, JobState.SUSPENDED):
                yield f"job {job.id} is {job.state} for no reason"
        elif "?" in sentence(job.reason):
            yield f"job {job.id}: {sentence(job.reason)}"


def charges_are_booked_once(state: State) -> Iterator[str]:
    """Nothing that still lives is charged already, and what was charged is not negative."""
    for task in state.kept.uncharged:
        if task in state.kept.tasks:
            yield f"task {task} is to be charged and still holds room"
    for holder, amount in state.kept.charged.items():
        if amount < 0:
            yield f"{holder} was charged {amount}"


def slices_are_whole_and_nobody_elses(state: State) -> Iterator[str]:
    """On a card that is cut each task has one slice as the card's maker cuts them, and no slot belongs to two."""
    taken: Counter[tuple[NodeId, int]] = Counter()
    for task in state.kept.tasks.values():
        node = state.kept.nodes.get(task.node)
        cards = {} if node is None else {gpu.index: gpu.mig for gpu in node.gpus}
        for share in task.gpus:
            name = cards.get(share.index)
            if name is None:
                continue
            masks = {mask for profile in GEOMETRIES[name].profiles.values() for mask in profile.masks} if name else {0}
            if share.slots not in masks:
                yield f"task {task.id} has slots {share.slots:b} of GPU {share.index} of {task.node} ({name})"
            if taken[task.node, share.index] & share.slots:
                yield f"task {task.id} has slots of GPU {share.index} of {task.node} that are another's"
            taken[task.node, share.index] |= share.slots


INVARIANTS: dict[str, Invariant] = {
    "capacity is never exceeded": capacity_is_never_exceeded,
    "slices are whole and nobody else's": slices_are_whole_and_nobody_elses,
    "use is the sum of tasks": use_is_the_sum_of_tasks,
    "usage is what lives": usage_is_what_lives,
    "gangs are whole": gangs_are_whole,
    "tasks belong to live jobs": tasks_belong_to_live_jobs,
    "victims wait for somebody": victims_wait_for_somebody,
    "promised room is there": promised_room_is_there,
    "reasons are readable": reasons_are_readable,
    "charges are booked once": charges_are_booked_once,
}
"""Promise -> who looks after it. They are looked at after every message of every simulated run."""


def faults_of(state: State) -> Iterator[str]:
    """Everything wrong with a state, each with the promise it breaks."""
    for promise, invariant in INVARIANTS.items():
        for fault in invariant(state):
            yield f"{promise}: {fault}"


NUMBERED = frozenset({"kept", "shapes", "asks", "use", "columns", "gate_memos", "held"})
"""What is no index, numbered as things came, or remembered of looks: only its keys are compared, if anything."""


def indexes_follow_from_what_is_kept(state: State) -> Iterator[str]:
    """Whatever is derived is what a restart would derive. As dear as a snapshot, so looked at now and then."""
    again = decode_snapshot(encode_snapshot(state))
    for name, index in vars(state).items():
        if name in NUMBERED or name.startswith("_") or not isinstance(index, dict):
            continue
        ours, theirs = _plain(index), _plain(getattr(again, name))
        if ours != theirs:
            yield f"index {name} is {ours}, after a restart it is {theirs}"
    if set(state.shapes) != set(again.shapes):
        yield "the shapes of waiting jobs differ after a restart"


def _plain(index: object) -> object:
    """An index without what is empty in it."""
    if isinstance(index, dict):
        found = {key: _plain(value) for key, value in index.items()}
        return {key: value for key, value in found.items() if value != {}}
    return index
