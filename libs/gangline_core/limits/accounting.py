"""What was used, charged once, and whose budget is used up.

Usage is GPU thousandths times milliseconds. An ended allocation is charged by its task id; what still runs counts
towards budgets as it goes, so that a budget ends a group's starts on time and not when its jobs end.
"""

from gangline_core.facts import BudgetExhausted, Fact
from gangline_core.groups import ancestors
from gangline_core.limits.budgets import GPU_HOUR, PRICE_MILLI, price_of
from gangline_core.limits.rungs import MODEL_PREFIX
from gangline_core.limits.spending import Spent as Spent
from gangline_core.limits.spending import at_renewal as at_renewal
from gangline_core.limits.spending import spent as spent
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State

CHARGES_MAX = 2_000
"""Most allocations charged in one message; the rest follows in the next."""


def charge(state: State, now: int) -> tuple[Fact, ...]:
    """Charges for ended allocations, in order of their task ids, and what changed about budgets."""
    charges = [usage for _, usage in sorted(state.kept.uncharged.items())[:CHARGES_MAX]]
    return (*charges, *budget_changes(state, now))


def budget_changes(state: State, now: int) -> tuple[BudgetExhausted, ...]:
    """Groups that have just used up their budget, and groups that have one again."""
    budgets = {path: group.budget_gpu_hours for path, group in sorted(state.kept.groups.items())}
    watched = {path: hours for path, hours in budgets.items() if hours or path in state.kept.exhausted}
    if not watched:
        return ()
    used = at_renewal(state, spent(state, now), now)
    changes = []
    for path, hours in watched.items():
        paid = used.of_budget(path)
        is_exhausted = bool(hours) and paid >= hours * GPU_HOUR
        if is_exhausted != (path in state.kept.exhausted):
            changes.append(BudgetExhausted(group=path, used_gpu_milli_ms=paid, exhausted=is_exhausted))
    return tuple(changes)


def budget_reason(state: State, group: str, used: Spent) -> Reason | None:
    """The nearest group above whose budget is used up, as a reason; None when none is."""
    for path in ancestors(group):
        if path in state.kept.exhausted:
            known = state.kept.groups.get(path)
            numbers: dict[str, int | str] = {
                "group": path or "(all)",
                "used": used.of_budget(path) // GPU_HOUR,
                "budget": known.budget_gpu_hours if known else 0,
            }
            return Reason(ReasonCode.BUDGET_EXHAUSTED, numbers)
    return None


def next_budget_end_ms(state: State, now: int) -> int | None:
    """When the next budget will be used up if everything that runs goes on; None when none will."""
    used = spent(state, now)
    ends = []
    for path, group in sorted(state.kept.groups.items()):
        rate = _rate(state, path)
        if group.budget_gpu_hours and path not in state.kept.exhausted and rate:
            left = group.budget_gpu_hours * GPU_HOUR - used.of_budget(path)
            ends.append(now + max(0, -(-left * PRICE_MILLI // rate)))
    return min(ends, default=None)


def _rate(state: State, path: str) -> int:
    """What a group's live allocations cost in a millisecond, in thousandths."""
    models = state.usage.get(path, {})
    named = {name: amount for name, amount in models.items() if name.startswith(MODEL_PREFIX)}
    rest = models.get("gpu_milli", 0) - sum(named.values())
    prices = state.kept.prices
    return rest * price_of(prices, "") + sum(
        amount * price_of(prices, name.removeprefix(MODEL_PREFIX)) for name, amount in named.items()
    )
