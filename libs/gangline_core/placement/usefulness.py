"""How much of a node's free GPU room the usual tasks could use: the measure behind fragmentation-aware placement.

For each kind of task in the mix, a node's free GPU thousandths are split into what such tasks could use and what they
could not (its fragment). Two readings of "could use" are counted, both weighted by how often the kind is asked for:

- by cards, as FGD has it (ATC 2023, 4.2): everything free on the cards that hold one such task, provided that the node
  has enough such cards and the CPU for one task;
- by tasks: what the tasks that fit at once would really take, where CPU counts by the share that each would need.

All numbers are integers, so equal inputs give equal results on every machine.
"""

from collections.abc import Sequence

import numpy as np

from gangline_core.room.capacity import NO_KIND, Ints, Room
from gangline_core.room.layout import Kind, Parts
from gangline_core.room.mix import Mix
from gangline_core.spec import GPU_MILLI

_COUNT_BITS = 8
_SUM_BITS = 24
_COUNT_MASK = (1 << _COUNT_BITS) - 1
_SUM_MASK = (1 << _SUM_BITS) - 1
_FINE = 20
"""Bits of a fixed-point number: GPU thousandths per CPU thousandth."""


class Usefulness:
    """The measure for one mix of tasks on GPUs of these kinds."""

    def __init__(self, kinds: Sequence[Kind], mix: Mix, *, by_tasks: bool) -> None:
        """By cards; with `by_tasks` by the sum of both readings."""
        tasks = [task for task in mix.tasks if task.gpus]
        self.by_tasks = by_tasks
        self.scale = mix.total * (2 if by_tasks else 1)
        """By so much the measure is larger than thousandths of a GPU."""
        groups = sorted({(task.milli, tuple(_fits(task.accepts(k.model), k) for k in kinds)) for task in tasks})
        number = {group: k for k, group in enumerate(groups)}
        self._group = np.array(
            [number[task.milli, tuple(_fits(task.accepts(k.model), k) for k in kinds)] for task in tasks],
            dtype=np.int64,
        )
        self._gpus = np.array([task.gpus for task in tasks], dtype=np.int64)[:, None]
        self._cpu = np.array([task.cpu_milli for task in tasks], dtype=np.int64)[:, None]
        self._weight = np.array([task.weight for task in tasks], dtype=np.int64)
        self._per_cpu = np.array(
            [((task.gpus * task.milli) << _FINE) // max(1, task.cpu_milli) for task in tasks], dtype=np.int64
        )[:, None]
        self._several = [(k, task.gpus) for k, task in enumerate(tasks) if task.gpus > 1]
        self._table = _table(groups, len(kinds))

    def of(self, milli: Ints, kind: Parts, cpu: Ints) -> Ints:
        """The useful room of each node: free thousandths (nodes x GPUs), kinds of the GPUs, free CPU.

        Useful for whom is averaged over the mix, so the result is `scale` times thousandths of a GPU. Tasks without
        GPUs find no use in any.
        """
        if not len(self._group):
            return np.zeros(len(cpu), dtype=np.int64)
        index = np.where(kind == NO_KIND, 0, (kind.astype(np.int64) + 1) * (GPU_MILLI + 1) + np.maximum(milli, 0))
        packed = self._table[:, index].sum(axis=2)[self._group]
        count = packed & _COUNT_MASK
        able = (count >= self._gpus) & (cpu >= self._cpu)
        useful = (packed >> _COUNT_BITS) & _SUM_MASK
        if self.by_tasks:
            taken = packed >> (_COUNT_BITS + _SUM_BITS)
            for k, gpus in self._several:
                taken[k] = count[k] // gpus * (gpus * GPU_MILLI)
            useful = useful + np.minimum(taken, (cpu * self._per_cpu) >> _FINE)
        found: Ints = self._weight @ np.where(able, useful, 0)
        return found

    def at(self, room: Room, rows: Ints) -> Ints:
        """The useful room of these rows as they are."""
        return self.of(room.milli[rows], room.layout.kind[rows], room.cpu[rows])

    def fragment(self, room: Room) -> float:
        """Free GPU room that the usual tasks could not use, over all nodes, in thousandths of a GPU."""
        free = int(np.where(room.layout.kind == NO_KIND, 0, room.milli.clip(0)).sum())
        return free - int(self.at(room, np.arange(len(room.cpu))).sum()) / max(1, self.scale)


def _fits(accepted: bool, kind: Kind) -> bool:
    """Cards that are cut into slices are not given out by thousandths."""
    return accepted and not kind.mig


def _table(groups: list[tuple[int, tuple[bool, ...]]], kinds: int) -> Ints:
    """By group of tasks, kind of card and thousandths free on it: whether it counts, what is free, what tasks take."""
    free = np.arange(GPU_MILLI + 1, dtype=np.int64)
    table = np.zeros((len(groups), kinds + 1, GPU_MILLI + 1), dtype=np.int64)
    for k, (milli, accepted) in enumerate(groups):
        packed = np.where(
            free >= milli,
            1 + (free << _COUNT_BITS) + ((free // milli * milli) << (_COUNT_BITS + _SUM_BITS)),
            0,
        )
        for number in np.flatnonzero(accepted).tolist():
            table[k, number + 1] = packed
    return table.reshape(len(groups), (kinds + 1) * (GPU_MILLI + 1))
