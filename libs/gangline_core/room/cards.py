"""What a role counts with of GPUs whatever cards it comes to: whole ones count with all their memory.

Which cards these are is known only when the job is placed; the pool's machines tell the least that it can be.
"""

from collections.abc import Mapping

from msgspec import Struct

from gangline_core.limits.rungs import GPU_MEMORY
from gangline_core.room.inventory import GpuKind, Inventory, suitable_gpus, tasks_held
from gangline_core.spec import JobSpec, Resources, Role, selector_of, smallest_size


class OnCards(Struct, frozen=True):
    """What a role takes of GPUs on the cards of a pool."""

    memory_mib: int
    """The least of all its tasks."""
    models: frozenset[str]
    """Of which its GPUs may be, in lower case."""


def with_cards(
    inventory: Inventory, spec: JobSpec, amounts: Mapping[str, int], *, model: str = ""
) -> Mapping[str, int]:
    """What a job asks for at its smallest sizes, with all the memory that its whole cards count with."""
    least = least_memory_mib(inventory, spec, model=model)
    return {**amounts, GPU_MEMORY: max(least, amounts.get(GPU_MEMORY, 0))} if least else amounts


def least_memory_mib(inventory: Inventory, spec: JobSpec, *, model: str = "") -> int:
    """The least GPU memory that a job with whole cards counts with at its smallest sizes; 0 where nobody can tell."""
    roles = [role for role in spec.roles if role.resources.whole_gpus and smallest_size(role)]
    found = [on_cards(inventory, spec, role, smallest_size(role), model=model) for role in roles]
    whole = sum(cards.memory_mib for cards in found if cards is not None)
    parts = (role for role in spec.roles if not role.resources.whole_gpus)
    return whole and whole + sum(smallest_size(role) * role.resources.gpu_memory_mib for role in parts)


def on_cards(inventory: Inventory, spec: JobSpec, role: Role, tasks: int, *, model: str = "") -> OnCards | None:
    """So many tasks of a role on the pool's cards, or on those of one model; None where no machine can take one."""
    need = role.resources
    cards: set[GpuKind] = set()
    for stock in inventory.matching(selector_of(spec, role)):
        if tasks_held(stock.kind, need):
            cards.update(card for card in suitable_gpus(stock.kind, need) if not model or card.model == model)
    if not cards:
        return None
    memory = min(_counted(need, card) for card in cards) if need.whole_gpus else need.gpu_memory_mib
    return OnCards(tasks * memory * max(1, need.whole_gpus), frozenset(card.model for card in cards))


def _counted(need: Resources, card: GpuKind) -> int:
    """With how much memory a card counts that the task has whole."""
    return min(need.gpu_memory_most_mib or card.memory_mib, card.memory_mib)
