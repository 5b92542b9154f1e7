"""What the ways between a node's GPUs carry, and which of several GPUs are joined best. Pure.

Words and speeds come from the agent (see `Gpu.paths`): over NVLinks their number times what one carries, over PCIe what
the slower slot carries, halved where the way leaves the switches and halved again where it leaves the socket. The
halves stand for what is shared there with others; they only order ways of which nobody measured the speed.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from gangline_core.cluster import Gpu

PCIE_PART = {"PIX": 1, "PXB": 1, "PHB": 2, "NODE": 2, "SYS": 4}
"""By how much a way over PCIe is slower than its slots."""
TRIED_MAX = 3_000
"""So many choices are compared; where there are more, each GPU is tried with those that join it best, one by one."""

Links = tuple[tuple[int, ...], ...]


@lru_cache(maxsize=4096)
def links_of(gpus: tuple[Gpu, ...]) -> Links:
    """MiB per second between each two, by index; empty where nothing tells them apart."""
    width = max((gpu.index for gpu in gpus), default=-1) + 1
    by_index = {gpu.index: gpu for gpu in gpus}
    found = tuple(tuple(_mib_s(by_index.get(a), by_index.get(b), b) for b in range(width)) for a in range(width))
    between = {found[a][b] for a in by_index for b in by_index if a != b}
    return found if len(between) > 1 else ()


def _mib_s(here: Gpu | None, there: Gpu | None, index: int) -> int:
    path = here.paths[index] if here is not None and index < len(here.paths) else ""
    if here is None or there is None or not path:
        return 0
    if path.startswith("NV") and path[2:].isdigit():
        return int(path[2:]) * max(1, here.nvlink_mib_s)
    return max(1, min(here.pcie_mib_s, there.pcie_mib_s)) // PCIE_PART[path] if path in PCIE_PART else 0


def best_joined(free: Sequence[int], links: Links, count: int) -> list[int]:
    """`count` of these: the slowest way between them as fast as can be, then all together, then the lowest indexes."""
    if count >= len(free) or count < 2:
        return list(free[:count])
    tried = 1
    for k in range(count):
        tried = tried * (len(free) - k) // (k + 1)
    if tried <= TRIED_MAX:
        choices = [list(chosen) for chosen in combinations(free, count)]
        return max(choices, key=lambda chosen: _rank(chosen, links))
    return max((_grown(first, free, links, count) for first in free), key=lambda chosen: _rank(chosen, links))


def _grown(first: int, free: Sequence[int], links: Links, count: int) -> list[int]:
    """One GPU and those that join it best, one by one."""
    chosen = [first]
    while len(chosen) < count:
        left = [k for k in free if k not in chosen]
        chosen.append(max(left, key=lambda k: (_joined((*chosen, k), links), -k)))
    return sorted(chosen)


def _rank(chosen: Sequence[int], links: Links) -> tuple[tuple[int, int], list[int]]:
    return _joined(chosen, links), [-k for k in chosen]


def _joined(chosen: Sequence[int], links: Links) -> tuple[int, int]:
    ways = [links[a][b] for a, b in combinations(chosen, 2)]
    return min(ways), sum(ways)
