"""The cheapest set of victims among many, and proof that it is: what fails tells of whom at least one has to go.

Room only grows with victims. So a set that does not help, grown by all who could go as well without helping, leaves
others, of whom one must go. The cheapest set with one of each such group costs no more than any set that helps: if it
helps it is the cheapest there is, if not it fails and names one more group (implicit hitting sets: Moreno-Centeno and
Karp, Operations Research 61(2), 2013). Sets are masks of bits, one per victim.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gangline_core.placement.together import Work

STEPS_MAX = 20_000
"""Steps of one search for the cheapest set with one of each group."""

Asked = Callable[[int], bool]
Groups = dict[int, list[tuple[int, int]]]
"""Sets of whom one must go: the bit and the weight of each of them, the cheapest first."""


class Known(NamedTuple):
    """What was found out before."""

    do: Sequence[int] = ()
    """Sets that help."""
    do_not: Sequence[int] = ()
    """Sets that do not."""


NOTHING_KNOWN = Known()


def cheapest(
    weights: Sequence[int], helps: Asked, may: Asked, *, below: int | None, known: Known = NOTHING_KNOWN
) -> int | None:
    """The cheapest set that helps and may go, below a weight where one is given; None when there is none.

    All together help. With more who go, a set that helps still does, and one that may not go still may not. `helps`
    raises GaveUpError when it was asked as often as it may be; nothing is known then.
    """
    do, do_not = list(known.do), list(known.do_not)
    order = sorted(range(len(weights)), key=lambda k: (weights[k], k))
    groups: Groups = {}

    def asked(some: int) -> bool:
        if any(not one & ~some for one in do):
            return True
        if any(not some & ~one for one in do_not):
            return False
        found = helps(some)
        (do if found else do_not).append(some)
        return found

    while True:
        some = _one_of_each(groups, may, below)
        if some is None or asked(some):
            return some
        group = _of_whom_one_must_go(some, order, asked)
        groups[group] = [(1 << k, weights[k]) for k in order if group >> k & 1]


def _of_whom_one_must_go(some: int, order: Sequence[int], helps: Asked) -> int:
    """Those left when a set that does not help has grown as far as it still does not, by the cheapest first."""
    rest = [k for k in order if not some >> k & 1]
    group = 0
    while rest and not (group and not helps(some | _mask(rest))):
        # So many of the rest in a row do not help, and so many do.
        low, high = 0, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            if helps(some | _mask(rest[:middle])):
                high = middle
            else:
                low = middle
        some |= _mask(rest[:low])
        group |= _mask(rest[low:high])
        rest = rest[high:]
    return group


def _one_of_each(groups: Groups, may: Asked, below: int | None) -> int | None:
    """The cheapest set that has one of each group and may go; None when none is below the weight."""
    best: list[int | None] = [None]
    bound = [below]
    steps = Work(STEPS_MAX)

    def go(some: int, weight: int, unhit: list[int], banned: int) -> None:
        steps.spend(1)
        if any(not group & ~banned for group in unhit):
            return
        if bound[0] is not None and weight + _least(unhit, groups, banned) >= bound[0]:
            return
        if not unhit:
            best[0], bound[0] = some, weight
            return
        for bit, own in groups[unhit[0]]:
            if bit & banned:
                continue
            if may(some | bit):
                go(some | bit, weight + own, [group for group in unhit if not group & bit], banned)
            banned |= bit

    go(0, 0, sorted(groups, key=_size), 0)  # The smallest groups first.
    return best[0]


def _least(unhit: Sequence[int], groups: Groups, banned: int) -> int:
    """What one of each of these costs at least: groups that have nobody in common are paid for one by one."""
    counted, least = 0, 0
    for group in unhit:
        if not group & counted:
            counted |= group
            least += next(own for bit, own in groups[group] if not bit & banned)
    return least


def _size(some: int) -> int:
    return some.bit_count()


def _mask(members: Sequence[int]) -> int:
    return sum(1 << k for k in members)
