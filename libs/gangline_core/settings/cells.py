"""Do guarantees of shape and limits of amounts contradict each other?

Cells that a group is owed are GPUs that it may use at any time, so they must fit below its own limits and those of all
groups above it, together with the cells of the others there. A limit that is cut below them, or cells beyond a limit,
are refused whichever of the two is edited last (the machines themselves are `cells.promise_fault`'s question).
"""

from collections.abc import Iterator, Mapping

from gangline_core.cluster import Pool
from gangline_core.groups import Group, ancestors
from gangline_core.limits.rungs import MODEL_PREFIX
from gangline_core.room.cells import NARROWED, Tree, kinds_of, pinned_cells
from gangline_core.room.layout import Layout
from gangline_core.settings.amounts import Problem, folded, named, said
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State

GPUS = "gpu_milli"
Owed = dict[str, int]


def of_pool(state: State, pool: Pool) -> Problem | None:
    """What is wrong with the cells of a pool beside the limits of the groups that are owed them."""
    pools = {name: known.pool for name, known in state.kept.pools.items()} | {pool.name: pool}
    return _problem(state, pools, state.kept.groups, field="cells")


def of_group(state: State, group: Group) -> Problem | None:
    """What is wrong with the limits of a group beside the cells that it, or a group below it, is owed."""
    pools = {name: known.pool for name, known in state.kept.pools.items()}
    is_limited = any(name == GPUS or name.startswith(MODEL_PREFIX) for name in folded(group.limit))
    if not is_limited or not any(pool.cells or pool.pinned for pool in pools.values()):
        return None
    return _problem(state, pools, {group.path: group}, field="limit")


def owed_below(state: State, pools: Mapping[str, Pool]) -> dict[str, Owed]:
    """Per group the GPUs in the cells that it and the groups below it are owed, in all and by model."""
    found: dict[str, Owed] = {}
    for _, pool in sorted(pools.items()):
        for path, amounts in _owed(state, pool):
            for holder in ancestors(path):
                own = found.setdefault(holder, {})
                for dimension, amount in amounts.items():
                    own[dimension] = own.get(dimension, 0) + amount
    return found


def _problem(state: State, pools: Mapping[str, Pool], groups: Mapping[str, Group], *, field: str) -> Problem | None:
    for path, amounts in sorted(owed_below(state, pools).items()):
        group = groups.get(path)
        limit = folded(group.limit) if group is not None else {}
        for dimension, amount in sorted(amounts.items()):
            if amount > limit.get(dimension, amount):
                message = (
                    f"{named(path)} is limited to {said(dimension, limit[dimension])}, and the cells that it and the "
                    f"groups below it are owed have {said(dimension, amount)}"
                )
                return Problem("invalid", message, field if field == "cells" else f"{field}.{dimension}")
    return None


def _owed(state: State, pool: Pool) -> Iterator[tuple[str, Owed]]:
    """Every group with cells in a pool, and what GPUs these have at least."""
    if not pool.cells and not pool.pinned:
        return
    layout = Layout(state.nodes_of(pool.name))
    for node in layout.nodes:
        layout.put(node)
    tree = Tree(layout, pool.topology, kinds_of(pool.cells, pool.pinned.values()))
    for group, own in sorted(pool.cells.items()):
        for kind, count in sorted(own.items()):
            if kind in tree.levels:
                yield group, _amounts(kind, count * _least(tree, kind))
    for pin in pinned_cells(tree, pool.pinned):
        yield pin.group, {GPUS: int(pin.leaves.sum()) * GPU_MILLI}


def _least(tree: Tree, kind: str) -> int:
    """GPUs of the smallest cell of a kind."""
    return min((int(tree.leaves(cell).sum()) for cell in tree.whole(kind, tree.there)), default=0)


def _amounts(kind: str, gpus: int) -> Owed:
    model = kind.partition(NARROWED)[2]
    amounts = {GPUS: gpus * GPU_MILLI}
    if model and "=" not in model:
        amounts[f"{MODEL_PREFIX}{model.lower()}"] = gpus * GPU_MILLI
    return amounts
