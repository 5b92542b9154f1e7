"""Xid events of this machine's cards, numbered and told in every sample for some minutes.

The driver tells an event once, samples may be lost, and whoever listens may be away: what is said once only is said to
nobody. Numbers let the listener take each event once. The last ones stand in a file, for the next agent.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gangline_agent.journal import write_whole
from gangline_wire.samples import CardEvent

log = logging.getLogger(__name__)

KEPT_MS = 600_000
"""An event is told for so long."""
CARD_MOST = 32
"""Different Xids told of one card."""

Kept = dict[str, tuple[CardEvent, ...]]


class Xids:
    """What each card told lately; of several equal events the last, so that a flood of one kind hides no other."""

    def __init__(self, file: Path | None = None) -> None:
        """Remember in `file`, if there is one, and begin with what an agent before us left there."""
        self._file = file
        self._kept = _read(file)
        self._last = max((event.number for events in self._kept.values() for event in events), default=0)
        self._new: list[tuple[str, int]] = []

    def hear(self, told: Mapping[str, tuple[int, ...]]) -> None:
        """Take in what the driver told since the last look, by UUID; it is told from the next sample on."""
        self._new += [(uuid, xid) for uuid, xids in told.items() for xid in xids]

    def number(self, at: int) -> None:
        """Before a sample of this time: number what is new, and let go of what is old."""
        is_changed = bool(self._new)
        for uuid, xid in self._new:
            self._last = max(self._last + 1, at)
            others = tuple(event for event in self._kept.get(uuid, ()) if event.xid != xid)
            self._kept[uuid] = (*others, CardEvent(number=self._last, xid=xid))[-CARD_MOST:]
        self._new.clear()
        for uuid, events in list(self._kept.items()):
            if events[0].number < at - KEPT_MS:
                self._kept[uuid] = tuple(event for event in events if event.number >= at - KEPT_MS)
                is_changed = True
            if not self._kept[uuid]:
                del self._kept[uuid]
        if is_changed:
            self._write()

    def of(self, uuid: str) -> tuple[CardEvent, ...]:
        """The events of a card that are told now, oldest first."""
        return self._kept.get(uuid, ())

    def _write(self) -> None:
        if self._file is None:
            return
        try:
            write_whole(self._file, msgspec.json.encode(self._kept))
        except OSError as error:
            log.warning("events of cards cannot be remembered: %s", error)


def _read(file: Path | None) -> Kept:
    try:
        return {} if file is None else msgspec.json.decode(file.read_bytes(), type=Kept)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
