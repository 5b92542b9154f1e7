"""Which GPU models a gang is tried on, and in which order."""

from collections.abc import Iterator

from gangline_core.foresight.affinity import OTHERS
from gangline_core.placement.gang import Gang, Need
from gangline_core.room.layout import Kind, Layout
from gangline_core.room.mig import geometry

Kinds = tuple[int, ...]
"""Numbers of kinds of one model in a layout."""
Choice = tuple[tuple[Kinds, ...], ...]
"""Per need the models it may use in this try, best first; a task's GPUs are always of one model."""
NO_GPU: tuple[Kinds, ...] = ((),)


def choices(layout: Layout, gang: Gang) -> list[Choice]:
    """One model for the whole gang first, best first; then each task on the best model that has room for it."""
    asked = ("choices", gang.tasks > 1, gang.same_model, *(need.accepts for need in gang.needs))
    return layout.remember(asked, lambda: list(_choices(layout, gang)))


def _choices(layout: Layout, gang: Gang) -> Iterator[Choice]:
    accepted = [acceptable(layout, need) if need.wants_gpu else {} for need in gang.needs]
    on_gpus = [models for need, models in zip(gang.needs, accepted, strict=True) if need.wants_gpu]
    if not on_gpus:
        yield (NO_GPU,) * len(gang.needs)
        return
    if not all(on_gpus):
        return
    shared = [model for model in on_gpus[0] if all(model in models for models in on_gpus)]
    for model in shared:
        yield tuple((models[model],) if models else NO_GPU for models in accepted)
    if gang.tasks > 1 and not gang.same_model and (not shared or any(len(models) > 1 for models in on_gpus)):
        yield tuple(tuple(models.values()) if models else NO_GPU for models in accepted)


def acceptable(layout: Layout, need: Need) -> dict[str, Kinds]:
    """Models of the layout that a task may use, best first, each with its kinds that have enough memory.

    Without a preference the most common model comes first, so that rare ones stay for those who ask for them; but
    those on which jobs like this one were faster come before it.
    """
    asked = ("acceptable", need.accepts)
    return layout.remember(asked, lambda: _acceptable(layout, need))


def _acceptable(layout: Layout, need: Need) -> dict[str, Kinds]:
    order = [model for model in need.models or _by_liking(layout, need) if model not in need.exclude_models]
    found: dict[str, Kinds] = {}
    for model in order:
        kinds = tuple(
            number for number, kind in enumerate(layout.kinds) if kind.model == model and _will_do(kind, need)
        )
        if kinds:
            found[model] = kinds
    return found


def _by_liking(layout: Layout, need: Need) -> list[str]:
    tiers = {model: tier for tier, models in enumerate(need.liked) for model in models}
    others = tiers.get(OTHERS, len(tiers))
    return sorted(layout.by_number, key=lambda model: tiers.get(model, others))


def _will_do(kind: Kind, need: Need) -> bool:
    """True when a GPU of this kind could serve the need while it is empty."""
    if need.near_nic and not kind.near_nic:
        return False
    if need.mig or kind.mig:
        return bool(kind.mig) and need.mig in geometry(kind.mig).profiles
    return kind.memory_mib >= need.gpu_memory_mib
