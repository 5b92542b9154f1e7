"""What a job's own use, and that of jobs like it, says about what should be asked for. Pure."""

from collections.abc import Iterable, Mapping

from gangline_core.facts import JobUsed
from gangline_core.foresight.past_use import PastUse, recall_use
from gangline_core.spec import GPU_MILLI, JobSpec

IDLE_PERCENT = 30
"""A job that keeps its GPUs less busy than this could do with fewer."""
FULL_PERCENT = 80
"""How busy fewer GPUs would be."""
PART = 4
"""A job that never used a quarter of what it asked for could do with less."""
RUNS_LEAST = 2
"""So many runs of jobs like it make advice for the next."""
CPU_MILLI_LEAST = 2_000
MEMORY_MIB_LEAST = 4_096
"""Requests below are too small to bother anybody with."""


def right_size(use: JobUsed, *, gpus: int, gpu_memory_mib: int) -> str:
    """One sentence about a job that runs; empty when what was asked for fits what is used, or nothing is known."""
    if gpus > 1 and 0 <= use.gpu_percent < IDLE_PERCENT:
        return f"Its {gpus} GPUs are {use.gpu_percent} % busy; {_fewer(gpus, use.gpu_percent)} would do the same work."
    if use.memory_mib_max >= 0 and gpu_memory_mib and use.memory_mib_max * PART < gpu_memory_mib:
        return f"It never used more than {use.memory_mib_max} MiB of {gpu_memory_mib} MiB on a GPU; a share would do."
    return ""


def from_history(
    history: Mapping[str, tuple[PastUse, ...]], spec: JobSpec, *, gpu_memory_mib: int = 0
) -> tuple[str, ...]:
    """Sentences about a job that asks for more than jobs like it ever used, the dearest first.

    `gpu_memory_mib` is the memory of the GPUs it may get; 0 when they differ or are not known.
    """
    past = recall_use(history, spec)
    if len(past) < RUNS_LEAST:
        return ()
    tasks = sum(role.count for role in spec.roles)
    gpus = sum(role.count * role.resources.gpu_milli for role in spec.roles) // GPU_MILLI
    runs = f"The last {len(past)} runs like it"
    told = []
    busy = _most(use.gpu_percent for use in past)
    if gpus > 1 and 0 <= busy < IDLE_PERCENT:
        told.append(f"{runs} kept {gpus} GPUs at most {busy} % busy; {_fewer(gpus, busy)} would do the same work.")
    memory = _most(use.gpu_memory_mib for use in past)
    whole = any(role.resources.gpu_milli >= GPU_MILLI for role in spec.roles)
    if whole and memory >= 0 and gpu_memory_mib and memory * PART < gpu_memory_mib:
        told.append(f"{runs} used at most {memory} of {gpu_memory_mib} MiB on a GPU; a share of one would do.")
    cpu = _most(use.cpu_milli for use in past)
    asked_cpu = sum(role.count * role.resources.cpu_milli for role in spec.roles)
    if asked_cpu >= CPU_MILLI_LEAST * tasks and 0 <= cpu * PART < asked_cpu:
        told.append(f"{runs} used {cpu / 1000:.1f} of {asked_cpu / 1000:g} CPUs.")
    host, asked = (
        _most(use.memory_mib for use in past),
        sum(role.count * role.resources.memory_mib for role in spec.roles),
    )
    if asked >= MEMORY_MIB_LEAST * tasks and 0 <= host * PART < asked:
        told.append(f"{runs} used at most {host} of {asked} MiB of memory.")
    return tuple(told)


def usable_memory_mib(spec: JobSpec, sizes: Iterable[tuple[str, int]]) -> int:
    """Memory of the GPUs that a job may get, given as (model, MiB), when all of those have the same; else 0."""
    wanted = {model.lower() for role in spec.roles for model in role.resources.gpu_models}
    found = {mib for model, mib in sizes if not wanted or model.lower() in wanted}
    return found.pop() if len(found) == 1 else 0


def _most(values: Iterable[int]) -> int:
    """The largest of what was measured; -1 when nothing was."""
    return max((value for value in values if value >= 0), default=-1)


def _fewer(gpus: int, percent: int) -> int:
    return max(1, -(-gpus * percent // FULL_PERCENT))
