"""How much did each group and user use lately? Use of a pool's GPUs through time, its worth halved every half-life.

Nothing is ever decayed. Use at time t is written down multiplied by 2^((t - origin) / half-life), so old sums and new
use compare as they stand: a holder's sum changes only when what it holds changes, in whole numbers, and reading it is
one multiplication. All sums grow by the same factor as time goes on; now and then the origin moves and they shrink.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import isqrt

from msgspec import Struct

ONE = 1 << 40
"""1 in the fixed-point numbers here."""
INVERSE_LN2 = 1_586_259_972_792
"""1 / ln 2 in units of ONE."""
HALVINGS_MAX = 64
"""So many half-lives after the origin, it moves."""
_STEPS = 8192
_BITS = 160


class Past(Struct):
    """The sums of one pool."""

    half_life_ms: int = 604_800_000
    """That of the pool's policy; 0 never forgets."""
    origin_ms: int = 0
    sums: dict[str, int] = {}
    """Per group path (ancestors included) and user_key: what ended, less what began, each at its `worth`."""

    def note(self, holders: Iterable[str], change_milli: int, at: int) -> None:
        """These holders hold so much more (or less) from now on."""
        if not self.origin_ms:
            self.origin_ms = at
        if self.half_life_ms and at - self.origin_ms > HALVINGS_MAX * self.half_life_ms:
            self._move_origin(at)
        change = change_milli * self.worth(at)
        for holder in holders:
            value = self.sums.get(holder, 0) - change
            if value:
                self.sums[holder] = value
            else:
                self.sums.pop(holder, None)

    def used(self, holder: str, held_milli: int, at: int) -> int:
        """Decayed use in GPU thousandths times ms; `held_milli` is what the holder holds now."""
        return self.used_by({holder: held_milli}, at)(holder)

    def used_by(self, held_milli: Mapping[str, int], at: int) -> Callable[[str], int]:
        """Reads the decayed use of holders at one time, given what they hold now."""
        sums, worth, inflation = self.sums, self.worth(at), self._inflation(at)

        def used(holder: str) -> int:
            return max(0, sums.get(holder, 0) + held_milli.get(holder, 0) * worth) // inflation

        return used

    def reset(self, half_life_ms: int, rates: dict[str, int], at: int) -> None:
        """Go on with another half-life; what is remembered stays what it is worth now."""
        holders = sorted({*self.sums, *rates})
        now = {holder: self.used(holder, rates.get(holder, 0), at) for holder in holders}
        self.half_life_ms, self.origin_ms = half_life_ms, at
        worth = self.worth(at)
        self.sums = {holder: used * ONE - rates.get(holder, 0) * worth for holder, used in now.items()}

    def worth(self, at: int) -> int:
        """The antiderivative of the inflation at a time: use of 1 from a to b adds worth(b) - worth(a)."""
        if not self.half_life_ms:
            return (at - self.origin_ms) * ONE
        return (self._inflation(at) * self.half_life_ms * INVERSE_LN2) // ONE

    def _inflation(self, at: int) -> int:
        return exp2(at - self.origin_ms, self.half_life_ms) if self.half_life_ms else ONE

    def _move_origin(self, at: int) -> None:
        halvings = (at - self.origin_ms) // self.half_life_ms
        self.origin_ms += halvings * self.half_life_ms
        self.sums = {holder: value >> halvings for holder, value in self.sums.items() if value >> halvings}


@lru_cache(maxsize=64)
def exp2(part: int, whole: int) -> int:
    """2^(part / whole) in units of ONE, the same on every machine; `whole` is positive."""
    doublings, rest = divmod(part, whole)
    step, inside = divmod(rest * _STEPS, whole)
    low, high = _TABLE[step], _TABLE[step + 1]
    value = low + (high - low) * inside // whole
    return value << doublings if doublings >= 0 else value >> -doublings


def _table() -> tuple[int, ...]:
    """2^(k / _STEPS) for k from 0 to _STEPS, by repeated square roots of 2 in whole numbers."""
    root = 2 << _BITS
    for _ in range(_STEPS.bit_length() - 1):
        root = isqrt(root << _BITS)
    powers = [1 << _BITS]
    for _ in range(_STEPS):
        powers.append(powers[-1] * root >> _BITS)
    shift = _BITS - (ONE.bit_length() - 1)
    return tuple(power >> shift for power in powers)


_TABLE = _table()
