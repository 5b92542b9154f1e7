"""Who deserves how much of one thing? Fair division by water filling: by weight, nobody more than it asks for.

Guarantees come first: what a group is guaranteed and asks for is its own. The rest is lent by weight, and what somebody
does not ask for is divided again among the others. Each dimension is divided by itself, so one that is short never
changes another.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from gangline_core.groups import ROOT, ancestors
from gangline_core.limits.shares import total_gpu_milli
from gangline_core.scoring import columns as c
from gangline_core.state import State


class Claimant(Struct, frozen=True):
    """What somebody asks for, is guaranteed, and weighs."""

    asks: int
    weight: int = 1
    guaranteed: int = 0


def divide(total: int, claimants: Mapping[str, Claimant]) -> dict[str, int]:
    """Whole numbers that sum to no more than the total; what rounding leaves over goes to the first by name.

    Guarantees that do not fit together are cut by weight like everything else.
    """
    owed = {name: min(one.guaranteed, one.asks) for name, one in claimants.items()}
    if sum(owed.values()) > total:
        return _pour(total, {name: (owed[name], claimants[name].weight) for name in claimants})
    rest = {name: (one.asks - owed[name], one.weight) for name, one in claimants.items()}
    more = _pour(total - sum(owed.values()), rest)
    return {name: owed[name] + more[name] for name in claimants}


def _pour(total: int, wants: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Water filling: raise all levels by weight until everything is given or everybody has what it wants."""
    given = dict.fromkeys(wants, 0)
    thirsty = sorted((name for name, (want, weight) in wants.items() if want > 0 and weight > 0), key=lambda name: name)
    left = total
    while thirsty and left > 0:
        weights = sum(wants[name][1] for name in thirsty)
        full = [name for name in thirsty if wants[name][0] * weights <= left * wants[name][1]]
        if not full:
            for name in thirsty:
                given[name] = left * wants[name][1] // weights
            for name in thirsty[: left - sum(given[name] for name in thirsty)]:
                given[name] += 1
            return given
        for name in full:
            given[name] = wants[name][0]
        left -= sum(given[name] for name in full)
        thirsty = [name for name in thirsty if name not in set(full)]
    return given


def fair_parts(state: State, total: int, asks: Mapping[str, int], dimension: str) -> dict[str, int]:
    """What every group of the tree deserves of a dimension, given what each asks for in all (those below it included).

    The total is divided among the children of the root, what a group gets among its children, and so on.
    """
    groups = state.kept.groups
    children: dict[str, list[str]] = {}
    for path in sorted(groups):
        if path != ROOT:
            children.setdefault(path.rpartition("/")[0], []).append(path)
    parts = {ROOT: total}
    todo = [ROOT]
    while todo:
        path = todo.pop()
        below = children.get(path, [])
        claimants = {
            child: Claimant(
                asks=min(asks.get(child, 0), _bound(groups[child].limit, dimension)),
                weight=groups[child].weight,
                guaranteed=groups[child].guaranteed.get(dimension, 0),
            )
            for child in below
        }
        parts |= divide(parts[path], claimants)
        todo += below
    return parts


def _bound(limit: Mapping[str, int], dimension: str) -> int:
    return limit.get(dimension, 1 << 62)


def fair_gpu_parts(state: State) -> dict[str, int]:
    """What every group deserves of all GPUs now, in thousandths: it asks for what it uses and what its jobs want."""
    asks: dict[str, int] = {path: usage.get("gpu_milli", 0) for path, usage in state.usage.items()}
    for columns in state.columns.values():
        slots = columns.slots()
        wanted = np.bincount(
            columns.field(slots, c.GROUP),
            weights=columns.field(slots, c.GPU_MILLI),
            minlength=len(columns.groups.names),
        )
        for group, amount in zip(columns.groups.names, wanted.tolist(), strict=True):
            for path in ancestors(group):
                asks[path] = asks.get(path, 0) + int(amount)
    return fair_parts(state, total_gpu_milli(state), asks, "gpu_milli")
