"""What a task gives up when it is paused, and takes up again when it goes on.

A paused task keeps its host memory, its devices, its place on the node, and of its GPUs' memory what its job said that
stays. CPU and GPU time, and the rest of that memory, are free for others while it is paused. A slice cut by MIG is kept
whole: nobody else could use a part of it.
"""

from collections.abc import Collection

from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare, Job, JobState, Task, TaskState, Working
from gangline_core.room.capacity import PART_RANK
from gangline_core.sizes.resizing import is_active
from gangline_core.spec import GPU_MILLI, JobSpec, may_pause
from gangline_core.state import State


def paused(task: Task, spec: JobSpec, at: int) -> Task:
    """The task from the moment on at which its processes stand still."""
    working = Working(cpu_milli=task.cpu_milli, gpus=task.gpus)
    stays = tuple(_stays(share, spec) for share in task.gpus)
    return replace(counted(task, at), cpu_milli=0, gpus=stays, working=working)


def going_on(task: Task, at: int) -> Task:
    """The task from the moment on at which it works again."""
    if task.working is None:
        return replace(task, pause=False)
    back = replace(counted(task, at), pause=False, working=None, paused_ms=task.paused_ms + at - task.span_ms)
    return replace(back, cpu_milli=task.working.cpu_milli, gpus=task.working.gpus)


def given_up(task: Task, spec: JobSpec) -> Task:
    """What pausing the task gives back, as if that were a task."""
    gpus = tuple(_less(share, _stays(share, spec)) for share in task.gpus)
    return replace(task, rank=PART_RANK, gpus=gpus, memory_mib=0, devices={})


def taken_up(task: Task) -> Task:
    """What a paused task takes more when it goes on, as if that were a task."""
    if task.working is None:
        return replace(task, rank=PART_RANK, cpu_milli=0, gpus=(), memory_mib=0, devices={})
    gpus = tuple(_less(share, kept) for share, kept in zip(task.working.gpus, task.gpus, strict=True))
    return replace(task, rank=PART_RANK, cpu_milli=task.working.cpu_milli, gpus=gpus, memory_mib=0, devices={})


def leaving_part(state: State, task: Task, *, going: Collection[TaskId] | None = ()) -> Task:
    """What comes back from a task that was told to go: all of it, or what pausing gives back.

    The part of the GPUs of one that is packed with others goes to these, unless all of them go, too: told already, or
    among those `going`; with None it goes in any case.
    """
    job = state.kept.jobs.get(task.job)
    if job is None:
        return task
    part = task if task.stop or not task.pause or task.working is not None else given_up(task, job.spec)
    others = companions(state, job.id) if state.kept.packs else ()
    if not others or going is None:
        return part
    cards = {share.index for share in task.gpus}
    there = (one for other in others for one in state.tasks_of(state.kept.jobs[other]) if one.node == task.node)
    theirs = (one for one in there if any(share.index in cards for share in one.gpus))
    if all(one.stop or one.pause or one.id in going for one in theirs):
        return part
    return replace(part, gpus=tuple(replace(share, milli=0) for share in part.gpus))


def companions(state: State, job: JobId) -> tuple[JobId, ...]:
    """The others of a pack (see `packing`), its host first, then by id; nobody for a job that has its GPUs alone."""
    own = state.kept.packs.get(job)
    host = job if own is None else own.host
    guests = sorted(guest for guest, pack in state.kept.packs.items() if pack.host == host)
    return tuple(one for one in (host, *guests) if one != job) if guests else ()


def is_gone(state: State, name: TaskId) -> bool:
    """True when a task that was told to go gave back what it had to."""
    task = state.kept.tasks.get(name)
    return task is None or (task.working is not None and not task.stop)


def can_be_paused(state: State, job: Job) -> bool:
    """True when the job works, may be paused, and stands where that is possible: beside an agent."""
    if job.state != JobState.RUNNING or job.winding_down or is_active(job) or not may_pause(job.spec):
        return False
    tasks = state.tasks_of(job)
    nodes = (state.kept.nodes.get(task.node) for task in tasks)
    works = all(task.state == TaskState.STARTED and not task.stop and not task.pause for task in tasks)
    return works and all(node is not None and not node.is_watched for node in nodes)


def stood_ms(state: State, job: Job, now: int) -> int:
    """How long the present attempt has stood still so far: that is no part of its run time, nor of its time limit."""
    if job.pause is None and not job.resumed_ms:
        return 0
    stood = (task.paused_ms + (now - task.span_ms if task.working is not None else 0) for task in state.tasks_of(job))
    return max(stood, default=0)


def slice_ends_ms(job: Job, policy: Policy) -> int:
    """From when on the job has had its time slice, and others may have theirs."""
    return (job.resumed_ms or job.started_ms) + policy.time_slice_s * 1000


def resume_fault(state: State, job: Job) -> str | None:
    """Why a paused job can not go on where it is, in a few words; None when it can."""
    cpu: dict[NodeId, int] = {}
    milli: dict[tuple[NodeId, int], int] = {}
    memory: dict[tuple[NodeId, int], int] = {}
    for task in state.tasks_of(job):
        part = taken_up(task)
        cpu[part.node] = cpu.get(part.node, 0) + part.cpu_milli
        for share in part.gpus:
            key = (part.node, share.index)
            milli[key] = milli.get(key, 0) + share.milli
            memory[key] = memory.get(key, 0) + share.memory_mib
    for node_id, wanted in cpu.items():
        node = state.kept.nodes.get(node_id)
        if node is None or node.lost:
            return f"node {node_id} is lost"
        if wanted and state.use[node_id].cpu_milli + wanted > node.cpu_milli:
            return f"CPU of {node_id} is taken"
    for (node_id, index), wanted in milli.items():
        use, node = state.use[node_id], state.kept.nodes[node_id]
        gpu = next((gpu for gpu in node.gpus if gpu.index == index), None)
        if gpu is None or not gpu.healthy:
            return f"GPU {index} of {node_id} is not usable"
        is_full = use.gpu_milli[index] + wanted > GPU_MILLI
        if is_full or use.gpu_memory_mib[index] + memory[node_id, index] > gpu.memory_mib:
            return f"GPU {index} of {node_id} is taken"
    return None


def counted(task: Task, at: int) -> Task:
    """The task with what it used so far written down; a new span begins."""
    return replace(task, used=task.used_until(at), served=task.served_until(at), span_ms=at)


def _stays(share: GpuShare, spec: JobSpec) -> GpuShare:
    stays_mib = spec.pausing.gpu_memory_mib if spec.pausing is not None else 0
    if share.slots:
        return share
    return replace(share, milli=0, memory_mib=min(stays_mib, share.memory_mib))


def _less(share: GpuShare, kept: GpuShare) -> GpuShare:
    return GpuShare(index=share.index, milli=share.milli - kept.milli, memory_mib=share.memory_mib - kept.memory_mib)
