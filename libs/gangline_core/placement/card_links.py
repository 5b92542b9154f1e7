"""gpu-manager: which cards of a node by the tree of links: close ones for several, left-over ones for one.

Source: tkestack/gpu-manager, its evaluators "link", "fragment" and "share". The tree has the levels NVLink island, PCIe
switch, socket and node. Nodes are chosen by best fit, since the original decides inside a node only; and unlike there
the same hand chooses and books the cards, so that scheduler and machine cannot disagree.
"""

from collections.abc import Sequence

from msgspec import Struct

from gangline_core.placement.each import by_keys, each
from gangline_core.placement.fit import fullest_first, whole_gpus
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import Room

LEVELS = ("nvlink", "switch", "socket")


class Tree(Struct, frozen=True):
    """Per level, closest first, the part to which each card belongs; the root holds all."""

    levels: tuple[tuple[int, ...], ...]

    def members(self, level: int, card: int) -> list[int]:
        """Cards below the same ancestor at a level."""
        part = self.levels[level]
        return [k for k, number in enumerate(part) if number == part[card]]


def gpu_manager(room: Room, gang: Gang) -> Seats | None:
    """Best fit over nodes; on the node "link" for several cards, "fragment" for one, "share" for a part of one."""
    return each(room, gang, by_keys(fullest_first, _pick), keys=fullest_first)


def _pick(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
    if need.is_share:
        return ()
    free = [k for k, is_free in enumerate(whole_gpus(room, kinds)[row]) if is_free]
    tree = Tree(levels=tuple(tuple(room.layout.part(level)[row].tolist()) for level in LEVELS))
    return link(tree, free, need.gpus) if need.gpus > 1 else (fragment(tree, free),)


def link(tree: Tree, free: Sequence[int], count: int) -> tuple[int, ...]:
    """Several cards: below the closest common ancestor that has enough, then the one with fewest free, lowest index."""
    best: tuple[int, int, int] | None = None
    chosen: list[int] = []
    for card in free:
        for level in range(len(tree.levels)):
            members = [k for k in tree.members(level, card) if k in free]
            if len(members) >= count:
                rank = (level, len(members), members[0])
                if best is None or rank < best:
                    best, chosen = rank, members
                break
    return tuple(sorted(chosen or free)[:count])


def fragment(tree: Tree, free: Sequence[int]) -> int:
    """One card: from the root always into the branch with fewest free cards, so that broken groups go first."""
    left = list(free)
    for part in reversed(tree.levels):
        branches: dict[int, list[int]] = {}
        for card in left:
            branches.setdefault(part[card], []).append(card)
        left = min(branches.values(), key=lambda cards: (len(cards), cards[0]))
    return left[0]
