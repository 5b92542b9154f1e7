"""What somebody knows, as one number that is worked out anew only where something changed.

All processes fold the same messages, so after each of them all must know the same. To encode every state after every
message would take most of a run; values that are kept are frozen, so that the ones that are still the same object
cannot have changed, and only the others are encoded.
"""

from operator import is_
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from gangline_core.kept import Kept, PoolState
from gangline_core.room.seen import SchedulerState
from gangline_core.scoring.decay import Past

CHANGE_IN_PLACE = (dict, Past, SchedulerState)
"""Values that may be the same object and yet another value: they are encoded each time."""

_encode = msgspec.json.Encoder().encode


class _Seen(Struct):
    """What one field held when it was looked at last."""

    keys: list[object] = []
    values: list[object] = []
    parts: list[int] = []
    """Of each its part of the sum."""
    loose: list[int] = []
    """Places of values that change in place."""


class Digest:
    """The digest of one process's state."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._sum = 0
        self._seen: dict[str, _Seen] = {}
        self._pools: set[str] = set()

    def of(self, kept: Kept) -> int:
        """The digest of what is kept now: equal for equal values, whatever the order in which they came."""
        if not self._pools <= set(kept.pools):
            self._sum, self._seen = 0, {}
        self._pools = set(kept.pools)
        plain = []
        for field, value in zip(Kept.__struct_fields__, astuple(kept), strict=True):
            if field == "pools":
                for name, pool in value.items():
                    self._pool(name, pool)
                plain.append(list(value))
            elif not isinstance(value, dict):
                plain.append(value)
            elif value or field in self._seen:
                self._note(field, value)
        return self._sum ^ hash(_encode(plain))

    def _pool(self, name: str, pool: PoolState) -> None:
        plain: dict[str, object] = {}
        for field, value in zip(PoolState.__struct_fields__, astuple(pool), strict=True):
            if not isinstance(value, dict):
                plain[field] = value
            elif value or f"{name}.{field}" in self._seen:
                self._note(f"{name}.{field}", value)
        self._note(f"{name}.", plain)

    def _note(self, field: str, now: dict[Any, object]) -> None:
        """One field has these entries now."""
        seen = self._seen.setdefault(field, _Seen())
        if len(now) < len(seen.keys) or not all(map(is_, seen.keys, now)):
            for part in seen.parts:
                self._sum ^= part
            seen = self._seen[field] = _Seen()
        count = len(seen.keys)
        changed: list[int] = seen.loose
        if not all(map(is_, seen.values, now.values())):
            same = map(is_, seen.values, now.values())
            changed = [*changed, *(place for place, is_same in enumerate(same) if not is_same)]
        elif len(now) == count and not changed:
            return
        keys, values = list(now), list(now.values())
        for place in (*changed, *range(count, len(keys))):
            value = values[place]
            part = hash((field, keys[place], _encode(value)))
            if place < count:
                self._sum ^= seen.parts[place] ^ part
                seen.parts[place] = part
            else:
                self._sum ^= part
                seen.parts.append(part)
                if isinstance(value, CHANGE_IN_PLACE):
                    seen.loose.append(place)
        seen.keys, seen.values = keys, values


class SameForAll:
    """What each message left behind, by whom it was folded first, and who found something else."""

    def __init__(self) -> None:
        """Nobody folded anything."""
        self._known: dict[int, int] = {}

    def fault(self, name: str, seq: int, digest: int) -> str:
        """What is wrong when this process knows so much after message `seq`; "" when it knows what others know."""
        known = self._known.setdefault(seq, digest)
        return "" if known == digest else f"{name} knows another state than others do"
