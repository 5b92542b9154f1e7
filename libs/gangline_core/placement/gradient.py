"""What placing a task costs each node in useful room: every way to place it there is tried in thought."""

from collections.abc import Callable, Sequence

import numpy as np

from gangline_core.placement.fit import KEY_MAX, share_of_kind
from gangline_core.placement.gang import Need
from gangline_core.placement.usefulness import Usefulness
from gangline_core.room.capacity import NO_KIND, Flags, Ints, Room
from gangline_core.room.layout import Parts
from gangline_core.spec import GPU_MILLI

NEVER_MILLI = 1 << 40

Rate = Callable[[Ints, Ints], Ints]
"""Keys, smaller is better, from the useful room lost and the thousandths taken, both `Usefulness.scale` times."""


class Gradient:
    """A scorer by lost usefulness (see `board.Scorer`)."""

    def __init__(self, usefulness: Usefulness, rate: Rate) -> None:
        """The measure, and how a loss of it becomes a key."""
        self._usefulness = usefulness
        self._rate = rate

    def __call__(self, room: Room, need: Need, kinds: Sequence[int], rows: Ints) -> tuple[Ints, Ints]:
        """Keys of these rows, and the GPU a share would take on each."""
        keys = np.full(len(rows), KEY_MAX, dtype=np.int64)
        gpu = np.full(len(rows), -1, dtype=np.int64)
        able = (room.cpu[rows] >= max(0, need.cpu_milli)) & (room.memory[rows] >= max(0, need.memory_mib))
        if need.is_share:
            self._share(room, need, kinds, rows, np.flatnonzero(able), keys, gpu)
        else:
            self._whole(room, need, kinds, rows, np.flatnonzero(able), keys)
        return keys, gpu

    def _whole(self, room: Room, need: Need, kinds: Sequence[int], rows: Ints, able: Ints, keys: Ints) -> None:
        own = rows[able]
        milli, kind, cpu = room.milli[own], room.layout.kind[own], room.cpu[own]
        left = milli
        if need.gpus:
            empty = (milli == GPU_MILLI) & (room.gpu_memory[own] == room.layout.uncut[own])
            empty &= _is_one_of(room, kinds)[kind + 1]
            order = empty.cumsum(axis=1)
            fits = order[:, -1] >= need.gpus
            able, own, milli, kind, cpu = able[fits], own[fits], milli[fits], kind[fits], cpu[fits]
            left = np.where(empty[fits] & (order[fits] <= need.gpus), 0, milli)
        if not len(own):
            return
        both = self._usefulness.of(
            np.concatenate((milli, left)), np.concatenate((kind, kind)), np.concatenate((cpu, cpu - need.cpu_milli))
        )
        taken = np.full(len(own), need.gpus * GPU_MILLI * self._usefulness.scale, dtype=np.int64)
        keys[able] = self._rate(both[: len(own)] - both[len(own) :], taken)

    def _share(
        self, room: Room, need: Need, kinds: Sequence[int], rows: Ints, able: Ints, keys: Ints, gpu: Ints
    ) -> None:
        own = rows[able]
        milli, kind = room.milli[own], room.layout.kind[own]
        asked = _asked(room, need, kinds)[:, kind + 1]
        fits = (milli >= asked[0]) & (room.gpu_memory[own] >= asked[1]) & (kind != NO_KIND)
        node, column = np.nonzero(fits & ~_repeated(milli, kind, room.gpu_memory[own] if need.gpu_memory_mib else None))
        if not len(node):
            return
        left = milli[node]
        took = asked[0][node, column]
        left[np.arange(len(node)), column] -= took
        cpu = room.cpu[own]
        both = self._usefulness.of(
            np.concatenate((milli, left)),
            np.concatenate((kind, kind[node])),
            np.concatenate((cpu, cpu[node] - need.cpu_milli)),
        )
        found = self._rate(both[: len(own)][node] - both[len(own) :], took * self._usefulness.scale)
        if len(own) == 1:
            # One node, as so often: the first of its best GPUs.
            best_of_all = int(found.argmin())
            keys[able[0]], gpu[able[0]] = found[best_of_all], column[best_of_all]
            return
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        least = np.minimum.reduceat(found, starts)
        best = np.flatnonzero(found == np.repeat(least, np.diff(starts, append=len(node))))
        first = best[np.flatnonzero(np.diff(node[best], prepend=-1))]
        keys[able[node[first]]] = found[first]
        gpu[able[node[first]]] = column[first]


def _is_one_of(room: Room, kinds: Sequence[int]) -> Flags:
    """Whether a GPU is of one of these kinds, by kind + 1."""

    def work_out() -> Flags:
        found = np.zeros(len(room.layout.kinds) + 1, dtype=np.bool_)
        found[[number + 1 for number in kinds]] = True
        return found

    return room.layout.remember(("one of", *kinds), work_out)


def _asked(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """Thousandths and MiB that the share takes of a card, by kind + 1; more than any card has where it may not go."""
    asked = np.full((2, len(room.layout.kinds) + 1), NEVER_MILLI, dtype=np.int64)
    for number in kinds:
        asked[:, number + 1] = share_of_kind(room, need, number)
    return asked


def _repeated(milli: Ints, kind: Parts, memory: Ints | None) -> Flags:
    """GPUs that are in no way different from an earlier one of their node."""
    same = (milli[:, :, None] == milli[:, None, :]) & (kind[:, :, None] == kind[:, None, :])
    if memory is not None:
        same &= memory[:, :, None] == memory[:, None, :]
    earlier = np.tri(milli.shape[1], k=-1, dtype=np.bool_)
    found: Flags = (same & earlier).any(axis=2)
    return found
