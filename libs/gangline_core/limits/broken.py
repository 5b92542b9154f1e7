"""The limit that would be broken, as whoever waits for it reads it."""

from gangline_core.limits.budgets import BUDGET, short_reason
from gangline_core.limits.dimension_names import shown
from gangline_core.limits.rungs import Rung
from gangline_core.reasons import Reason, ReasonCode

OWNERS_TOLD = 4
"""Groups named at most of those that keep something to themselves."""


def limit_reason(rung: Rung, dimension: str, *, used: int, needed: int) -> Reason:
    """The limit that would be broken, with its numbers."""
    label, limit_shown = shown(dimension, rung.limit[dimension])
    if rung.owners:
        left = shown(dimension, max(0, rung.limit[dimension] - used))[1]
        owners = ", ".join(rung.owners[:OWNERS_TOLD])
        asked = shown(dimension, needed)[1]
        return Reason(ReasonCode.NOT_LENT, {"needed": asked, "dimension": label, "left": left, "group": owners})
    if dimension == BUDGET:
        return short_reason(rung.group, left=rung.limit[dimension] - used, cost=needed)
    numbers: dict[str, int | str] = {
        "group": rung.group or "(all)",
        "dimension": label,
        "used": shown(dimension, used)[1],
        "limit": limit_shown,
        "needed": shown(dimension, needed)[1],
    }
    if rung.user:
        return Reason(ReasonCode.USER_LIMIT, {"user": rung.user, **numbers})
    return Reason(ReasonCode.BORROW_LIMIT if dimension in rung.borrows else ReasonCode.GROUP_LIMIT, numbers)
