"""What a job counts with of GPUs whatever cards it comes to: whole ones count with all their memory.

A share by compute has as large a part of the card's memory, one by memory as large a part of its time, and a slice what
its card gives slices. Which cards these are is known only when the job is placed; the pool's machines tell the least
that it can be.
"""

from collections.abc import Mapping

from msgspec import Struct

from gangline_core.limits.amounts import count
from gangline_core.limits.rungs import GPU_MEMORY, MODEL_PREFIX
from gangline_core.room.inventory import GpuKind, Inventory, suitable_gpus, tasks_held
from gangline_core.room.mig import slice_memory_mib
from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role, selector_of, smallest_size

ALL_GPUS = "gpu_milli"


class OnCards(Struct, frozen=True):
    """What one task of a role takes of GPUs on the cards of a pool."""

    milli: int
    """The least thousandths of GPUs."""
    memory_mib: int
    """The least memory of GPUs."""
    models: frozenset[str]
    """Of which its GPUs may be, in lower case."""


def is_open(spec: JobSpec, dimension: str) -> bool:
    """True when the job may count in this dimension with more than it names, and only its cards tell with how much."""
    if dimension == GPU_MEMORY:
        return any(role.resources.wants_gpu for role in spec.roles)
    return dimension.startswith(ALL_GPUS) and any(_asks_by_memory(role.resources) for role in spec.roles)


def with_cards(
    inventory: Inventory, spec: JobSpec, amounts: Mapping[str, int], *, model: str = ""
) -> Mapping[str, int]:
    """What a job asks for at its smallest sizes, its GPUs with the least that they count with on cards of a model."""
    least: dict[str, int] = {}
    for role in spec.roles:
        tasks, need = smallest_size(role), role.resources
        cards = on_cards(inventory, spec, role, model=model) if tasks and need.wants_gpu else None
        if cards is not None:
            count(least, ALL_GPUS, tasks * cards.milli)
            count(least, GPU_MEMORY, tasks * cards.memory_mib)
            if len(need.gpu_models) == 1:
                count(least, f"{MODEL_PREFIX}{need.gpu_models[0].lower()}", tasks * cards.milli)
        elif tasks:
            count(least, GPU_MEMORY, tasks * need.gpu_memory_mib * max(1, need.whole_gpus))
    more = {dimension: amount for dimension, amount in least.items() if amount > amounts.get(dimension, 0)}
    return {**amounts, **more} if more else amounts


def least_milli(inventory: Inventory, spec: JobSpec, role: Role, *, model: str) -> int:
    """Thousandths of GPUs of one model that a task of the role takes at least; 0 where nobody can tell."""
    if not _asks_by_memory(role.resources):
        return role.resources.gpu_milli
    cards = on_cards(inventory, spec, role, model=model)
    return 0 if cards is None else cards.milli


def on_cards(inventory: Inventory, spec: JobSpec, role: Role, *, model: str = "") -> OnCards | None:
    """One task of a role on the pool's cards, or on those of one model; None where no machine can take it."""
    need = role.resources
    cards: set[GpuKind] = set()
    for stock in inventory.matching(selector_of(spec, role)):
        if tasks_held(stock.kind, need):
            cards.update(card for card in suitable_gpus(stock.kind, need) if not model or card.model == model)
    if not cards:
        return None
    taken = [_taken(need, card) for card in cards]
    return OnCards(
        milli=min(milli for milli, _ in taken),
        memory_mib=min(memory for _, memory in taken),
        models=frozenset(card.model for card in cards),
    )


def share_taken(milli: int, memory_mib: int, card_mib: int) -> tuple[int, int]:
    """Thousandths and MiB that a share takes of a card of this size; what was not asked for follows the other.

    Rounded down, so that shares which fit a card exactly do, but never to nothing, so that each counts against limits.
    The memory asked for is never rounded.
    """
    if milli and memory_mib:
        return milli, memory_mib
    if milli:
        return milli, card_mib * milli // GPU_MILLI
    return max(1, memory_mib * GPU_MILLI // card_mib), memory_mib


def _taken(need: Resources, card: GpuKind) -> tuple[int, int]:
    """Thousandths and MiB of GPUs with which a task counts that comes to cards of this kind."""
    if need.whole_gpus:
        each = min(need.gpu_memory_most_mib or card.memory_mib, card.memory_mib)
        return need.gpu_milli, need.whole_gpus * each
    if need.mig:
        return need.gpu_milli, slice_memory_mib(card.mig, need.mig, card.memory_mib)
    if need.beside:
        return 0, need.gpu_memory_mib
    return share_taken(need.gpu_milli, need.gpu_memory_mib, card.memory_mib)


def _asks_by_memory(need: Resources) -> bool:
    return bool(need.gpu_memory_mib) and not (need.gpu_milli or need.beside)
