"""What jobs like this one used of what they had, told before and while the job waits."""

from gangline_core.foresight.right_size import from_history, usable_memory_mib
from gangline_core.spec import JobSpec
from gangline_core.state import State


def advice(state: State, spec: JobSpec) -> tuple[str, ...]:
    """One sentence for each thing that could be asked for in a smaller size; empty when there is none."""
    stocks = state.inventory(spec.pool).stocks() if spec.pool in state.kept.pools else []
    sizes = {(gpu.model, gpu.memory_mib) for stock in stocks for gpu in stock.kind.gpus}
    return from_history(state.kept.use_history, spec, gpu_memory_mib=usable_memory_mib(spec, sizes))
