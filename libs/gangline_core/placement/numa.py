"""Tasks that stand on one CPU socket (NUMA node), and nodes scored by how their sockets would be filled.

Source: NodeResourceTopology of kubernetes-sigs/scheduler-plugins: the single-NUMA filter and the strategies
LeastAllocated, MostAllocated, BalancedAllocation and LeastNUMANodes. A zone is a socket with its GPUs and an even
part of its node's CPU and memory; what is free of those is taken to be spread evenly, too, since tasks are bound to
GPUs and not to cores. Whatever fits no single zone is refused by the first three; the fourth only prefers few zones.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from gangline_core.placement.each import by_keys, each
from gangline_core.placement.fit import KEY_MAX, whole_gpus
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import NO_KIND, Ints, Room

SCORE_MAX = 100
ZONES_MAX = 8
"""More zones than this on one node are not told apart."""
FAR = 255
"""Distance of zones of which none is told."""

Amounts = Mapping[str, int]
Strategy = Callable[[Amounts, Amounts], int]


class Zone(Struct, frozen=True):
    """What one socket has free, by resource."""

    free: dict[str, int]


def fits_zone(zone: Zone, request: Amounts) -> bool:
    """True when the zone has everything that is asked for; a resource asked 0 of does not matter."""
    return all(amount <= zone.free.get(name, 0) for name, amount in request.items() if amount)


def least(request: Amounts, free: Amounts) -> int:
    """Mean of what would be left, in per cent; 0 for a resource that does not suffice."""
    parts = [_left(amount, free.get(name, 0)) for name, amount in request.items() if amount]
    return sum(parts) // len(parts) if parts else SCORE_MAX


def most(request: Amounts, free: Amounts) -> int:
    """Mean of what would be taken, in per cent."""
    parts = [_taken(amount, free.get(name, 0)) for name, amount in request.items() if amount]
    return sum(parts) // len(parts) if parts else SCORE_MAX


def balanced(request: Amounts, free: Amounts) -> int:
    """How evenly resources would be taken: 100 less a hundred times the sample variance of the parts."""
    parts = [amount / free[name] if free.get(name) else 1.0 for name, amount in request.items() if amount]
    if any(part > 1 for part in parts):
        return 0
    return int((1 - _variance(parts)) * SCORE_MAX)


def _left(amount: int, free: int) -> int:
    return 0 if amount > free or not free else (free - amount) * SCORE_MAX // free


def _taken(amount: int, free: int) -> int:
    return 0 if amount > free or not free else amount * SCORE_MAX // free


def _variance(parts: Sequence[float]) -> float:
    if len(parts) < 2:
        return 0.0
    mean = sum(parts) / len(parts)
    return sum((part - mean) ** 2 for part in parts) / (len(parts) - 1)


def node_score(zones: Sequence[Zone], request: Amounts, strategy: Strategy) -> int:
    """The lowest score above 0 of any zone; 0 when no zone scores."""
    scores = [strategy(request, zone.free) for zone in zones]
    return min((score for score in scores if score), default=0)


def least_zones(zones: Sequence[Zone], request: Amounts, distance: Sequence[Sequence[int]] = ()) -> int:
    """The fewer zones the request needs, and the closer they are, the higher; 0 where all together do not suffice."""
    return least_zones_together(zones, [request], distance)


def least_zones_together(
    zones: Sequence[Zone], requests: Sequence[Amounts], distance: Sequence[Sequence[int]] = ()
) -> int:
    """The worst score of requests that stand on one node together, each taking from the zones it is given."""
    left = [dict(zone.free) for zone in zones]
    worst = SCORE_MAX
    for request in requests:
        score, chosen = _fewest([Zone(free=free) for free in left], request, distance)
        worst = min(worst, score)
        if chosen is None:
            return 0
        _take(left, chosen, request)
    return worst


def _fewest(
    zones: Sequence[Zone], request: Amounts, distance: Sequence[Sequence[int]]
) -> tuple[int, tuple[int, ...] | None]:
    """The score of one request and the zones it is given: as few as can be, of these the closest, then the first."""
    step = SCORE_MAX // ZONES_MAX
    for count in range(1, len(zones) + 1):
        sets = list(itertools.combinations(range(len(zones)), count))
        fitting = [chosen for chosen in sets if _together(zones, chosen, request)]
        if fitting:
            given = min(fitting, key=lambda chosen: _mean_distance(chosen, distance))
            best = min(_mean_distance(chosen, distance) for chosen in sets)
            is_closest = _mean_distance(given, distance) == best
            return SCORE_MAX - count * step + (step // 2 if is_closest else 0), given
    return 0, None


def _take(left: Sequence[dict[str, int]], chosen: Sequence[int], request: Amounts) -> None:
    """Take the request from these zones, the first ones first."""
    for name, amount in request.items():
        for k in chosen:
            part = min(amount, left[k].get(name, 0))
            left[k][name] = left[k].get(name, 0) - part
            amount -= part


def _together(zones: Sequence[Zone], chosen: Sequence[int], request: Amounts) -> bool:
    return all(amount <= sum(zones[k].free.get(name, 0) for k in chosen) for name, amount in request.items() if amount)


def _mean_distance(chosen: Sequence[int], distance: Sequence[Sequence[int]]) -> float:
    pairs = [(a, b) for a in chosen for b in chosen]
    return sum(distance[a][b] if distance else FAR for a, b in pairs) / len(pairs)


# --- placers ------------------------------------------------------------------------------------------------


def numa_least(room: Room, gang: Gang) -> Seats | None:
    """On one socket, where most is left."""
    return _place(room, gang, lambda zones, request: node_score(zones, request, least), single=True)


def numa_most(room: Room, gang: Gang) -> Seats | None:
    """On one socket, where least is left."""
    return _place(room, gang, lambda zones, request: node_score(zones, request, most), single=True)


def numa_balanced(room: Room, gang: Gang) -> Seats | None:
    """On one socket, where GPUs, CPU and memory are taken most evenly."""
    return _place(room, gang, lambda zones, request: node_score(zones, request, balanced), single=True)


def numa_fewest(room: Room, gang: Gang) -> Seats | None:
    """On as few sockets as possible, one or more."""
    return _place(room, gang, least_zones, single=False)


def _place(room: Room, gang: Gang, score: Callable[[Sequence[Zone], Amounts], int], *, single: bool) -> Seats | None:
    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        request = _request(need)
        found = np.full(len(room.cpu), KEY_MAX, dtype=np.int64)
        for row in range(len(found)):
            zones = zones_of(room, kinds, row)
            if not single or any(fits_zone(zone, request) for zone in zones):
                found[row] = SCORE_MAX - score(zones, request)
        return found

    def pick(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
        if not need.gpus:
            return ()
        free = whole_gpus(room, kinds)[row].tolist()
        socket = room.layout.socket[row].tolist()
        able = [[k for k in range(len(free)) if free[k] and socket[k] == number] for number in sorted(set(socket))]
        holding = [gpus for gpus in able if len(gpus) >= need.gpus]
        return tuple(min(holding, key=lambda gpus: (len(gpus), gpus[0]))[: need.gpus]) if holding else ()

    return each(room, gang, by_keys(keys, pick), keys=keys)


def zones_of(room: Room, kinds: Sequence[int], row: int) -> list[Zone]:
    """The sockets of a node with what is free on each."""
    layout = room.layout
    socket = layout.socket[row]
    numbers = sorted({int(number) for number in socket if number >= 0}) or [-1]
    whole = whole_gpus(room, kinds)[row] if kinds else np.zeros(layout.width, dtype=np.bool_)
    usable = layout.kind[row] != NO_KIND
    return [
        Zone(
            free={
                "gpu": int((whole & (socket == number)).sum()),
                "gpu_milli": int(np.where(usable & (socket == number), room.milli[row], 0).clip(0).max(initial=0)),
                "cpu_milli": max(0, int(room.cpu[row])) // len(numbers),
                "memory_mib": max(0, int(room.memory[row])) // len(numbers),
            }
        )
        for number in numbers
    ]


def _request(need: Need) -> dict[str, int]:
    return {"gpu": need.gpus, "gpu_milli": need.milli, "cpu_milli": need.cpu_milli, "memory_mib": need.memory_mib}
