"""Can a job that names no GPU model ever start below limits that count by card: of a model, or of GPU memory?

Which card a whole GPU is, and so how much memory it counts with, is known only when it is placed. The pool's machines
tell the least that it can be; as where a job fits, only what is certain is refused, and a pool without a machine that
could take it says nothing.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gangline_core.cluster import Pool
from gangline_core.limits.dimension_names import shown
from gangline_core.limits.rungs import MODEL_PREFIX
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.inventory import GpuKind, Inventory, suitable_gpus, tasks_held
from gangline_core.spec import JobSpec, Resources, Role, selector_of

Limits = Sequence[tuple[str, dict[str, int]]]
"""Who sets a limit, and the most it ever is by dimension."""
MEMORY = "gpu_memory_mib"


class OfRole(Struct, frozen=True):
    """What a role takes of GPUs whatever cards it comes to."""

    task_milli: int
    tasks: int
    memory_mib: int
    """The least of all its tasks."""
    models: frozenset[str]
    """Of which its GPUs may be, in lower case."""


def counts_by_card(limits: Limits) -> bool:
    """True when one of the limits is of a GPU model or of GPU memory."""
    return any(what == MEMORY or what.startswith(MODEL_PREFIX) for _, limit in limits for what in limit)


def never_below(
    inventory: Inventory, pool: Pool, spec: JobSpec, *, sizes: Mapping[str, int], limits: Limits
) -> Reason | None:
    """Why the job of these sizes breaks one of the limits on whatever cards of the pool; None when it may not."""
    roles = [role for role in spec.roles if sizes[role.name] > 0 and role.resources.wants_gpu]
    if not roles or pool.grows:
        return None
    found = [_of_role(inventory, spec, role, sizes[role.name]) for role in roles]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    memory = sum(one.memory_mib for one in known)
    for holder, limit in limits:
        if memory > limit.get(MEMORY, memory):
            return _above(holder, *shown(MEMORY, memory), limit[MEMORY], MEMORY)
        if (reason := _of_models(holder, limit, known)) is not None:
            return reason
    return None


def _of_role(inventory: Inventory, spec: JobSpec, role: Role, tasks: int) -> OfRole | None:
    need = role.resources
    cards: set[GpuKind] = set()
    for stock in inventory.matching(selector_of(spec, role)):
        if tasks_held(stock.kind, need):
            cards.update(suitable_gpus(stock.kind, need))
    if not cards:
        return None
    memory = need.gpu_memory_mib if not need.whole_gpus else min(_counted(need, card) for card in cards)
    models = frozenset(card.model for card in cards)
    return OfRole(need.gpu_milli, tasks, tasks * memory * max(1, need.whole_gpus), models)


def _counted(need: Resources, card: GpuKind) -> int:
    """With how much memory a whole card counts."""
    return min(need.gpu_memory_most_mib or card.memory_mib, card.memory_mib)


def _of_models(holder: str, limit: Mapping[str, int], roles: Sequence[OfRole]) -> Reason | None:
    """The limits of all models that its GPUs may be of are together too low, or each is for one task."""
    models = sorted(frozenset[str]().union(*(one.models for one in roles)))
    most = {model: limit[MODEL_PREFIX + model] for model in models if MODEL_PREFIX + model in limit}
    for one in roles:
        # The GPUs of one task are of one model.
        if one.models <= most.keys() and one.task_milli > (best := max(most[model] for model in one.models)):
            return _above_models(holder, sorted(one.models), one.task_milli, best)
    asked = sum(one.tasks * one.task_milli for one in roles)
    if len(most) == len(models) and asked > sum(most.values()):
        return _above_models(holder, models, asked, sum(most.values()))
    return None


def _above_models(holder: str, models: Sequence[str], needed: int, most: int) -> Reason:
    label = f"{' or '.join(model.upper() for model in models)} GPUs"
    return _above(holder, label, shown("gpu_milli", needed)[1], most, "gpu_milli")


def _above(holder: str, label: str, needed: int | str, most: int, dimension: str) -> Reason:
    numbers: dict[str, int | str] = {
        "needed": needed,
        "dimension": label,
        "holder": holder,
        "limit": shown(dimension, most)[1],
    }
    return Reason(ReasonCode.NEVER_FITS_LIMIT, numbers)
