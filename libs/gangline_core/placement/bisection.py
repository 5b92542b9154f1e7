"""Topology-aware mapping by recursive bisection: the job is cut where the machine is cut, and the best utility wins.

Source: Amaral et al., "Topology-aware GPU scheduling for learning workloads in cloud environments", SC 2017: the free
part of the physical graph is split in two at its weakest links and the job's graph with it, down to single GPUs; the
utility of the mapping weighs communication, interference and fragmentation. Where the pool says so
(`postpone_percent`), a task is postponed while its best place has less utility than that, unless even an empty node
could not give it more. Communication is all to all, as in data-parallel training; interference is the part of the
GPUs on the same socket that others use, for nothing better is known before a run.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from gangline_core.placement.each import all_kinds, by_keys, each, is_free_of_wishes
from gangline_core.placement.fit import KEY_MAX, fullest_first, whole_gpus
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.topology import topology
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.beside import NOTHING, Beside
from gangline_core.room.capacity import NO_KIND, Ints, Room

LEVELS = ("socket", "switch", "nvlink")
"""Where a node is cut, widest first."""
DISTANCE = {"nvlink": 1, "switch": 10, "socket": 20, "node": 40}
COMMUNICATION, INTERFERENCE, FRAGMENTATION = 50, 25, 25
"""Weights of the utility's parts, in per cent."""
SCALE = 10_000


def bisection(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """A task on the node and the GPUs with the highest utility; gangs of several tasks as close as can be."""
    if gang.tasks > 1 or not is_free_of_wishes(gang):
        return topology(room, gang)
    least = _least_utility(room, gang, beside)
    if not least:
        return each(room, gang, by_keys(_keys, _pick), keys=_keys)

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        found = _keys(room, need, kinds)
        found[found > SCALE - least] = KEY_MAX
        return found

    return each(room, gang, by_keys(keys, _pick), keys=keys)


def postponed(room: Room, gang: Gang, beside: Beside) -> Reason | None:
    """The reason of a task that has room and waits for a better place; None of any other."""
    least = _least_utility(room, gang, beside) if gang.tasks == 1 and is_free_of_wishes(gang) else 0
    if not least or bisection(room, gang) is None or bisection(room, gang, beside) is not None:
        return None
    kinds = all_kinds(room, gang.needs[0])
    keys = np.where(gang.mask(room.layout), _keys(room, gang.needs[0], kinds), SCALE)
    best = SCALE - min(SCALE, int(keys.min()))
    return Reason(ReasonCode.POSTPONED, {"least": least * 100 // SCALE, "best": best * 100 // SCALE})


def _least_utility(room: Room, gang: Gang, beside: Beside) -> int:
    """The utility below which a task waits: the pool's, or what the best empty node gives if that is less."""
    need, percent = gang.needs[0], beside.postpone_percent
    if not percent or not need.gpus:
        return 0
    kinds = all_kinds(room, need)
    asked = ("best utility", need.gpus, kinds, gang.mask(room.layout).tobytes())
    reachable = room.layout.remember(asked, lambda: _reachable(room, gang, kinds))
    return min(percent * SCALE // 100, reachable)


def _reachable(room: Room, gang: Gang, kinds: Sequence[int]) -> int:
    """The best utility that any node the gang may use would give it, were the node empty."""
    layout, count = room.layout, gang.needs[0].gpus
    empty = np.isin(layout.kind, list(kinds))
    rows = np.flatnonzero(gang.mask(layout) & (empty.sum(axis=1) >= count)).tolist()
    alike: dict[bytes, int] = {}
    for row in rows:
        parts = np.stack([layout.part(level)[row] for level in LEVELS])
        alike.setdefault(empty[row].tobytes() + parts.tobytes(), row)
    return max((utility(room, k, map_task(room, k, empty[k], count), empty[k]) for k in alike.values()), default=0)


def _keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    if not need.gpus:
        return fullest_first(room, need, kinds)
    free = whole_gpus(room, kinds)
    keys = np.full(len(room.cpu), KEY_MAX - 1, dtype=np.int64)
    known: dict[bytes, int] = {}
    for row in np.flatnonzero(free.sum(axis=1) >= need.gpus).tolist():
        parts = np.stack([room.layout.part(level)[row] for level in LEVELS])
        alike = free[row].tobytes() + parts.tobytes() + room.layout.kind[row].tobytes()
        if alike not in known:
            known[alike] = SCALE - utility(room, row, map_task(room, row, free[row], need.gpus), free[row])
        keys[row] = known[alike]
    return keys


def _pick(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
    return map_task(room, row, whole_gpus(room, kinds)[row], need.gpus) if need.gpus else ()


def map_task(room: Room, row: int, free: Ints, count: int) -> tuple[int, ...]:
    """`count` free GPUs of a node: halves that hold all of the task are preferred, else it is cut at the same place."""
    parts = [room.layout.part(level)[row].tolist() for level in LEVELS]
    return tuple(sorted(_cut(np.flatnonzero(free).tolist(), parts, count)))


def _cut(free: list[int], parts: list[list[int]], count: int) -> list[int]:
    if count >= len(free) or not parts:
        return free[:count]
    halves: dict[int, list[int]] = {}
    for k in free:
        halves.setdefault(parts[0][k], []).append(k)
    able = [half for half in halves.values() if len(half) >= count]
    if able:
        return _cut(min(able, key=lambda half: (len(half), half[0])), parts[1:], count)
    chosen: list[int] = []
    for half in sorted(halves.values(), key=lambda half: (-len(half), half[0])):
        chosen += _cut(half, parts[1:], min(len(half), count - len(chosen)))
    return chosen


def utility(room: Room, row: int, gpus: Sequence[int], free: Ints) -> int:
    """0..SCALE: close GPUs, quiet sockets, little left in pieces."""
    layout = room.layout
    parts = {level: layout.part(level)[row].tolist() for level in LEVELS}
    pairs = list(itertools.combinations(gpus, 2))
    far = sum(_distance(parts, one, other) for one, other in pairs)
    closeness = SCALE * DISTANCE["nvlink"] * len(pairs) // far if far else SCALE
    sockets = {parts["socket"][k] for k in gpus}
    beside = [k for k, number in enumerate(parts["socket"]) if number in sockets and layout.kind[row, k] != NO_KIND]
    busy = sum(1 for k in beside if not free[k])
    quiet = SCALE - SCALE * busy // max(1, len(beside))
    left = int(free.sum()) - len(gpus)
    owned = int((layout.kind[row] != NO_KIND).sum())
    whole = SCALE - SCALE * left // max(1, owned)
    return (COMMUNICATION * closeness + INTERFERENCE * quiet + FRAGMENTATION * whole) // 100


def _distance(parts: dict[str, list[int]], one: int, other: int) -> int:
    for level in reversed(LEVELS):
        if parts[level][one] == parts[level][other]:
            return DISTANCE[level]
    return DISTANCE["node"]
