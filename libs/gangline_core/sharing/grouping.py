"""Companies of jobs that interleave their stages, as leases: who shares GPUs with whom until the next lease ends."""

from collections.abc import Sequence

from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, TaskState
from gangline_core.kept import PoolState
from gangline_core.sharing.beside import COMPANY_MAX, INTERLEAVED, can_share, shape_of
from gangline_core.sharing.interleaving import Sharer, companies
from gangline_core.sharing.stages import stages_of
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.state import State

Company = tuple[JobId, ...]


def grouped(state: State, pool: PoolState, order: Sequence[JobId], renewable: Sequence[Job]) -> tuple[Company, ...]:
    """Companies of jobs in this order, those of one job included: to them room is lent."""
    gpus, card_mib = _to_lend(state, pool, renewable)
    sharers = [_sharer(state, state.kept.jobs[name]) for name in order]
    wanting = [one for one in sharers if one.gpus]
    return tuple(companies(wanting, gpus=gpus, card_mib=card_mib, most=COMPANY_MAX))


def may_regroup(state: State, pool: PoolState) -> bool:
    """True when a new lease may part companies although nobody waits."""
    return pool.policy.sharing == INTERLEAVED and bool(state.kept.packs)


def _sharer(state: State, job: Job) -> Sharer:
    shares = can_share(job)
    return Sharer(
        job=job.id,
        gpus=-(-gpu_milli_wanted(job.spec) // GPU_MILLI),
        shape=shape_of(job.spec) if shares else job.id,
        stages=stages_of(job.spec) if shares else None,
        memory_mib=job.spec.roles[0].resources.gpu_memory_most_mib,
        place=host_of(state, job.id) if job.tasks else 0,
    )


def _to_lend(state: State, pool: PoolState, renewable: Sequence[Job]) -> tuple[int, int]:
    """GPUs that are free or lent, and the memory of the smallest of them in MiB."""
    lent = {task.id for job in renewable for task in state.tasks_of(job)}
    taken: set[tuple[NodeId, int]] = set()
    for task in state.kept.tasks.values():
        if task.id not in lent and task.state != TaskState.LOST:
            taken.update((task.node, share.index) for share in task.gpus)
    memory = [
        gpu.memory_mib
        for node in state.kept.nodes.values()
        if node.pool == pool.pool.name and node.takes_work
        for gpu in node.gpus
        if gpu.healthy and not gpu.mig and (node.id, gpu.index) not in taken
    ]
    return len(memory), min(memory, default=0)


def host_of(state: State, job: JobId) -> JobId:
    """The first of those with whom the job shares its GPUs; itself where it has them alone."""
    own = state.kept.packs.get(job)
    return job if own is None else own.host


def planned(pool: PoolState) -> list[Company]:
    """The companies to which room is lent at present, by priority, those of one job included."""
    first = {company[0]: company for company in pool.companies}
    others = {job for company in pool.companies for job in company[1:]}
    return [first.get(lease.job, (lease.job,)) for lease in pool.leases if lease.job not in others]
