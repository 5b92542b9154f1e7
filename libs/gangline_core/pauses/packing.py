"""Packing: two jobs that take turns on the same GPUs work there at once, where both get further so than by turns.

Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018: jobs that leave their GPU idle
for much of the time are packed onto one, and unpacked when that did not pay. Here a paused job that wants to go on does
so beside the one that works on its GPUs, each with half of them: if the pool's policy says `packing`, both are one task
with whole GPUs and say how much memory they use (`gpu_memory_most`), both told what a step takes them alone, and their
GPUs were busy for no more than one of them could be. Introspection: what each then gets done, measured by its own
reports in percent of what it does alone, must add up to more than the hundred that turns give. Else whoever came makes
way again, and those two are not packed any more.
"""

from msgspec.structs import replace

from gangline_core.door.arrays import label
from gangline_core.ids import JobId
from gangline_core.job import GpuShare, Job, JobState, Task, TaskState
from gangline_core.kept import Pack
from gangline_core.pauses.pausing import can_be_paused, companions, taken_up
from gangline_core.room.company import slower_percent
from gangline_core.sizes.resizing import is_active
from gangline_core.spec import GPU_MILLI, is_elastic
from gangline_core.state import State

HALF = GPU_MILLI // 2
BUSY_MOST = 100
"""Percent for which the GPUs of both together were busy at most, before they were packed."""
TURNS = 100
"""Percent of their speed alone that two jobs have together by turns."""
RULE = "packing"


def host_for(state: State, job: Job) -> Job | None:
    """The job beside which a paused one may go on; None when there is none."""
    task = _only_task(state, job)
    if task is None or task.working is None or not _suits(state, job):
        return None
    there = {name for name in state.node_tasks.get(task.node, {}) if _works_on(state.kept.tasks[name], task)}
    if len(there) != 1:
        return None
    host = state.kept.jobs[state.kept.tasks[there.pop()].job]
    return host if pack_fault(state, job, host) is None else None


def pack_fault(state: State, job: Job, host: Job) -> str | None:
    """Why a paused job cannot go on beside this one, in a few words; None when it can."""
    mine, theirs = _only_task(state, job), _only_task(state, host)
    if job.state != JobState.PAUSED or mine is None or mine.working is None:
        return f"job {job.id} is not paused"
    if theirs is None or not _is_at_work(host, theirs) or not _suits(state, host):
        return f"job {host.id} does not work alone"
    if _cards(mine.working.gpus) != _cards(theirs.gpus) or mine.node != theirs.node:
        return "they have other GPUs"
    if host.id in state.kept.unpacked.get(job.id, ()) or job.id in state.kept.unpacked.get(host.id, ()):
        return "they were packed before"
    if is_packed(state, host.id) or any(share.milli != GPU_MILLI for share in theirs.gpus):
        return f"job {host.id} is packed with another"
    busy = [use.gpu_percent for one in (job, host) if (use := state.kept.job_use.get(one.id)) is not None]
    if len(busy) < 2 or min(busy) < 0 or sum(busy) > BUSY_MOST:
        return "their GPUs are too busy, or nobody knows"
    return _room_fault(state, mine)


def is_packed(state: State, job: JobId) -> bool:
    """True for all jobs of a pack."""
    return bool(companions(state, job))


def guests_of(state: State, job: JobId) -> tuple[Job, ...]:
    """Who works beside this job and goes whenever it has to: what one of a pack leaves is the others'."""
    if not state.kept.packs or job in state.kept.packs:
        return ()
    return tuple(state.kept.jobs[other] for other in companions(state, job))


def can_all_be_paused(state: State, job: Job) -> bool:
    """True when the job can be paused, and so can whoever works beside it and makes way with it."""
    return all(can_be_paused(state, one) for one in (job, *guests_of(state, job.id)))


def packed_note(state: State, job: Job) -> str | None:
    """With whom a job shares its GPUs, and how they get on, for their owners; None for a job that has its own."""
    others = companions(state, job.id) if state.kept.packs else ()
    if not others:
        return None
    packs, first = state.kept.packs, label(state, others[0])
    if job.id in packs and packs[job.id].is_guest:
        return f"It is a guest on the GPUs of job {first}, in the time that this one leaves until it ends."
    if any(packs[other].is_guest for other in others if other in packs):
        return f"Job {first} is a guest on its GPUs, in the time that it leaves."
    names = " and ".join(label(state, other) for other in others)
    part = "half" if len(others) == 1 else f"one of {1 + len(others)} parts"
    known = ((guest, pack) for guest, pack in state.kept.packs.items() if guest in (job.id, *others))
    together = joint_percent(state, *next(known)) if len(others) == 1 else None
    how = "they have not told how they get on" if together is None else f"together {together} % of one of them alone"
    return f"It works beside job{'s' * (len(others) > 1)} {names} on the same GPUs, each with {part} of them: {how}."


def halved(task: Task) -> Task:
    """The task with half of the time of its GPUs."""
    return with_part(task, HALF)


def made_whole(task: Task) -> Task:
    """The task with all of the time of its GPUs, now or when it goes on."""
    return with_part(task, GPU_MILLI)


def with_part(task: Task, milli: int) -> Task:
    """The task with so many thousandths of the time of each of its GPUs, now or when it goes on."""
    if task.working is not None:
        gpus = tuple(replace(share, milli=milli) for share in task.working.gpus)
        return replace(task, working=replace(task.working, gpus=gpus))
    return replace(task, gpus=tuple(replace(share, milli=milli) for share in task.gpus))


def that_do_not_pay(state: State, pool: str) -> list[tuple[JobId, JobId]]:
    """Packs of the pool that are to end: who came, and beside whom; by id."""
    found = []
    for guest, pack in sorted(state.kept.packs.items()):
        jobs = [state.kept.jobs[guest], state.kept.jobs[pack.host]]
        if not pack.by_rule and jobs[0].spec.pool == pool and all(job.state == JobState.RUNNING for job in jobs):
            together = joint_percent(state, guest, pack)
            if together is not None and together <= TURNS:
                found.append((guest, pack.host))
    return found


def joint_percent(state: State, guest: JobId, pack: Pack) -> int | None:
    """What both get done, in percent of what they do alone; None until both told of steps since they were packed."""
    total = 0
    for name in (guest, pack.host):
        slower = slower_percent(state, state.kept.jobs[name])
        if slower is None or state.kept.reported.get(name, 0) <= pack.since_ms:
            return None
        total += 100 * 100 // max(1, slower)
    return total


def _only_task(state: State, job: Job) -> Task | None:
    tasks = state.tasks_of(job)
    return tasks[0] if len(tasks) == 1 else None


def _suits(state: State, job: Job) -> bool:
    """An ordinary job of one task with whole GPUs and a bound of its memory, which told what a step takes it alone."""
    roles = job.spec.roles
    if len(roles) != 1 or is_elastic(job.spec) or is_active(job) or job.winding_down:
        return False
    needs = roles[0].resources
    return needs.whole_gpus > 0 and needs.gpu_memory_most_mib > 0 and bool(state.kept.alone.get(job.id))


def _is_at_work(job: Job, task: Task) -> bool:
    works = task.state == TaskState.STARTED and not task.stop and not task.pause
    return job.state == JobState.RUNNING and works


def _works_on(other: Task, task: Task) -> bool:
    """True for another task with time of GPUs that the paused one left."""
    wanted = _cards(task.working.gpus) if task.working is not None else set()
    return other.id != task.id and any(share.milli and share.index in wanted for share in other.gpus)


def _cards(gpus: tuple[GpuShare, ...]) -> set[int]:
    return {share.index for share in gpus}


def _room_fault(state: State, task: Task) -> str | None:
    """What is missing of CPU and GPU memory for the paused task."""
    part, use, node = taken_up(task), state.use[task.node], state.kept.nodes[task.node]
    if part.cpu_milli and use.cpu_milli + part.cpu_milli > node.cpu_milli:
        return f"CPU of {node.id} is taken"
    memory = {gpu.index: gpu.memory_mib for gpu in node.gpus if gpu.healthy and not gpu.mig}
    for share in part.gpus:
        if use.gpu_memory_mib[share.index] + share.memory_mib > memory.get(share.index, 0):
            return f"memory of GPU {share.index} of {node.id} is taken"
    return None
