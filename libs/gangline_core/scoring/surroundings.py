"""How busy is what a job could use, and how much would its neighbours disturb it?"""

from collections.abc import Iterable, Iterator, Mapping

from gangline_core.cluster import LOAD_STALE_MS
from gangline_core.ids import NodeId
from gangline_core.job import Job
from gangline_core.scoring import columns as c
from gangline_core.scoring.waiting import Column, Waiting
from gangline_core.spec import GPU_MILLI, JobSpec
from gangline_core.state import State

INTERFERENCE = "interference"
"""The job attribute by which its owner or a profiler says how much it disturbs others; a number, 0 when absent."""


def load_of_models(waiting: Waiting) -> Column:
    """Per job the mean load (0 to 1) of the GPUs of the models it accepts: as measured lately, or else as asked for."""
    return _per_models(waiting, ((model, load) for model, load, _ in _loads(waiting)))


def measured_of_models(waiting: Waiting) -> Column:
    """Per job the part (0 to 1) of the GPUs of the models it accepts whose load somebody measured lately."""
    return _per_models(waiting, ((model, float(is_measured)) for model, _, is_measured in _loads(waiting)))


def _per_models(waiting: Waiting, gpus: Iterable[tuple[str, float]]) -> Column:
    """Per job the mean of the values of the GPUs whose models it accepts."""
    sums: dict[str, tuple[float, int]] = {}
    for model, value in gpus:
        total, number = sums.get(model, (0.0, 0))
        sums[model] = (total + value, number + 1)
    return waiting.per(c.ASK, lambda job: _mean(sums, _models(job.spec)))


def unmeasured(waiting: Waiting) -> tuple[int, int]:
    """GPUs of the pool whose load is only known by what was asked for, and all of them."""
    measured = [is_measured for _, _, is_measured in _loads(waiting)]
    return measured.count(False), len(measured)


def _loads(waiting: Waiting) -> Iterator[tuple[str, float, bool]]:
    """Model, load and whether it was measured, of each healthy GPU of the pool; what nobody measured is never idle
    because of that: it is as busy as what its tasks asked for."""
    state = waiting.state
    for node in state.nodes_of(waiting.pool.pool.name):
        load = state.kept.loads.get(node.id)
        is_measured = load is not None and load.gpu_mean >= 0 and waiting.now - load.at <= LOAD_STALE_MS
        booked = state.use[node.id].gpu_milli
        for gpu in node.gpus:
            if is_measured and load is not None:
                yield gpu.model.lower(), load.gpu_mean / 100, True
            elif gpu.healthy:
                yield gpu.model.lower(), min(GPU_MILLI, booked[gpu.index]) / GPU_MILLI, False


def interference_beside(waiting: Waiting) -> Column:
    """Per job the mean interference of live jobs on nodes that have free GPUs of a model it accepts, by their GPUs."""
    state, pool = waiting.state, waiting.pool.pool.name
    sums: dict[str, tuple[float, int]] = {}
    room = state.room(pool)
    for node in room.nodes:
        row = room.layout.row[node.id]
        free = {gpu.model.lower() for gpu in node.gpus if room.milli[row][gpu.index] > 0}
        if not free:
            continue
        disturbed, milli = _on_node(state, node.id)
        for model in free:
            total, number = sums.get(model, (0.0, 0))
            sums[model] = (total + disturbed, number + milli)
    return waiting.per(c.ASK, lambda job: _mean(sums, _models(job.spec)))


def _on_node(state: State, node: NodeId) -> tuple[float, int]:
    """Interference times GPU thousandths, and GPU thousandths, of the tasks on a node."""
    disturbed, milli = 0.0, 0
    for name in sorted(state.node_tasks.get(node, {})):
        task = state.kept.tasks[name]
        job: Job | None = state.kept.jobs.get(task.job)
        said = job.spec.attributes.get(INTERFERENCE, 0) if job is not None else 0
        disturbed += (0.0 if isinstance(said, str) else float(said)) * task.gpu_milli
        milli += task.gpu_milli
    return disturbed, milli


def _models(spec: JobSpec) -> tuple[str, ...]:
    """Models the job accepts, in lower case; empty for any."""
    return tuple(sorted({model.lower() for role in spec.roles for model in role.resources.gpu_models}))


def _mean(sums: Mapping[str, tuple[float, int]], models: tuple[str, ...]) -> float:
    chosen = [sums[model] for model in (models or sorted(sums)) if model in sums]
    number = sum(count for _, count in chosen)
    return sum(total for total, _ in chosen) / number if number else 0.0
