"""What is allowed and probably not meant: guarantees of more than all machines have.

Machines may come later, and quotas are often set before them, so this refuses nothing; but as things are nobody can
keep such a promise, and whoever relies on it should hear so.
"""

from collections.abc import Iterable, Iterator, Mapping

from gangline_core.groups import ROOT, Group
from gangline_core.limits.quota import JOBS
from gangline_core.limits.rungs import node_has
from gangline_core.settings.amounts import folded, named, said
from gangline_core.state import State


def doubts(state: State, wanted: Iterable[Group]) -> tuple[str, ...]:
    """What should be said of these groups as they will be; nothing where no pool has any machine."""
    if not state.kept.nodes:
        return ()
    groups = {**state.kept.groups, **(own := {group.path: group for group in wanted})}
    found = [doubt for _, group in sorted(own.items()) for doubt in _of_one(state, group)]
    if not found and own:
        found += _of_all(state, groups)
    return tuple(found)


def _of_one(state: State, group: Group) -> Iterator[str]:
    for dimension, amount in sorted(folded(group.guaranteed).items()):
        if dimension != JOBS and amount > (there := _there(state, dimension)):
            yield (
                f"{named(group.path)} is guaranteed {said(dimension, amount)}, and all machines have "
                f"{said(dimension, there)}"
            )


def _of_all(state: State, groups: Mapping[str, Group]) -> Iterator[str]:
    """The same of what groups right below the root are guaranteed together."""
    together: dict[str, int] = {}
    for path, group in groups.items():
        if path != ROOT and "/" not in path:
            for dimension, amount in folded(group.guaranteed).items():
                together[dimension] = together.get(dimension, 0) + amount
    for dimension, amount in sorted(together.items()):
        if dimension != JOBS and amount > (there := _there(state, dimension)):
            yield (
                f"all groups together are guaranteed {said(dimension, amount)}, and all machines have "
                f"{said(dimension, there)}"
            )


def _there(state: State, dimension: str) -> int:
    """What all machines have that are there, whether they take work now or not."""
    return sum(node_has(node, dimension) for node in state.kept.nodes.values() if not node.lost)
