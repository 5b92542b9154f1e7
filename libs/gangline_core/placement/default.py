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

from gangline_core.placement.blocks import choose_gpus, has_parts, linked_first
from gangline_core.placement.board import Scorer, board_of
from gangline_core.placement.each import is_free_of_wishes
from gangline_core.placement.fit import KEY_MAX
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.gradient import Gradient
from gangline_core.placement.lone import Pick, Scores, lone
from gangline_core.placement.models import Kinds
from gangline_core.placement.topology import topology
from gangline_core.placement.usefulness import Usefulness
from gangline_core.room.beside import NOTHING, Beside
from gangline_core.room.capacity import Ints, Room
from gangline_core.room.layout import Kind, Layout
from gangline_core.room.mix import STANDARD, Mix, Typical
from gangline_core.spec import GPU_MILLI

TOLD_APART_MILLI = 100
"""Losses of useful room are rounded to this."""
COARSE = 30
"""Where blocks decide, only losses that differ by so many times that are heard: a node whose CPU would be gone."""

LARGEST_WEIGHT = 40
"""How much a task counts that fills the largest node, beside 100 for all others: what holds it is scarcest."""
LARGEST_CPU_MILLI = 8_000
"""CPU per GPU that it asks for, as the standard mix has it."""


def default(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """Gangs as close as can be, single tasks where they cost least useful room."""
    scores, pick = beside.once(room.layout, "default", lambda: _scores(room, beside.mix))
    if not scores.knows(room, gang) and (gang.tasks > 1 or not is_free_of_wishes(gang)):
        return topology(room, gang)
    return lone(room, gang, scores, pick)


def _scores(room: Room, mix: Mix) -> tuple[Scores, Pick]:
    """The scores of a layout's nodes, and how GPUs are chosen on one."""
    layout = room.layout
    if mix is STANDARD:
        mix = layout.remember(("standard mix",), lambda: _with_largest(layout))
    asked = ("default", mix)
    scores = layout.remember(asked, lambda: Scores(board_of(room, asked), _scorer(tuple(layout.kinds), mix)))
    by_parts = has_parts(layout)

    def pick(room: Room, need: Need, kinds: Kinds, row: int) -> tuple[int, ...]:
        if need.gpus:
            return choose_gpus(room, need, kinds, row) if by_parts else ()
        return scores.gpu(room, need, kinds, row) if need.wants_gpu else ()

    return scores, pick


def _with_largest(layout: Layout) -> Mix:
    """The standard mix; where a node has more GPUs than its largest task, also tasks that only such a node holds.

    They ask for half of that node's CPU at most, so that a small task beside them does not count as their end.
    """
    counts = layout.gpu_counts
    row = int(counts.argmax()) if len(counts) else 0
    gpus = int(counts[row]) if len(counts) else 0
    if gpus <= max(task.gpus for task in STANDARD.tasks):
        return STANDARD
    cpu_milli = min(LARGEST_CPU_MILLI * gpus, layout.nodes[row].cpu_milli // 2)
    largest = Typical(cpu_milli=cpu_milli, gpus=gpus, milli=GPU_MILLI, weight=LARGEST_WEIGHT)
    return Mix(tasks=(*STANDARD.tasks, largest))


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
