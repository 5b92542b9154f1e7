"""Can a job ever start below limits that count by card: of a model it does not name, of GPU memory, of shares?

Which card a GPU is, and so with how much memory or time of it a job counts, is known only when it is placed. The pool's
machines tell the least that it can be; as where a job fits, only what is certain is refused, and a pool without a
machine that could take it says nothing.
"""

from collections.abc import Mapping, Sequence

from gangline_core.cluster import Pool
from gangline_core.limits.dimension_names import shown
from gangline_core.limits.rungs import GPU_MEMORY, MODEL_PREFIX
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.cards import ALL_GPUS, is_open, on_cards
from gangline_core.room.inventory import Inventory
from gangline_core.spec import JobSpec

Limits = Sequence[tuple[str, dict[str, int]]]
"""Who sets a limit, and the most it ever is by dimension."""


def counts_by_card(spec: JobSpec, limits: Limits) -> bool:
    """True when the job counts below one of the limits with what only its cards tell: a model, or how much."""
    return any(what.startswith(MODEL_PREFIX) or is_open(spec, what) for _, limit in limits for what in limit)


def never_below(
    inventory: Inventory, pool: Pool, spec: JobSpec, *, sizes: Mapping[str, int], limits: Limits
) -> Reason | None:
    """Why the job of these sizes breaks one of the limits on whatever cards of the pool; None when it may not."""
    roles = [role for role in spec.roles if sizes[role.name] > 0 and role.resources.wants_gpu]
    if not roles or pool.grows:
        return None
    found = [on_cards(inventory, spec, role) for role in roles]
    cards = [one for one in found if one is not None]
    if len(cards) < len(found):
        return None
    asked = [(one.milli, sizes[role.name], one.models) for role, one in zip(roles, cards, strict=True)]
    least = {
        GPU_MEMORY: sum(sizes[role.name] * one.memory_mib for role, one in zip(roles, cards, strict=True)),
        ALL_GPUS: sum(task_milli * tasks for task_milli, tasks, _ in asked),
    }
    for holder, limit in limits:
        for what, needed in least.items():
            if needed > limit.get(what, needed):
                return above_limit(holder, *shown(what, needed), limit[what], what)
        if (reason := _of_models(holder, limit, asked)) is not None:
            return reason
    return None


def _of_models(
    holder: str, limit: Mapping[str, int], asked: Sequence[tuple[int, int, frozenset[str]]]
) -> Reason | None:
    """The limits of all models that its GPUs may be of are too low, together or each for one task.

    `asked` has per role the GPU thousandths of a task, its tasks, and its models.
    """
    models = sorted(frozenset[str]().union(*(of for _, _, of in asked)))
    most = {model: limit[MODEL_PREFIX + model] for model in models if MODEL_PREFIX + model in limit}
    for task_milli, _, of in asked:
        # The GPUs of one task are of one model.
        if of <= most.keys() and task_milli > (best := max(most[model] for model in of)):
            return _above_models(holder, sorted(of), task_milli, best)
    needed = sum(task_milli * tasks for task_milli, tasks, _ in asked)
    if len(most) == len(models) and needed > sum(most.values()):
        return _above_models(holder, models, needed, sum(most.values()))
    return None


def _above_models(holder: str, models: Sequence[str], needed: int, most: int) -> Reason:
    label = f"{' or '.join(model.upper() for model in models)} GPUs"
    return above_limit(holder, label, shown("gpu_milli", needed)[1], most, "gpu_milli")


def above_limit(holder: str, label: str, needed: int | str, most: int, dimension: str) -> Reason:
    """That a holder's limit of a dimension is below what a job needs at least of what `label` names, as shown."""
    numbers: dict[str, int | str] = {
        "needed": needed,
        "dimension": label,
        "holder": holder,
        "limit": shown(dimension, most)[1],
    }
    return Reason(ReasonCode.NEVER_FITS_LIMIT, numbers)
