"""What a job's own history says about what it should have asked for. Pure."""

from gangline_core.facts import JobUsed

IDLE_PERCENT = 30
"""A job that keeps its GPUs less busy than this could do with fewer."""
MEMORY_PART = 4
"""A job that never used a quarter of a GPU's memory could do with a share of one."""


def right_size(use: JobUsed, *, gpus: int, gpu_memory_mib: int) -> str:
    """One sentence of advice; empty when what was asked for fits what is used, or nothing is known."""
    if gpus > 1 and use.gpu_percent < IDLE_PERCENT:
        fewer = max(1, -(-gpus * use.gpu_percent // 80))
        return f"Its {gpus} GPUs are {use.gpu_percent} % busy; {fewer} would do the same work."
    if use.memory_mib_max >= 0 and gpu_memory_mib and use.memory_mib_max * MEMORY_PART < gpu_memory_mib:
        return f"It never used more than {use.memory_mib_max} MiB of {gpu_memory_mib} MiB on a GPU; a share would do."
    return ""
