"""What the accounting service reads from its environment, once, at start."""

from msgspec import Struct


class Config(Struct, frozen=True):
    """Settings of the accounting service (GANGLINE_ACCOUNTING_*)."""

    gather_ms: int = 200
    """How long ended allocations are gathered before they are charged together."""
    budget_check_s: float = 5.0
    """How often running jobs are counted against budgets."""
