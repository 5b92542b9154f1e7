"""What is there, what is free of it, and what each group deserves of it by its weight."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from gangline_core.groups import ROOT, Group
from gangline_core.room.layout import Layout
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State

WEIGHT_LEAST = 1e-6
"""Share of a group whose weight is 0."""


def total_gpu_milli(state: State) -> int:
    """Thousandths of all GPUs of all machines, whatever their condition."""
    layouts = [state.room(pool).layout for pool in state.kept.pools]
    return GPU_MILLI * sum(layout.remember(("gpus",), partial(_gpus_of, layout)) for layout in layouts)


def _gpus_of(layout: Layout) -> int:
    return sum(len(node.gpus) for node in layout.nodes)


def weight_shares(state: State) -> dict[str, float]:
    """What each group deserves of everything: its weight among its siblings, times what its parent deserves.

    Only read it: it is worked out again when a group changes, not before.
    """
    return state.door.remember("weight_shares", lambda: _weight_shares(state.kept.groups))


def _weight_shares(groups: Mapping[str, Group]) -> dict[str, float]:
    sums: dict[str, int] = {}
    for path, group in groups.items():
        if path != ROOT:
            parent = path.rpartition("/")[0]
            sums[parent] = sums.get(parent, 0) + group.weight
    shares = {ROOT: 1.0}
    for path in sorted(groups, key=lambda one: (one.count("/"), one)):
        if path != ROOT:
            parent = path.rpartition("/")[0]
            own = groups[path].weight / sums[parent] if sums[parent] else 1.0
            shares[path] = max(WEIGHT_LEAST, own * shares.get(parent, 1.0))
    return shares


def free_by_model(state: State, pool: str) -> tuple[dict[str, int], int]:
    """Free GPU thousandths by model (lower case) and free cpu_milli on the pool's nodes that take work."""
    room = state.room(pool)
    layout, works = room.layout, room.layout.works
    gpus: dict[str, int] = {}
    for number, kind in enumerate(layout.kinds):
        milli = int(np.maximum(room.milli[(layout.kind == number) & works[:, None]], 0).sum())
        gpus[kind.model] = gpus.get(kind.model, 0) + milli
    return gpus, int(np.maximum(room.cpu[works], 0).sum())


def capacity_of(state: State, pool: str) -> dict[str, int]:
    """What the pool's machines have in all, whatever their condition, by dimension; no zeros."""
    total: dict[str, int] = {}
    for node in state.nodes_of(pool):
        for dimension, amount in (
            ("gpu_milli", GPU_MILLI * len(node.gpus)),
            ("cpu_milli", node.cpu_milli),
            ("memory_mib", node.memory_mib),
        ):
            if amount:
                total[dimension] = total.get(dimension, 0) + amount
        for gpu in node.gpus:
            name = f"gpu_milli:{gpu.model.lower()}"
            total[name] = total.get(name, 0) + GPU_MILLI
    return total
