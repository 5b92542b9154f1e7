"""What a role counts with of GPUs whatever cards it comes to: whole ones count with all their memory.

Which cards these are is known only when the job is placed; the pool's machines tell the least that it can be.
"""

from msgspec import Struct

from gangline_core.room.inventory import GpuKind, Inventory, suitable_gpus, tasks_held
from gangline_core.spec import JobSpec, Resources, Role, selector_of, smallest_size


class OnCards(Struct, frozen=True):
    """What a role takes of GPUs on the cards of a pool."""

    memory_mib: int
    """The least of all its tasks."""
    models: frozenset[str]
    """Of which its GPUs may be, in lower case."""


def least_memory_mib(inventory: Inventory, spec: JobSpec, *, model: str = "") -> int:
    """The least GPU memory that the whole cards of a job count with at its smallest sizes; 0 where nobody can tell."""
    roles = [role for role in spec.roles if role.resources.whole_gpus and smallest_size(role)]
    found = [on_cards(inventory, spec, role, smallest_size(role), model=model) for role in roles]
    return sum(cards.memory_mib for cards in found if cards is not None)


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
