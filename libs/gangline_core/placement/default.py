"""The default: close gangs, linked GPUs, and no room made useless. docs/placement.md tells the reasons and the figures.

- A gang takes the smallest domain that holds it, as `topology` does.
- A single task goes where it costs the usual mix of tasks least useful room. Usefulness is FGD's reading by cards and a
  second one by tasks, in equal parts: the second sees that a node whose CPU is nearly gone has no use for its free
  GPUs, and that a card on which two tasks fit is worth more than one on which one fits. Losses are told apart to a
  tenth of a GPU; finer differences say nothing about what will be asked for next, and following them scatters tasks.
- Where nodes have several islands, switches or sockets, closeness comes first, and then the smallest free block that
  holds the task, so that large blocks stay whole.
- Of equal nodes the first in node order: a fixed order keeps the rest of the cluster empty, which is worth several per
  cent of it.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gangline_core.beside import NOTHING, Beside
from gangline_core.capacity import Flags, Ints, Room
from gangline_core.layout import Kind
from gangline_core.mix import Mix
from gangline_core.placement.blocks import choose_gpus, has_parts, linked_first
from gangline_core.placement.board import Scorer, allowed, board_of
from gangline_core.placement.each import Spot, each, is_free_of_wishes
from gangline_core.placement.fgd import best_spot
from gangline_core.placement.fit import KEY_MAX
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.gradient import Gradient
from gangline_core.placement.models import Kinds
from gangline_core.placement.topology import topology
from gangline_core.placement.usefulness import Usefulness

TOLD_APART_MILLI = 100
"""Losses of useful room are rounded to this."""
COARSE = 30
"""Where blocks decide, only losses that differ by so many times that are heard: a node whose CPU would be gone."""


def default(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """Gangs as close as can be, single tasks where they cost least useful room."""
    if gang.tasks > 1 or not is_free_of_wishes(gang):
        return topology(room, gang)
    scorer, board = beside.once(
        room.layout,
        "default",
        lambda: (_scorer(tuple(room.layout.kinds), beside.mix), board_of(room, ("default", beside.mix))),
    )

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        return board.scores(room, need, tuple(kinds), scorer)[0]

    def choose(room: Room, need: Need, kinds: Kinds, mask: Flags) -> Spot | None:
        scores, gpu = board.scores(room, need, kinds, scorer)
        spot = best_spot(scores, gpu, allowed(room, need, mask))
        if spot is None or not need.gpus or not has_parts(room.layout):
            return spot
        return Spot(row=spot.row, gpus=choose_gpus(room, need, kinds, spot.row))

    return each(room, gang, choose, keys=keys)


@lru_cache(maxsize=16)
def _scorer(kinds: tuple[Kind, ...], mix: Mix) -> Scorer:
    usefulness = Usefulness(kinds, mix, by_tasks=True)
    unit = TOLD_APART_MILLI * max(1, usefulness.scale)

    def rate(lost: Ints, taken: Ints) -> Ints:
        # What is taken is useful no more: less that, the best a node can do is to lose nothing.
        cost: Ints = (2 * (lost - taken) + unit) // (2 * unit)
        return cost + _OFFSET

    gradient = Gradient(usefulness, rate)

    def score(room: Room, need: Need, kinds: Sequence[int], rows: Ints) -> tuple[Ints, Ints]:
        scores, gpu = gradient(room, need, kinds, rows)
        if need.gpus and has_parts(room.layout):
            coarse = np.where(scores < KEY_MAX, scores // COARSE, KEY_MAX)
            scores = linked_first(room, need, kinds, rows, coarse)
        return scores, gpu

    return score


_OFFSET = 1 << 12
"""Keeps keys above 0 where placing a task makes other room useful."""
