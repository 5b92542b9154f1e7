"""Budgets: what GPU time costs by model, and which jobs a budget lets start.

Costs are in the unit of usage, GPU thousandths times milliseconds, weighted by the price of the model: a price of 1000
costs what it uses, one of 2500 two and a half times that. In mode `safe` every running job is counted with all that it
can still cost, so that what starts can end inside the budget.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from gangline_core.groups import BudgetMode, ancestors
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import GPU_MILLI, JobSpec, Role, costs_gpu_time
from gangline_core.state import State

GPU_HOUR = 1000 * 3_600_000
"""One GPU-hour in GPU thousandths times milliseconds."""
PRICE_MILLI = 1000
"""The price of a GPU that the list does not name: a GPU-hour for a GPU-hour."""
ANY_MODEL = "*"
PRICE_MILLI_MAX = 1_000_000
BUDGET = "budget"
"""The dimension in which safe budgets bind; nobody can set a limit of this name."""
ENDLESS = 10**18
"""Stands for the cost of a job that may run for ever."""


class SafeBudget(Struct, frozen=True):
    """A budget inside which every job must be able to end."""

    group: str
    hours: int


def price_of(prices: Mapping[str, int], model: str) -> int:
    """What a GPU of the model costs, in thousandths."""
    return prices.get(model.lower(), prices.get(ANY_MODEL, PRICE_MILLI))


def cost_alike(prices: Mapping[str, int], models: Iterable[str]) -> bool:
    """True when a GPU of each of these models costs as much as one of any other."""
    return not prices or len({price_of(prices, model) for model in models}) < 2


def cost_of(usage: int, prices: Mapping[str, int], model: str) -> int:
    """What so much use of one model costs, rounded up."""
    return -(-usage * price_of(prices, model) // PRICE_MILLI)


def safe_budgets(state: State, group: str) -> Iterator[SafeBudget]:
    """Budgets of mode `safe` on the way from a group up to the root."""
    for path in ancestors(group):
        known = state.kept.groups.get(path)
        if known is not None and known.budget_gpu_hours and known.budget_mode == BudgetMode.SAFE:
            yield SafeBudget(group=path, hours=known.budget_gpu_hours)


def worst_cost(spec: JobSpec, prices: Mapping[str, int]) -> int:
    """The most that one run of the job can cost: its largest size, its dearest model, its whole time limit."""
    if not costs_gpu_time(spec):
        return 0
    if not spec.time_limit_s:
        return ENDLESS
    return rest_cost(spec, prices, left_ms=(spec.time_limit_s + spec.grace_s) * 1000)


def _milli(role: Role) -> int:
    most = max((size for size in role.sizes if role.allows(size)), default=role.max_count)
    # A share by memory alone is at most a whole card.
    return most * (
        role.resources.gpu_milli or (GPU_MILLI if role.resources.wants_gpu and not role.resources.beside else 0)
    )


def _dearest(role: Role, prices: Mapping[str, int]) -> int:
    models = role.resources.gpu_models
    if models:
        return max(price_of(prices, model) for model in models)
    return max([*prices.values(), price_of(prices, "")])


def rest_cost(spec: JobSpec, prices: Mapping[str, int], *, left_ms: int) -> int:
    """The most that a running job can still cost in so much time."""
    if not costs_gpu_time(spec):
        return 0
    return sum(_milli(role) * left_ms * _dearest(role, prices) for role in spec.roles) // PRICE_MILLI


def never_inside(budget: SafeBudget, spec: JobSpec, prices: Mapping[str, int]) -> Reason | None:
    """Why the job could not end inside the budget even if nothing of it were spent."""
    cost = worst_cost(spec, prices)
    if cost <= budget.hours * GPU_HOUR:
        return None
    numbers: dict[str, int | str] = {
        "group": budget.group or "(all)",
        "budget": budget.hours,
        "needed": hours_shown(cost),
    }
    return Reason(ReasonCode.NEVER_FITS_BUDGET, numbers)


def short_reason(group: str, *, left: int, cost: int) -> Reason:
    """Why the job cannot start: what is left of a budget is less than it can cost."""
    numbers: dict[str, int | str] = {
        "group": group or "(all)",
        "left": hours_shown(max(0, left)),
        "needed": hours_shown(cost),
    }
    return Reason(ReasonCode.BUDGET_SHORT, numbers)


def hours_shown(cost: int) -> str:
    """GPU-hours as a sentence says them."""
    return "a time limit" if cost >= ENDLESS else f"{cost / GPU_HOUR:.2f}".rstrip("0").rstrip(".")
