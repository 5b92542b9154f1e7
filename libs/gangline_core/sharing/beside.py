"""A job that starts on the very GPUs of others, each with an equal part of them: who can, and what its places are."""

from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from gangline_core.facts import Placement, TaskPlacement
from gangline_core.job import GpuShare, Job, JobState, Task, TaskState
from gangline_core.pauses.pausing import companions
from gangline_core.room.capacity import Room
from gangline_core.sharing.stages import SLOTS
from gangline_core.sizes.resizing import is_active
from gangline_core.spec import JobSpec, ServiceClass, is_elastic, selector_of, tolerations_of
from gangline_core.state import State

COMPANY_MAX = SLOTS
"""Most jobs on the same GPUs."""
INTERLEAVED, PAIRS, GUESTS = "interleaved", "pairs", "guests"
"""Names of sharing rules (see `rules`)."""
BY_USE = frozenset({PAIRS, GUESTS})
"""Those that ask how busy jobs were seen to be."""
MOST = {INTERLEAVED: COMPANY_MAX, PAIRS: 2, GUESTS: 2}
"""Name of a rule -> most jobs on the same GPUs by it."""
_AT_WORK = frozenset({JobState.STARTING, JobState.RUNNING})


def can_share(job: Job) -> bool:
    """A job of one size and one role, of whole GPUs with a bound of their memory, whose members end together."""
    spec = job.spec
    if len(spec.roles) != 1 or is_elastic(spec) or is_active(job) or spec.repair_s or spec.pinned_cell:
        return False
    role = spec.roles[0]
    return role.resources.whole_gpus > 0 and role.resources.gpu_memory_most_mib > 0 and not role.serves


def shape_of(spec: JobSpec) -> Hashable:
    """Equal for jobs of one role that can stand in the same places."""
    role = spec.roles[0]
    needs = role.resources
    gpus = (needs.gpu_milli, needs.gpu_memory_mib, needs.gpu_models, needs.exclude_models, needs.near_nic)
    where = (tuple(sorted(selector_of(spec, role).items())), tolerations_of(spec, role), spec.exclude_nodes)
    return (role.count, gpus, where, spec.topology, spec.same_model)


def beside_fault(state: State, placement: Placement) -> str | None:
    """Why a job cannot start beside another one as was decided, in a few words; None when it can."""
    host, job = state.job(placement.beside), state.job(placement.job)
    rule = state.pool_of(job).policy.sharing if job is not None else ""
    most = MOST.get(rule, 0)
    if host is None or job is None or not most:
        return "nobody is there to share with"
    if host.spec.pool != job.spec.pool or not is_at_work(state, host):
        return f"job {host.id} does not work"
    if not can_share(host) or not can_share(job) or len(companions(state, host.id)) + 1 >= most:
        return f"job {host.id} shares its GPUs with nobody else"
    if [_place(task) for task in state.tasks_of(host)] != [_place(task) for task in placement.tasks]:
        return f"job {host.id} has other GPUs"
    if rule == GUESTS and is_opportunistic(job) == is_opportunistic(host):
        return f"neither of job {host.id} and job {job.id} is the other's guest"
    return None


def is_opportunistic(job: Job) -> bool:
    """True for a job that may be somebody's guest, and is never anybody's host for long."""
    return job.service_class == ServiceClass.OPPORTUNISTIC


def is_at_work(state: State, job: Job) -> bool:
    """True while all members of the job hold their GPUs and none was told to go or to stand still."""
    tasks = state.tasks_of(job)
    here = all(
        task.state in (TaskState.PLACED, TaskState.STARTED)
        and not task.stop
        and not task.pause
        and task.working is None
        for task in tasks
    )
    return job.state in _AT_WORK and not job.outcome and bool(tasks) and here


def places_beside(job: Job, places: Sequence[Task | TaskPlacement], *, milli: int) -> tuple[TaskPlacement, ...]:
    """The same GPUs for this job, with so many thousandths of the time of each."""
    role = job.spec.roles[0]
    needs = role.resources
    memory_mib = needs.gpu_memory_most_mib
    return tuple(
        TaskPlacement(
            role=role.name,
            index=index,
            node=place.node,
            gpus=tuple(GpuShare(index=share.index, milli=milli, memory_mib=memory_mib) for share in place.gpus),
            cpu_milli=needs.cpu_milli,
            memory_mib=needs.memory_mib,
            devices=needs.devices,
        )
        for index, place in enumerate(places)
    )


def without_time(tasks: Sequence[TaskPlacement]) -> list[TaskPlacement]:
    """What these take beside the time of GPUs, which others give up for them."""
    return [replace(task, gpus=tuple(replace(share, milli=0) for share in task.gpus)) for task in tasks]


def fits_beside(room: Room, tasks: Sequence[TaskPlacement]) -> bool:
    """True when CPU, memory, devices and memory of GPUs are free for these; the room is left as it was."""
    parts = without_time(tasks)
    for part in parts:
        room.take(part)
    enough = all(_is_whole(room, part) for part in parts)
    for part in parts:
        room.give(part)
    return enough


def _is_whole(room: Room, part: TaskPlacement) -> bool:
    row = room.layout.row.get(part.node)
    if row is None or room.places[row] < 0:
        return False
    if (part.cpu_milli and room.cpu[row] < 0) or (part.memory_mib and room.memory[row] < 0):
        return False
    if any(name not in room.devices or room.devices[name][row] < 0 for name in part.devices):
        return False
    return all(room.gpu_memory[row, share.index] >= 0 for share in part.gpus)


def _place(task: Task | TaskPlacement) -> tuple[str, tuple[int, ...]]:
    return task.node, tuple(share.index for share in task.gpus)
