"""How close the GPUs of a task lie, beside the best that each moment offers, and how whole the rest of the room stays.

Machines of eight GPUs in three builds; jobs of 1, 2, 4 and 8 GPUs come and go. Every decision is compared with the best
set of free GPUs that exists (all sets are tried), and after every decision the largest free aligned block is compared
with that of a buddy allocator that got and gave back the same jobs.
"""

import itertools
import random
from collections.abc import Iterator

from msgspec import Struct

from gangline_core.cluster import Gpu, Node, NodeUse
from gangline_core.facts import TaskPlacement
from gangline_core.ids import NodeId
from gangline_core.placement import PLACERS
from gangline_core.placement.gang import Gang, Need
from gangline_core.room.capacity import Room

GPUS = 8
NODES = 4
STEPS = 400
SIZES = (1, 1, 1, 1, 1, 1, 2, 2, 4, 8)
"""Mostly single GPUs, as in the Philly trace."""
LINKED, SWITCH, SOCKET, FAR = 1, 10, 20, 40
BUILDS = {
    "pairs": [k // 2 for k in range(GPUS)],
    "switches": list(range(GPUS)),
    "nvswitch": [0] * GPUS,
}
"""NVLink island of each GPU; switches join pairs, sockets join fours."""


class Closeness(Struct, frozen=True):
    """Means over all decisions of one build."""

    cost_ratio: float
    """Distance of the chosen GPUs over that of the closest ones that were free."""
    block_ratio: float
    """Largest free aligned block over that of the buddy allocator."""
    decisions: int


def distance(build: str, one: int, other: int) -> int:
    """What lies between two GPUs of a machine."""
    islands = BUILDS[build]
    if islands[one] == islands[other]:
        return LINKED
    if one // 2 == other // 2:
        return SWITCH
    return SOCKET if one // 4 == other // 4 else FAR


def cost(build: str, gpus: tuple[int, ...]) -> int:
    """Distance over all pairs."""
    return sum(distance(build, *pair) for pair in itertools.combinations(gpus, 2))


def machines(build: str) -> Room:
    """Empty machines of a build."""
    nodes = [
        Node(
            id=NodeId(f"n{index}"),
            agent="bench",
            cpu_milli=96_000,
            memory_mib=786_432,
            gpus=tuple(
                Gpu(index=k, model="V100", memory_mib=32_768, island=BUILDS[build][k], switch=k // 2, socket=k // 4)
                for k in range(GPUS)
            ),
        )
        for index in range(NODES)
    ]
    room = Room.of(nodes)
    for node in nodes:
        room.refresh(node, NodeUse(GPUS))
    return room


def ask(gpus: int) -> Gang:
    """One task of so many GPUs."""
    need = Need(
        role="w",
        count=1,
        gpus=gpus,
        milli=0,
        gpu_memory_mib=0,
        models=(),
        cpu_milli=1_000,
        memory_mib=1_024,
        devices={},
    )
    return Gang(needs=(need,), selector={}, tolerations=(), required="", preferred="", levels=())


class Buddies:
    """A buddy allocator over machines of eight: the smallest free block that suffices is halved until it fits."""

    def __init__(self) -> None:
        """All free."""
        self._free: dict[int, list[int]] = {8: [GPUS * k for k in range(NODES)], 4: [], 2: [], 1: []}

    def take(self, size: int) -> int | None:
        """Where a block of this size begins; None when there is none."""
        large = next((s for s in (1, 2, 4, 8) if s >= size and self._free[s]), None)
        if large is None:
            return None
        begin = min(self._free[large])
        self._free[large].remove(begin)
        while large > size:
            large //= 2
            self._free[large].append(begin + large)
        return begin

    def give(self, begin: int, size: int) -> None:
        """Give a block back; free halves become one again."""
        while size < GPUS and (buddy := begin ^ size) in self._free[size]:
            self._free[size].remove(buddy)
            begin, size = min(begin, buddy), size * 2
        self._free[size].append(begin)

    @property
    def largest(self) -> int:
        """The largest free block."""
        return next((size for size in (8, 4, 2, 1) if self._free[size]), 0)


def largest_block(room: Room) -> int:
    """The largest aligned block of free GPUs on any machine."""
    for size in (8, 4, 2, 1):
        for row in range(NODES):
            free = [milli == 1000 for milli in room.milli[row].tolist()]
            if any(all(free[begin : begin + size]) for begin in range(0, GPUS, size)):
                return size
    return 0


def closest(room: Room, build: str, size: int) -> int | None:
    """The least distance that any set of free GPUs of one machine has; None when no machine has enough."""
    best: int | None = None
    for row in range(NODES):
        free = [k for k, milli in enumerate(room.milli[row].tolist()) if milli == 1000]
        for chosen in itertools.combinations(free, size):
            own = cost(build, chosen)
            best = own if best is None else min(best, own)
    return best


def compare(build: str, placer: str, seed: int) -> Closeness:
    """One sequence of arrivals and departures."""
    chance = random.Random(seed)
    room, buddies = machines(build), Buddies()
    live: list[tuple[TaskPlacement, int, int]] = []
    found = best = decisions = 0
    ours = theirs = 0
    for size in _coming(chance):
        while live and chance.random() < len(live) / 24:
            task, begin, held = live.pop(chance.randrange(len(live)))
            room.give(task)
            buddies.give(begin, held)
        seats = PLACERS[placer](room, ask(size))
        at = buddies.take(size)
        if at is None or seats is None:
            # Only what both can place goes in, so that the same jobs are compared.
            if at is not None:
                buddies.give(at, size)
            continue
        (task,) = seats.tasks
        optimum = closest(room, build, size)
        decisions += 1
        found += cost(build, tuple(share.index for share in task.gpus))
        best += optimum or 0
        room.take(task)
        live.append((task, at, size))
        ours += largest_block(room)
        theirs += buddies.largest
    return Closeness(cost_ratio=found / max(1, best), block_ratio=ours / max(1, theirs), decisions=decisions)


def _coming(chance: random.Random) -> Iterator[int]:
    for _ in range(STEPS):
        yield chance.choice(SIZES)
