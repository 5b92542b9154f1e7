"""How a node looks: how its GPUs are built and what is free of them; all that follows from it is worked out once.

However many nodes a pool has, few of them look differently, and one task takes them from look to look.
"""

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gangline_core.job import GpuShare

Answer = TypeVar("Answer")
Ints = NDArray[np.int64]

LOOKS_MAX = 65_536
"""Looks of one layout that are remembered."""
STEPS_MAX = 256
"""What is remembered of one look, of each sort."""

LookKey = tuple[int, bytes, bytes]
"""The build of a node (see `layout.Layout.build`), and the thousandths and MiB free on each GPU."""


class Counts(NamedTuple):
    """Whole free GPUs of a node."""

    free: int
    linked: int
    """The most in one NVLink island."""
    switched: int
    """The most below one PCIe switch."""
    socketed: int
    """The most on one socket."""
    by_kind: tuple[int, ...]


class Look:
    """One look, with what was asked of it before."""

    __slots__ = ("after", "chosen", "counts", "memory", "milli")

    def __init__(self, counts: Counts, milli: Ints, memory: Ints) -> None:
        """A look with so many whole free GPUs, and what is free on each."""
        self.counts = counts
        self.milli, self.memory = milli, memory
        self.chosen: dict[Hashable, tuple[GpuShare, ...] | None] = {}
        """By what a task asks of GPUs, those that it takes; None where it does not fit."""
        self.after: dict[tuple[int, tuple[GpuShare, ...]], Look] = {}
        """How the node looks after somebody took (-1) or gave back (1) these."""


class Looks:
    """All looks of one layout."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.known: dict[LookKey, Look] = {}

    def enter(self, key: LookKey, counts: Counts, milli: Ints, memory: Ints) -> Look:
        """A look that was not seen before."""
        if len(self.known) >= LOOKS_MAX:
            # Rooms still show some of them: without what leads from one to the next, nothing holds the others.
            for look in self.known.values():
                look.after.clear()
                look.chosen.clear()
            self.known.clear()
        look = self.known[key] = Look(counts, milli, memory)
        return look


def note(known: dict[Hashable, Answer], key: Hashable, value: Answer) -> None:
    """Remember one more answer, within bounds."""
    if len(known) >= STEPS_MAX:
        known.clear()
    known[key] = value
