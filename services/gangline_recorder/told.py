"""What the public feed has already, so that a recorder that died between archive and feed tells the rest."""

from msgspec import Struct

from gangline_kit.bus import Bus
from gangline_wire import streams, subjects
from gangline_wire.codec import decode
from gangline_wire.requests import EventLine

Place = tuple[int, int]
"""Log sequence of an event's message, and its number within it."""


class Told(Struct, frozen=True):
    """The end of the feed: its newest events, before which nothing can be missing."""

    ids: frozenset[str]
    since: Place | None
    """The oldest of them; None when nothing is known of the feed's end, which is then taken to be whole."""

    def may_lack(self, seq: int) -> bool:
        """True when an event of this message, or of a later one, could be missing."""
        return self.since is not None and seq >= self.since[0]

    def lacks(self, event: str) -> bool:
        """True when an archived event is missing."""
        return self.since is not None and not self.has(event)

    def has(self, event: str) -> bool:
        """True when the event was told."""
        return event in self.ids or (self.since is not None and _place(event) <= self.since)


async def read_told(bus: Bus, *, window: int) -> Told:
    """Read the end of the feed: as much as may be out of order, which is what is in flight at once, twice.

    Raises:
        TemporaryError: the bus is away.
    """
    last = await bus.last_seq(streams.EVENTS.name)
    if last == 0:
        # Nothing was ever told.
        return Told(ids=frozenset(), since=(0, -1))
    begin = max(1, last - 2 * window + 1)
    ids: list[str] = []
    is_whole = begin == 1
    async for stored in bus.read_subject(streams.EVENTS.name, f"{subjects.EVENTS}.>", begin, follow=False):
        is_whole = is_whole and (bool(ids) or stored.seq == 1)
        ids.append(decode(stored.data, EventLine).id)
    if not ids:
        return Told(ids=frozenset(), since=None)
    return Told(ids=frozenset(ids), since=(0, -1) if is_whole else min(map(_place, ids)))


def _place(event: str) -> Place:
    seq, _, number = event.partition("-")
    return int(seq), int(number)
