"""Fragmentation gradient descent (FGD): every task goes where it makes the least free GPU room useless.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, sections 4.2 and 4.3. A node's fragment for a kind of task is the free room that such tasks could not
use; the node's measure is the mean over the usual mix. A node's score is 100 times the sigmoid of the fragment that the
task saves there, in GPUs, cut to an integer; of equal nodes the first in node order wins, of equal GPUs the first.

The mix is what the pool's jobs asked for lately (see `beside`). Tasks of a gang are placed one after the other.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gangline_core.placement.board import Board, allowed, board_of
from gangline_core.placement.each import Spot, each, is_free_of_wishes
from gangline_core.placement.fit import KEY_MAX
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.gradient import Gradient
from gangline_core.placement.lone import Scores, lone
from gangline_core.placement.models import Kinds
from gangline_core.placement.usefulness import Usefulness
from gangline_core.room.beside import NOTHING, Beside
from gangline_core.room.capacity import Flags, Ints, Room
from gangline_core.room.layout import Kind
from gangline_core.room.mix import Mix
from gangline_core.spec import GPU_MILLI

SCORE_MAX = 100


def fgd(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """Each task where the fragmentation gradient is steepest downwards."""

    def work_out() -> tuple[Gradient, Board, Scores]:
        layout = room.layout
        gradient, board = _gradient(tuple(layout.kinds), beside.mix), board_of(room, ("fgd", beside.mix))
        return gradient, board, layout.remember(("fgd", beside.mix), lambda: Scores(board, gradient))

    gradient, board, own = beside.once(room.layout, "fgd", work_out)
    if gang.tasks == 1 and is_free_of_wishes(gang):
        return lone(room, gang, own, own.gpu)

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        return board.scores(room, need, tuple(kinds), gradient)[0]

    def choose(room: Room, need: Need, kinds: Kinds, mask: Flags) -> Spot | None:
        scores, gpu = board.scores(room, need, kinds, gradient)
        return best_spot(scores, gpu, allowed(room, need, mask))

    return each(room, gang, choose, keys=keys)


def best_spot(keys: Ints, gpu: Ints, mask: Flags) -> Spot | None:
    """The node of the mask with the smallest key, the first of equal ones; and the GPU for a share there."""
    row = int(np.where(mask, keys, KEY_MAX).argmin())
    if not mask[row] or keys[row] >= KEY_MAX:
        return None
    return Spot(row=row, gpus=(int(gpu[row]),) if gpu[row] >= 0 else ())


@lru_cache(maxsize=16)
def _gradient(kinds: tuple[Kind, ...], mix: Mix) -> Gradient:
    usefulness = Usefulness(kinds, mix, by_tasks=False)
    # The score reaches k where the saved fragment reaches this many thousandths of a GPU.
    steps = [GPU_MILLI * math.log(k / (SCORE_MAX - k)) for k in range(1, SCORE_MAX)]
    thresholds = np.array([math.ceil(step * usefulness.scale) for step in steps], dtype=np.int64)

    def rate(lost: Ints, taken: Ints) -> Ints:
        return SCORE_MAX - np.searchsorted(thresholds, taken - lost, side="right")

    return Gradient(usefulness, rate)
