"""What accounting says: what ended allocations used, and whose budget is spent."""

from gangline_core.facts.form import FactBase
from gangline_core.ids import JobId, TaskId


class UsageCharged(FactBase, frozen=True, tag=True):
    """What one ended allocation used, charged once, by its task id."""

    task: TaskId
    job: JobId
    group: str
    user: str
    gpu_model: str
    gpu_milli_ms: int
    """GPU thousandths times milliseconds, from placed to seen empty."""
    cost: int = -1
    """The same by the price list; -1 when there was none, and it costs what it used."""


class BudgetExhausted(FactBase, frozen=True, tag=True):
    """A group has spent its GPU-hours, running jobs included."""

    group: str
    used_gpu_milli_ms: int
    exhausted: bool = True
    """False when a raised budget makes it solvent again."""
